"""The state of a worker's lease: when other workers may declare it dead, and when it has to assume that itself.

A lock and a lease prevent a rescue. The server frees the lock when the worker's connection ends. The worker's row says
whether the lock counts.

    state       others may rescue its jobs                  without a beat, given up
    nobody      there is no worker                          -
    locked      a grace after they find the lock free       when the lease is about to end
    leased      when the lease is over                      when the lease is about to end
    doubted     a grace after they found the lock free      half a grace after that; when the lease is about to end
    given up    as before: nothing may run here             -

    event                                                   state before                   state after
    a beat was written, with the lock                       any                            locked
    a beat was written, without the lock                    any                            leased
    the lock is free, or others ask                         locked                         doubted
    the lock is held again, and the row exists              doubted                        locked
    half a grace is over, and a server could be reached     doubted                        given up
    the lease is about to end                               locked, leased, doubted        given up
    the row was removed, or the worker stops                any                            nobody

Any other event changes nothing. One of them is a beat that the server refuses: the session is alive, and keeps the
lock.
"""

import asyncio
from collections.abc import Callable
from typing import Literal

from asyncq.engine.base.lease import HALF_GRACE_S, TICK_S, Lease, now_s

State = Literal["nobody", "locked", "leased", "doubted", "given up"]


class LeaseState:
    """The lease state of one worker; used in the heartbeat's thread, with timers in the event loop of that thread.

    `doubted` is called when a sign of life is wanted at once, `gave_up` with the reason when none came in time.
    """

    def __init__(self, lease: Lease, doubted: Callable[[], None], gave_up: Callable[[str], None]) -> None:
        self._lease = lease
        self._doubted = doubted
        self._gave_up = gave_up
        self.state: State = "nobody"
        self._refused_at = float("-inf")
        self._doubt_timer: asyncio.TimerHandle | None = None
        self._lease_timer: asyncio.TimerHandle | None = None

    def tick(self) -> None:
        """Record from now on that this thread runs, until its loop ends."""
        self._lease.tick()
        _in(TICK_S, self.tick)

    def proven(self, sent_at: float, *, holds: bool) -> bool:
        """A sign of life was written, with the lock if `holds`; returns whether the worker had lost its lease."""
        had_lost = not self._lease.is_held
        self._lease.prove(sent_at)
        self._become("locked" if holds else "leased")
        self._lease_timer = _in(self._lease.ends_at - now_s(), self._give_up, "its lease is about to end")
        return had_lost

    def lock_is_free(self) -> None:
        """Begin to doubt: the connection has ended, or others ask, and wait a limited time for a beat."""
        if self.state == "locked":
            self.state = "doubted"  # The end of the lease stays the same.
            self._doubt_timer = _in(HALF_GRACE_S, self._doubt_over)
            self._doubted()

    def locked_again(self) -> None:
        """Record that the lock was taken again before a rescue; without a beat the lease still ends."""
        if self.state == "doubted":
            self.state = "locked"
            self._end_doubt()

    def refused(self) -> None:
        """Record that no writable server answers: no rescue can run, and later only the lease counts."""
        self._refused_at = now_s()

    def lost(self) -> None:
        """The row is gone: others have taken over."""
        self.leave()
        self._lease.end()

    def leave(self) -> None:
        """There is no worker any more, or it stops."""
        self._become("nobody")

    def _doubt_over(self) -> None:
        left_s = self._refused_at + HALF_GRACE_S - now_s()
        if left_s > 0:
            self._doubt_timer = _in(left_s, self._doubt_over)
        else:
            self._give_up("the connection that holds its lock was lost")

    def _give_up(self, reason: str) -> None:
        self._lease.end()
        self._become("given up")
        self._gave_up(reason)

    def _become(self, state: State) -> None:
        """Enter a state that no timer ends, or the one that is set next."""
        self.state = state
        self._end_doubt()
        if self._lease_timer is not None:
            self._lease_timer.cancel()
        self._lease_timer = None

    def _end_doubt(self) -> None:
        if self._doubt_timer is not None:
            self._doubt_timer.cancel()
        self._doubt_timer = None


def _in(delay_s: float, function: Callable[..., object], *args: object) -> asyncio.TimerHandle:
    return asyncio.get_running_loop().call_later(max(delay_s, 0.0), function, *args)
