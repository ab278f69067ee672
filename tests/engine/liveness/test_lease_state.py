"""The state of a worker's lease: the table of transitions, and the events that end each state."""

import asyncio
from collections.abc import Callable

import pytest

from asyncq.engine.base.lease import Lease, now_s
from asyncq.engine.liveness import lease_state
from asyncq.engine.liveness.lease_state import LeaseState, State
from tests.support.waiting import wait_until

LOST_LOCK = "the connection that holds its lock was lost"
LEASE_ENDS = "its lease is about to end"


class Worker:
    """A lease state, with the doubts and reasons that it reported."""

    def __init__(self, lease_s: float = 3600.0) -> None:
        self.lease = Lease(lease_s)
        self.doubts: list[float] = []
        self.reasons: list[str] = []
        self.standing = LeaseState(self.lease, lambda: self.doubts.append(now_s()), self.reasons.append)

    def bring(self, state: State) -> None:
        """Let it get there."""
        if state != "nobody":
            self.standing.proven(now_s(), holds=state != "leased")
        if state in ("doubted", "given up"):
            self.standing.lock_is_free()
        if state == "given up":
            self.standing._doubt_over()
        assert state == self.standing.state


STATES: tuple[State, ...] = ("nobody", "locked", "leased", "doubted", "given up")
EVENTS: dict[str, Callable[[LeaseState], object]] = {
    "proven with the lock": lambda it: it.proven(now_s(), holds=True),
    "proven without it": lambda it: it.proven(now_s(), holds=False),
    "the lock is free": lambda it: it.lock_is_free(),
    "the lock is in hand again": lambda it: it.locked_again(),
    "the server cannot write": lambda it: it.refused(),
    "the row is gone": lambda it: it.lost(),
    "the worker stops": lambda it: it.leave(),
}
# Each event, and the state to which it leads from each of the states above.
TABLE: dict[str, tuple[State, ...]] = {
    "proven with the lock": ("locked",) * 5,
    "proven without it": ("leased",) * 5,
    "the lock is free": ("nobody", "doubted", "leased", "doubted", "given up"),
    "the lock is in hand again": ("nobody", "locked", "leased", "locked", "given up"),
    "the server cannot write": ("nobody", "locked", "leased", "doubted", "given up"),
    "the row is gone": ("nobody",) * 5,
    "the worker stops": ("nobody",) * 5,
}


@pytest.mark.parametrize("event", TABLE)
@pytest.mark.parametrize("before", STATES)
async def test_each_event_leads_to_the_state_of_the_table(before: State, event: str) -> None:
    """A worker whose state differs from the others' view of its lock would run jobs that others run too."""
    worker = Worker()
    worker.bring(before)
    EVENTS[event](worker.standing)

    assert TABLE[event][STATES.index(before)] == worker.standing.state
    worker.standing.leave()


@pytest.mark.parametrize("state", STATES)
async def test_the_lease_is_held_in_three_states(state: State) -> None:
    """In the other states no job may start."""
    worker = Worker()
    worker.bring(state)

    assert (state in ("locked", "leased", "doubted")) == worker.lease.is_held
    worker.standing.leave()


@pytest.mark.parametrize("state", ["locked", "leased", "doubted"])
async def test_a_worker_whose_lease_is_about_to_end_is_given_up(state: State) -> None:
    """It gives up in each state, since by the server's clock others may take over."""
    worker = Worker(lease_s=0.0)
    worker.bring(state)
    await wait_until(lambda: worker.standing.state == "given up", description="the end of the lease")

    assert [LEASE_ENDS] == worker.reasons


async def test_a_doubt_is_over_after_half_of_the_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The handlers have the other half to end."""
    monkeypatch.setattr(lease_state, "HALF_GRACE_S", 0.01)
    worker = Worker()
    worker.standing.proven(now_s(), holds=True)
    worker.standing.lock_is_free()
    worker.standing.lock_is_free()
    await wait_until(lambda: worker.standing.state == "given up", description="the end of the doubt")

    assert (1, [LOST_LOCK], False) == (len(worker.doubts), worker.reasons, worker.lease.is_held)


async def test_a_doubt_continues_while_no_server_is_there() -> None:
    """Nobody can take over then."""
    worker = Worker()
    worker.bring("doubted")
    worker.standing.refused()
    worker.standing._doubt_over()

    assert ("doubted", []) == (worker.standing.state, worker.reasons)
    worker.standing.leave()


async def test_a_lock_that_is_in_hand_again_ends_the_doubt_and_leaves_the_lease_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No beat was written: the lease is as old as before."""
    monkeypatch.setattr(lease_state, "HALF_GRACE_S", 0.0)
    worker = Worker(lease_s=0.1)
    worker.bring("doubted")
    worker.standing.locked_again()
    await wait_until(lambda: worker.standing.state == "given up", description="the end of the lease")

    assert [LEASE_ENDS] == worker.reasons


async def test_a_state_that_was_left_does_not_give_up_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its timers would end the lease of the worker's next registration."""
    monkeypatch.setattr(lease_state, "HALF_GRACE_S", 0.0)
    worker = Worker(lease_s=0.0)
    worker.bring("doubted")
    worker.standing.leave()
    fired = asyncio.Event()
    asyncio.get_running_loop().call_later(0.005, fired.set)
    await fired.wait()

    assert ("nobody", []) == (worker.standing.state, worker.reasons)


async def test_a_beat_reports_whether_the_worker_had_lost_its_lease() -> None:
    """Its jobs may then start again."""
    worker = Worker()
    said = [worker.standing.proven(now_s(), holds=holds) for holds in (True, False)]
    worker.standing.lost()
    said.append(worker.standing.proven(now_s(), holds=True))

    assert [True, False, True] == said
    worker.standing.leave()
