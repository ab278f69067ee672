"""A result file has every run, and its figures are computed from them alone."""

from pathlib import Path

from benchmarks.suite.result import MAIN, Result, ratio, series
from tests.benchmarks.made import result, runs


def test_a_saved_result_is_read_back_as_it_was(tmp_path: Path) -> None:
    """Results of different months are compared."""
    made = result(*runs("drain", "asyncq", "default", 3.0, None, calls=7), ratios={"drain_vs_floor": (0.8, 0.7, 0.9)})
    made.save(tmp_path / "result.json")

    assert made == Result.load(tmp_path / "result.json")


def test_a_run_that_failed_has_no_part_in_the_median() -> None:
    """A lost job is not a fast job."""
    figures = series(runs("drain", "asyncq", "default", 3.0, None, 5.0, 4.0), MAIN, "drain", "asyncq", "default")

    assert (4.0, (3.0, 5.0)) == (figures.median, figures.spread)


def test_a_ratio_is_that_of_the_medians_and_its_range_that_of_the_rotations() -> None:
    """The machine drifts: only what ran in the same rotation is compared for the range."""
    ours = series(runs("drain", "asyncq", "default", 10.0, 20.0, 30.0), MAIN, "drain", "asyncq", "default")
    theirs = series(runs("drain", "floor", "best", 10.0, 10.0, 20.0), MAIN, "drain", "floor", "best")

    assert (2.0, (1.0, 2.0)) == ratio(ours, theirs)


def test_without_runs_of_both_queues_there_is_no_ratio() -> None:
    """A queue that could not be installed has no figure, and none is made up."""
    ours = series(runs("drain", "asyncq", "default", 10.0), MAIN, "drain", "asyncq", "default")

    assert ratio(ours, series([], MAIN, "drain", "floor", "best")) is None


def test_a_ratio_and_its_range_are_of_the_rotations_that_both_have() -> None:
    """Slow queues and long works have fewer turns. In other rotations the machine may differ."""
    ours = series(runs("drain", "asyncq", "default", 10.0, 20.0, 90.0), MAIN, "drain", "asyncq", "default")
    theirs = series(runs("drain", "oban", "best", 10.0, 10.0), MAIN, "drain", "oban", "best")

    assert (1.5, (1.0, 2.0)) == ratio(ours, theirs)
