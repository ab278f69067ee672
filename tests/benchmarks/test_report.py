"""The table and the picture show what the runs hold."""

import xml.etree.ElementTree as ElementTree

from benchmarks.suite.picture import picture
from benchmarks.suite.report import number, report
from tests.benchmarks.made import result, runs

RUNS = [
    *runs("drain", "floor", "best", 100_000.0, 110_000.0),
    *runs("drain", "asyncq", "default", 80_000.0, 90_000.0),
    *runs("drain", "graphile", "best", 50_000.0, 60_000.0),
]


def test_the_fastest_comes_first_with_its_share_of_the_floor() -> None:
    """A table is read from above."""
    rows = [line for line in report(result(*RUNS)).splitlines() if line.startswith("| W3")]

    assert [
        "| W3 drain, one process, jobs/s | floor (best) | 105,000 | 100,000 - 110,000 | 1.00 | 2 |",
        "| W3 drain, one process, jobs/s | **asyncq** | 85,000 | 80,000 - 90,000 | 0.81 | 2 |",
        "| W3 drain, one process, jobs/s | graphile-worker (best) | 55,000 | 50,000 - 60,000 | 0.52 | 2 |",
    ] == rows


def test_a_missed_goal_is_marked() -> None:
    """The report hides nothing, but a figure within 5 % of its goal counts as met."""
    ratios = {"drain_vs_floor": (0.6, 0.5, 0.7), "latency_p50_vs_floor": (0.68, 0.6, 0.7)}
    lines = report(result(*RUNS, ratios=ratios)).splitlines()

    assert ["| drain, to the floor | >= 0.65 | **0.60** (missed) | 0.50 - 0.70 |"] == [
        line for line in lines if "missed" in line
    ]


def test_a_run_that_failed_is_reported() -> None:
    """A figure that silently ignores failures would be wrong."""
    lines = report(result(*RUNS, *runs("drain", "oban", "best", None))).splitlines()

    assert "- failed: main, drain, oban (best), rotation 1, lap 1: lost a job" in lines


def test_the_picture_is_well_formed_and_has_one_bar_for_each_queue() -> None:
    """Browsers refuse malformed SVG."""
    tree = ElementTree.fromstring(picture(result(*RUNS)))
    named = [element.text for element in tree.iter() if element.get("text-anchor") == "end"]

    assert ["floor", "asyncq", "graphile-worker"] == named


def test_a_number_has_as_many_digits_as_mean_something() -> None:
    """A rate needs no more digits than are significant."""
    assert ["12,346", "23.5", "1.23"] == [number(value) for value in (12_345.6, 23.456, 1.2345)]
