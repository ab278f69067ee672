"""Rates and idle times are computed from timestamps of observations."""

import pytest

from benchmarks.peers.asyncq.tasks import nap_s
from benchmarks.suite.cliffs import rate_between
from benchmarks.suite.drains import called, check
from benchmarks.suite.latency import percentiles
from benchmarks.suite.limits import gaps_ms
from benchmarks.suite.loads import idle_share
from benchmarks.suite.places import Unfit

SECOND = 10**9


def test_the_rate_between_two_counts_is_read_from_straight_lines() -> None:
    """Counts are observed every few milliseconds, not at round numbers."""
    marks = [(0, 0), (1 * SECOND, 100), (3 * SECOND, 200)]

    assert (100.0, 50.0) == (rate_between(marks, 0, 50), rate_between(marks, 100, 200))


def test_a_count_that_was_never_observed_is_no_figure() -> None:
    """Such a figure would be invented."""
    with pytest.raises(Unfit):
        rate_between([(0, 0), (SECOND, 100)], 0, 101)


def test_slots_that_are_always_taken_have_no_idle_share() -> None:
    """One slot, each job right after the other."""
    starts = [(0, 0), (1, int(nap_s(0) * SECOND)), (2, int((nap_s(0) + nap_s(1)) * SECOND))]

    assert idle_share(starts, 1) == pytest.approx(0, abs=1e-6)


def test_an_unused_slot_counts_as_idle() -> None:
    """Jobs that wait in the buffer of one worker leave the others idle."""
    starts = [(0, 0), (1, int(nap_s(0) * SECOND))]

    assert idle_share(starts, 2) == pytest.approx(0.5)


def test_the_tail_is_read_from_sorted_delays() -> None:
    """The median is the figure, the tail a detail."""
    assert {"value": 50.0, "p95": 95.0, "p99": 99.0} == percentiles([float(delay) for delay in range(100)])


def test_a_gap_is_the_time_from_an_end_to_the_next_start() -> None:
    """The call itself is not part of it, nor is the time before the first one."""
    notes = [(0, 0), (1, 5_000_000), (4, 6_000_000), (5, 11_000_000), (2, 14_000_000), (3, 19_000_000)]

    assert [1.0, 3.0] == gaps_ms(notes)


@pytest.mark.parametrize("order", [(0, 2, 1, 3), (0, 2, 3, 1), (1, 0, 2, 3)])
def test_calls_that_overlap_make_the_run_unfit(order: tuple[int, ...]) -> None:
    """A limit that is exceeded would look fast."""
    with pytest.raises(Unfit, match="in spite of the limit"):
        gaps_ms([(number, at) for at, number in enumerate(order)])


class Gone:
    """A program that ends before its first line of output."""

    calls = 0

    async def hear(self, kind: str) -> None:
        raise Unfit("it ended")


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_worker_that_ends_makes_the_run_unfit(workers: int) -> None:
    """The suite notes it and continues."""
    with pytest.raises(Unfit, match="it ended"):
        await called([Gone() for _ in range(workers)], 10)


@pytest.mark.parametrize(("calls", "total"), [(9, 45), (11, 45), (10, 46)])
def test_jobs_that_were_lost_or_ran_twice_make_the_run_unfit(calls: int, total: int) -> None:
    """Ten jobs have the ids 0 to 9."""
    with pytest.raises(Unfit):
        check("asyncq", [{"calls": calls, "total": total}], 10)


def test_two_workers_that_share_the_jobs_are_fit() -> None:
    """Only the sum of all workers has to match."""
    assert [4, 6] == check("asyncq", [{"calls": 4, "total": 15}, {"calls": 6, "total": 30}], 10)
