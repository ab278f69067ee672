"""How long a worker may believe that its claims are its own, by a clock that goes on while the machine sleeps."""

from __future__ import annotations

import time
from functools import partial

GRACE_S = 1.0  # how long a worker whose lock is free has to say that it lives: asyncq._grace()
HALF_GRACE_S = GRACE_S / 2  # then it cancels its handlers: so they have the other half to end
BEATS_A_LEASE = 3
SAFETY = 1 / 6  # this part of the lease is left to handlers that are cancelled before it ends

LOOK_S = 0.25  # how often some worker looks whether others have died
SHORTEST_LOOK_S = 0.5  # how often one worker does, at most
TICK_S = 0.1  # how often the heartbeat's thread records that it runs

# Seconds on a clock that is never set, and goes on while the machine sleeps where the system has one.
now_s = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Lease:
    """The lease of one worker, as it knows it: read by the event loop, written by the heartbeat's thread.

    Args:
        length_s: How long it is.

    Attributes:
        ends_at: When handlers have to be cancelled, unless a sign of life is written before.
        is_fresh_until: Until when jobs may start without another beat: half a grace after the last tick. It is over
            from the moment at which the process is found to have been stopped until a later beat is answered.
    """

    __slots__ = (
        "_proven_at",
        "_server_ahead_s",
        "_stopped_until",
        "_ticked_at",
        "ends_at",
        "is_fresh_until",
        "length_s",
    )

    def __init__(self, length_s: float) -> None:
        self.length_s = length_s
        self._proven_at = self._ticked_at = self._stopped_until = now_s()
        self.is_fresh_until = -1.0
        self._server_ahead_s = float("inf")
        self.end()

    def prove(self, at: float) -> None:
        """A sign of life was written, which was sent at this time: the server's clock began later."""
        self._proven_at = at
        self.ends_at = at + self.length_s * (1 - SAFETY)
        self.tick()

    def tick(self) -> None:
        """Record that the heartbeat's thread runs; called every `TICK_S`.

        After a pause of half a grace the process was stopped, or the machine slept: the lock may have been free since,
        and other workers may have taken over.
        """
        now = now_s()
        if now - self._ticked_at > HALF_GRACE_S:
            self._stopped_until = now
        self._ticked_at = now
        self.is_fresh_until = now + HALF_GRACE_S if self._proven_at > self._stopped_until else -1.0

    def end(self) -> None:
        """Others may take over."""
        self.ends_at = -1.0

    def clocked(self, clock_s: float, sent_at: float) -> None:
        """Record the server's clock, in seconds since 1970: the answer to a statement that was sent at this time."""
        self._server_ahead_s = clock_s - sent_at

    def is_late(self, clock_s: float) -> bool:
        """Whether a rescue may have taken a claim: by the server's clock it is older than half a grace.

        Every claim is late while that clock is unknown, and after it was set.
        """
        return abs(now_s() + self._server_ahead_s - clock_s) > HALF_GRACE_S

    @property
    def is_held(self) -> bool:
        """Whether nobody else takes over for now, so that jobs may start."""
        return now_s() < self.ends_at

    @property
    def is_fresh(self) -> bool:
        """Whether the process has run without a pause since a beat was answered."""
        return now_s() < self.is_fresh_until

    @property
    def silent_s(self) -> float:
        """How long ago the last sign of life was written."""
        return now_s() - self._proven_at


def look_in_s(clock_s: float, workers: int, place: int) -> float:
    """When to look next whether other workers have died: they take turns, so that one of them looks every `LOOK_S`.

    Args:
        clock_s: The server's time, which all of them share.
        workers: How many there are.
        place: How many come before this one.

    Returns:
        Seconds from now.
    """
    round_s = max(workers * LOOK_S, SHORTEST_LOOK_S)
    wait_s = (place * LOOK_S - clock_s) % round_s
    # It has just looked, a little early: this turn is done.
    return wait_s if wait_s >= LOOK_S / 2 else wait_s + round_s
