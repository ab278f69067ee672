"""The lease from its worker's view, and the turns in which workers look for dead ones."""

from itertools import pairwise

import pytest

from asyncq.engine.base import lease as module
from asyncq.engine.base.lease import LOOK_S, SHORTEST_LOOK_S, Lease, look_in_s


def test_a_lease_is_not_held_before_it_was_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is not known starts nothing."""
    assert not Lease(30).is_held


@pytest.mark.parametrize(("later", "held"), [(0, True), (24.9, True), (25.1, False)])
def test_a_sixth_of_the_lease_is_left_to_handlers_that_are_cancelled(
    monkeypatch: pytest.MonkeyPatch, later: float, held: bool
) -> None:
    """They have to end before others take over."""
    times = [100.0]
    monkeypatch.setattr(module, "now_s", lambda: times[0])
    lease = Lease(30)
    lease.prove(100.0)
    times[0] += later

    assert held is lease.is_held
    assert later == pytest.approx(lease.silent_s)


@pytest.mark.parametrize(("age_s", "late"), [(0.0, False), (0.4, False), (0.6, True), (-0.6, True)])
def test_a_claim_is_late_half_a_grace_after_it_was_made(
    monkeypatch: pytest.MonkeyPatch, age_s: float, late: bool
) -> None:
    """The server's clock decides. If it was set, the age is unknown."""
    times = [100.0]
    monkeypatch.setattr(module, "now_s", lambda: times[0])
    lease = Lease(30)
    unknown = lease.is_late(5_000.0)
    lease.clocked(5_000.0, 100.0)
    times[0] += 20.0

    assert (True, late) == (unknown, lease.is_late(5_020.0 - age_s))


def test_a_lease_that_was_ended_is_held_again_when_it_is_proven() -> None:
    """The worker was only in doubt."""
    lease = Lease(30)
    lease.prove(module.now_s())
    lease.end()
    ended = lease.is_held
    lease.prove(module.now_s())

    assert (False, True) == (ended, lease.is_held)


@pytest.mark.parametrize(
    ("pauses", "fresh"), [([], True), ([0.4] * 20, True), ([0.6], False), ([0.1, 5.0, 0.1], False), ([0.6, -1], False)]
)
def test_a_process_that_was_stopped_is_fresh_again_only_after_a_later_beat(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float], fresh: bool
) -> None:
    """The answer to a beat that was sent before the stop (-1) proves nothing."""
    times = [100.0]
    monkeypatch.setattr(module, "now_s", lambda: times[0])
    lease = Lease(30)
    lease.prove(times[0] + 0.01)
    for pause in pauses:
        if pause > 0:
            times[0] += pause
            lease.tick()
        else:
            lease.prove(100.2)
    was_fresh = lease.is_fresh
    lease.prove(times[0] + 0.01)

    assert (fresh, True) == (was_fresh, lease.is_fresh)


def test_jobs_do_not_start_before_the_first_tick_after_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop may run before the heartbeat's thread does."""
    times = [100.0]
    monkeypatch.setattr(module, "now_s", lambda: times[0])
    lease = Lease(30)
    lease.prove(100.1)
    times[0] += 0.6

    assert (True, False) == (lease.is_held, lease.is_fresh)


@pytest.mark.parametrize("workers", [2, 3, 8, 64])
def test_workers_check_in_turn_at_equal_intervals(workers: int) -> None:
    """Whenever they were started, after one round each has its place."""
    looks: list[float] = []
    for place in range(workers):
        clock_s = 1000.0 + place * 0.0137
        for _ in range(3):
            clock_s += look_in_s(clock_s, workers, place)
            looks.append(clock_s)
    last = sorted(look for look in looks if 1000 + workers * LOOK_S <= look < 1000 + 2 * workers * LOOK_S)

    assert workers == len(last)
    assert [pytest.approx(LOOK_S)] * (workers - 1) == [after - before for before, after in pairwise(last)]


@pytest.mark.parametrize("early_s", [-0.4 * LOOK_S, -0.01, 0.0, 0.01, 0.4 * LOOK_S])
def test_a_check_that_comes_a_little_early_or_late_is_one_check(early_s: float) -> None:
    """Timers are not exact, so a worker would otherwise check twice."""
    round_s = 64 * LOOK_S

    assert look_in_s(round_s - early_s, 64, 0) > round_s - LOOK_S


def test_a_single_worker_checks_for_others_too() -> None:
    """A restarted worker finds the claims of its former process, and a new worker is watched soon."""
    assert LOOK_S / 2 <= look_in_s(1000.1, 1, 0) <= SHORTEST_LOOK_S + LOOK_S / 2
