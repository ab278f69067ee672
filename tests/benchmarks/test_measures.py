"""What is computed from times at which something was seen."""

import pytest

from benchmarks.peers.asyncq.tasks import nap_s
from benchmarks.suite.cliffs import rate_between
from benchmarks.suite.latency import percentiles
from benchmarks.suite.loads import idle_share
from benchmarks.suite.places import Unfit

SECOND = 10**9


def test_the_rate_between_two_counts_is_read_from_straight_lines() -> None:
    """Counts are heard each few milliseconds, not at round numbers."""
    marks = [(0, 0), (1 * SECOND, 100), (3 * SECOND, 200)]

    assert (100.0, 50.0) == (rate_between(marks, 0, 50), rate_between(marks, 100, 200))


def test_a_count_that_nobody_saw_is_no_figure() -> None:
    """It would be made up."""
    with pytest.raises(Unfit):
        rate_between([(0, 0), (SECOND, 100)], 0, 101)


def test_slots_that_are_always_taken_have_no_idle_share() -> None:
    """One slot, each job right after the other."""
    starts = [(0, 0), (1, int(nap_s(0) * SECOND)), (2, int((nap_s(0) + nap_s(1)) * SECOND))]

    assert idle_share(starts, 1) == pytest.approx(0, abs=1e-6)


def test_a_slot_that_nobody_uses_counts_as_idle() -> None:
    """Jobs that wait in the buffer of one worker leave the others idle."""
    starts = [(0, 0), (1, int(nap_s(0) * SECOND))]

    assert idle_share(starts, 2) == pytest.approx(0.5)


def test_the_tail_is_read_from_sorted_delays() -> None:
    """The median is the figure, the tail a detail."""
    assert {"value": 50.0, "p95": 95.0, "p99": 99.0} == percentiles([float(delay) for delay in range(100)])
