"""The model says what its parts say, and nothing that was not put into it."""

import pytest

from benchmarks.scale import model
from benchmarks.scale.model import Machine
from tests.benchmarks.scale_made import ADD, PARTS

QUICK = Machine(cores=1_000, fsync_ms=0.0, trip_ms=0.0)
SHARED = Machine(cores=2, fsync_ms=0.0, trip_ms=0.0, is_shared=True)


def test_parts_that_overlap_perfectly_have_the_rate_of_the_slowest() -> None:
    """Waiting for the slowest part hides the time of the others."""
    assert model.rate({"a": 100.0, "b": 1000.0}, 16.0) == pytest.approx(100.0, rel=0.001)


def test_parts_that_never_overlap_add_up_their_times() -> None:
    """A hundredth of a second and another one are two."""
    assert model.rate({"a": 100.0, "b": 100.0}, 1.0) == pytest.approx(50.0)


@pytest.mark.parametrize("overlap", [1.2, 2.0, 5.0])
def test_a_fitted_overlap_reproduces_the_measured_rate(overlap: float) -> None:
    """It is found by bisection: a rate grows with the overlap."""
    bounds = model.drain_bounds(PARTS, SHARED, 1)

    assert model.fitted_overlap(bounds, model.rate(bounds, overlap)) == pytest.approx(overlap, rel=1e-6)


def test_a_rate_outside_the_bounds_gives_the_nearest_overlap() -> None:
    """A disturbed run may be slower than all times in a row, or faster than the slowest part."""
    bounds = model.drain_bounds(PARTS, SHARED, 1)

    assert model.fitted_overlap(bounds, 1.0) == pytest.approx(model.LEAST_OVERLAP)
    assert model.fitted_overlap(bounds, 1e9) == pytest.approx(model.MOST_OVERLAP)


def test_programs_that_share_cores_with_the_server_pay_for_both() -> None:
    """Ten microseconds of each, on two cores."""
    assert 100_000 == model.drain_bounds(PARTS, SHARED, 1)["cores of all"]


def test_a_server_of_its_own_pays_for_itself_alone() -> None:
    """Workers have cores elsewhere."""
    bounds = model.drain_bounds(PARTS, Machine(cores=2, fsync_ms=0.0, trip_ms=0.0), 1)

    assert 200_000 == bounds["cores of the server"]


@pytest.mark.parametrize(("machine", "expected"), [(QUICK, 100_000), (QUICK._replace(fsync_ms=5.0), 50_000)])
def test_a_slow_disk_limits_a_process_by_its_batches(machine: Machine, expected: int) -> None:
    """500 jobs in the time of their statement, 2.5 ms, and one and a half writes."""
    bounds = model.drain_bounds(PARTS, machine, 1)

    assert min(bounds.values()) == pytest.approx(expected, rel=0.01)


def test_twice_as_many_processes_wait_for_the_disk_at_once() -> None:
    """Their commits share its writes."""
    one, two = (model.drain_bounds(PARTS, QUICK._replace(fsync_ms=5.0), count) for count in (1, 2))

    assert two["disk and round trip"] == 2 * one["disk and round trip"]


def test_the_rate_is_limited_by_the_bandwidth_of_the_log() -> None:
    """300 MB a second, and 600 bytes a job."""
    assert 500_000 == model.drain_bounds(PARTS, QUICK, 8)["log"]


def test_a_fetch_skips_the_jobs_that_others_are_claiming() -> None:
    """Half a microsecond for each: two million a second use the whole second."""
    alone, beside = (model.drain_bounds(PARTS, QUICK, count) for count in (1, 2))

    assert 2_000_000 == beside["claims of others"]
    assert "claims of others" not in alone


def test_no_more_processes_are_named_than_are_useful() -> None:
    """The log is saturated by a few processes."""
    assert 8 == model.crew_for(PARTS, QUICK)


def test_one_producer_pays_for_everything_in_turn() -> None:
    """0.3 ms of CPU, 0.5 ms to the server and back, 0.2 ms of the disk."""
    bounds = model.add_bounds(ADD, Machine(cores=64, fsync_ms=0.2, trip_ms=0.5), 1)

    assert {"waiting for each add": pytest.approx(1000.0)} == bounds


def test_many_producers_reach_the_limit_of_the_server() -> None:
    """Their waiting overlaps."""
    bounds = model.add_bounds(ADD, Machine(cores=4, fsync_ms=0.2, trip_ms=0.5), 64)

    assert ("cores of the server", pytest.approx(20_000.0)) == (model.limit(bounds), min(bounds.values()))


def test_every_machine_of_the_table_is_estimated() -> None:
    """The table has each number of cores with each disk and each round trip. A larger machine is never slower."""
    found = {(each.cores, each.fsync_ms, each.trip_ms): each for each in model.estimates(PARTS)}

    assert 27 == len(found)
    for (cores, fsync_ms, trip_ms), each in found.items():
        assert each.workers <= model.MOST_WORKERS
        assert each.drain >= found[4, fsync_ms, trip_ms].drain
        assert each.add >= found[cores, 5.0, trip_ms].add
        assert each.add_one >= found[cores, fsync_ms, 2.0].add_one
