"""How long a worker may rely on its claims, by a clock that runs while the machine sleeps."""

import time
from functools import partial

GRACE_S = 1.0  # how long a worker whose lock is free may take to prove that it lives: asyncq._grace()
HALF_GRACE_S = GRACE_S / 2  # after this it cancels its handlers, which have the other half to end
BEATS_A_LEASE = 3
SAFETY = 1 / 6  # this part of the lease remains for handlers that are cancelled before its end

LOOK_S = 0.15  # how often one of the workers checks whether others have died
SHORTEST_LOOK_S = 0.3  # the shortest time between two checks of one worker
TICK_S = 0.1  # how often the heartbeat's thread records that it runs

# Seconds on a clock that is never set, and runs while the machine sleeps, if the system has one.
now_s = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Lease:
    """A worker's own view of its lease: read by the event loop, written by the heartbeat's thread.

    Attributes:
        ends_at: The time at which handlers must be cancelled, unless a heartbeat is written before.
        is_fresh_until: The time until which jobs may start without another beat: half a grace after the last tick. A
            pause of the process ends it, until a later beat is answered.
    """

    def __init__(self, length_s: float) -> None:
        self.length_s = length_s
        self._proven_at = self._ticked_at = self._stopped_until = now_s()
        self.is_fresh_until = -1.0
        self._server_ahead_s = float("inf")
        self.end()

    def prove(self, at: float) -> None:
        """Record a heartbeat that was written, by the time at which it was sent: the server's lease began later."""
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
        """End the lease: other workers may take over."""
        self.ends_at = -1.0

    def clocked(self, clock_s: float, sent_at: float) -> None:
        """Record the server's clock, in seconds since 1970: the answer to a statement that was sent at this time."""
        self._server_ahead_s = clock_s - sent_at

    def is_late(self, clock_s: float) -> bool:
        """Whether a rescue may have returned a claim: by the server's clock it is older than half a grace.

        Every claim is late while that clock is unknown, and after a change of it.
        """
        return abs(now_s() + self._server_ahead_s - clock_s) > HALF_GRACE_S

    @property
    def server_clock_s(self) -> float | None:
        """The server's clock in seconds since 1970; None while it is unknown."""
        return None if self._server_ahead_s == float("inf") else now_s() + self._server_ahead_s

    @property
    def is_held(self) -> bool:
        """Whether no other worker may take over for now, so that jobs may start."""
        return now_s() < self.ends_at

    @property
    def is_fresh(self) -> bool:
        """Whether the process has run without a pause since the last answered beat."""
        return now_s() < self.is_fresh_until

    @property
    def silent_s(self) -> float:
        """The seconds since the last written heartbeat."""
        return now_s() - self._proven_at


def look_in_s(clock_s: float, workers: int, place: int) -> float:
    """The seconds until the next check for dead workers, which take turns, so that one checks every `LOOK_S`."""
    round_s = max(workers * LOOK_S, SHORTEST_LOOK_S)
    wait_s = (place * LOOK_S - clock_s) % round_s
    # This worker has just checked, a little early: this turn is done.
    return wait_s if wait_s >= LOOK_S / 2 else wait_s + round_s
