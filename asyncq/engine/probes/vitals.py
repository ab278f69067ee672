"""The state of one worker as probes see it: whether it lives, and whether it takes jobs."""

from collections.abc import Callable

import msgspec

from asyncq.engine.base.identity import Identity
from asyncq.engine.base.lease import Lease
from asyncq.engine.run.run import Run


class Vitals(msgspec.Struct, frozen=True):
    """The parts of a worker that probes read, in any thread.

    Attributes:
        concurrency: How many jobs it runs at once.
        running: How many run now.
        stuck: How many of these ignore that they were cancelled.
        is_stopping: Whether it was asked to stop.
        blocking: The run whose handler the event loop is in at this moment; None if it is in other code.
    """

    identity: Identity
    lease: Lease
    concurrency: int
    running: Callable[[], int]
    stuck: Callable[[], int]
    is_stopping: Callable[[], bool]
    blocking: Callable[[], Run | None]


def ill(vitals: Vitals | None, silent_s: float, unhealthy_after_s: float) -> str | None:
    """Why the worker does not live: its event loop has not answered for too long. None if it lives."""
    if silent_s < unhealthy_after_s:
        return None
    run = None if vitals is None else vitals.blocking()
    who = "code that is not one of its handlers" if run is None else f"job {run.claim.id} ({run.task.name})"
    return f"the event loop has not answered for {silent_s:.1f} s, blocked by {who}"


def unready(vitals: Vitals | None) -> str | None:
    """Why the worker takes no jobs; None if it takes some.

    A worker registers only if its schema is in order, and stops once it is not.
    """
    if vitals is None:
        return "the worker has not begun"
    if vitals.is_stopping():
        return "the worker stops"
    if not vitals.identity.worker_id:
        return "the worker is not registered"
    if not vitals.lease.is_held:
        return f"no heartbeat was written for {vitals.lease.silent_s:.1f} s"
    return None
