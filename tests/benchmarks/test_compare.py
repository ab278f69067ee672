"""A comparison that cries wolf is not read, and one that sleeps is worth nothing."""

import pytest

from benchmarks.suite.compare import compare, lines
from tests.benchmarks.made import result

OLD = (1.0, 0.9, 1.1)


@pytest.mark.parametrize(
    ("new", "verdict"),
    [
        pytest.param((1.04, 1.03, 1.05), "same", id="less than a twentieth is nothing"),
        pytest.param((0.8, 0.7, 0.85), "worse", id="no rotation was as good as the worst one then"),
        pytest.param((1.3, 1.2, 1.4), "better", id="every rotation was better than the best one then"),
        pytest.param((0.85, 0.8, 0.95), "perhaps worse", id="the ranges touch, the medians lie outside"),
        pytest.param((1.15, 1.05, 1.3), "perhaps better", id="the same upwards"),
        pytest.param((0.8, 0.5, 1.2), "same", id="its range holds the old median"),
    ],
)
def test_a_change_is_judged_by_the_ranges_of_the_rotations(new: tuple[float, float, float], verdict: str) -> None:
    """Five rotations of each are compared. Ranges that do not overlap are hardly chance."""
    [change] = compare(result(ratios={"drain_vs_floor": OLD}), result(ratios={"drain_vs_floor": new}))

    assert verdict == change.verdict


def test_a_shorter_latency_is_better() -> None:
    """A lower figure is better there."""
    old, new = (result(ratios={"latency_p50_vs_floor": figure}) for figure in (OLD, (0.7, 0.6, 0.8)))

    assert ["better"] == [change.verdict for change in compare(old, new)]


def test_a_work_of_only_one_result_is_left_out() -> None:
    """A new work has nothing to be compared with."""
    assert [] == compare(result(ratios={"drain_vs_floor": OLD}), result())


def test_a_comparison_has_a_line_for_each_figure() -> None:
    """The comparison is printed in the log of CI."""
    changes = compare(result(ratios={"drain_vs_floor": OLD}), result(ratios={"drain_vs_floor": (0.5, 0.4, 0.6)}))

    assert "drain_vs_floor      1.00 ->     0.50  x 0.50  worse" == lines(changes)
