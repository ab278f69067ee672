"""The on-call worker: at most one idle worker is notified of adds, and adds notify nobody while none is on call.

A worker that was on call stays in charge until it sleeps again or hands over. A worker sleeps only after one more
fetch, made when some worker was on call and every add that notified nobody had ended. Workers with different tasks or
flags cannot fetch for each other: then one is always on call, and every notification reaches all of them.
"""

import asyncio
import random
from collections.abc import Callable
from functools import partial

import anyio

from asyncq.domain.errors import AsyncqError
from asyncq.engine.base.loop_time import loop_time
from asyncq.store.listen import ALL, Listening, OnCallStatus

DEADLINE_S = 5.0
FIRST_RETRY_S = 0.005
SLOWEST_RETRY_S = 0.25
# How often the state is read again: the worker on call may have died.
ASK_AGAIN_S = 30.0


class OnCall:
    """The on-call state of one worker.

    `is_mixed` if workers are known to differ in tasks or flags: a job that this one skips may be for another.
    """

    def __init__(
        self, wake: Callable[[], object], wake_in: Callable[[float], object], start_soon: Callable[..., object]
    ) -> None:
        self._wake = wake
        self._wake_in = wake_in
        self._start_soon = start_soon
        self._connection: Listening | None = None
        self._sending = 0
        self._sent = asyncio.Event()
        self._forget()

    def _forget(self) -> None:
        self._is_mine = self._is_in_charge = self._is_covered = self._is_notified = False
        self.is_mixed = False
        self._ask_at = 0.0
        self._retry_s = FIRST_RETRY_S
        self._times_all = 0

    def connected(self, connection: Listening) -> None:
        """The worker listens now. It may have missed notifications before, so it fetches."""
        self._forget()
        self._connection = connection
        self._wake()

    def lost(self) -> None:
        """The LISTEN connection is lost; the server has ended the worker's turn on call."""
        self._forget()
        self._connection = None

    def heard(self, text: str) -> None:
        if text == ALL:
            self._is_covered, self._ask_at = False, 0.0
            self._times_all += 1
        elif self._is_covered and not self._is_mine and not self.is_mixed:
            return  # Another worker is on call.
        elif self._is_notified and self._is_mine and not self.is_mixed:
            # Adds come faster than this worker sleeps: until it sleeps, they need not notify it. It stays in charge.
            self._leave(notify_all=False)
        self._is_notified = True
        self._wake()

    async def may_rest(self) -> bool:
        """Make sure, before the worker sleeps with a free slot, that it or another worker is notified of adds.

        False if it has to fetch once more instead of sleeping. If cancelled, the answer is waited for.
        """
        connection, now = self._connection, loop_time()
        self._is_notified = False
        if connection is None or (self._is_covered and now < self._ask_at):
            return True
        if now < self._ask_at:
            self._wake_in(self._ask_at - now)
            return True
        was_mine, times_all = self._is_mine, self._times_all
        found: OnCallStatus | None = None
        try:
            with anyio.CancelScope(shield=True):
                async with asyncio.timeout(DEADLINE_S):
                    found = await connection.go_on_call(was_mine=was_mine)
        except (AsyncqError, TimeoutError):
            connection.drop()  # It may be on call without knowing it.
            self._ask_at = now + SLOWEST_RETRY_S
        if found is None:
            return True  # Until the listener has a new connection the worker polls.
        if connection is self._connection and was_mine == self._is_mine:
            # Notifications since then are newer than this answer.
            self._learn(found, now, is_covered=found.adds_settled and times_all == self._times_all)
        return False

    def _learn(self, found: OnCallStatus, now: float, *, is_covered: bool) -> None:
        if found.is_mixed and not self.is_mixed:
            self._send(was_mine=False, notify_all=True)  # Each of the others has to fetch by itself.
        self._is_mine = self._is_in_charge = found.is_mine
        self.is_mixed = found.is_mixed
        self._is_covered = is_covered
        if is_covered:
            self._retry_s = FIRST_RETRY_S
            self._ask_at = now + ASK_AGAIN_S * random.uniform(0.8, 1.2)
        else:
            self._ask_at = now + self._retry_s * random.uniform(0.8, 1.2)
            self._retry_s = min(2 * self._retry_s, SLOWEST_RETRY_S)

    @property
    def is_in_charge(self) -> bool:
        """Whether the other workers rely on this one, and have to be notified when it leaves."""
        return self._is_in_charge

    def no_room(self) -> None:
        """All slots are taken: another worker has to be on call."""
        if not self.is_mixed:
            self._hand_over()

    async def stop(self) -> None:
        """Hand over, as the worker stops, and wait until the server knows.

        The worker's row and the connection may be removed only after that: until then other workers rely on it.
        """
        self._hand_over()
        while self._sending:
            self._sent.clear()
            await self._sent.wait()

    def _hand_over(self) -> None:
        if self._is_in_charge:
            self._is_in_charge = False
            self._leave(notify_all=True)

    def _leave(self, *, notify_all: bool) -> None:
        was_mine, self._is_mine = self._is_mine, False
        self._is_covered = False
        self._ask_at = 0.0
        if was_mine or notify_all:
            self._send(was_mine=was_mine, notify_all=notify_all)

    def _send(self, *, was_mine: bool, notify_all: bool) -> None:
        if self._connection is not None:
            self._sending += 1
            self._start_soon(partial(self._leave_on_call, self._connection, was_mine=was_mine, notify_all=notify_all))

    async def _leave_on_call(self, connection: Listening, *, was_mine: bool, notify_all: bool) -> None:
        try:
            async with asyncio.timeout(DEADLINE_S):
                await connection.leave_on_call(was_mine=was_mine, notify_all=notify_all)
        except (AsyncqError, TimeoutError):
            connection.drop()  # Its turn ends with it, and the listener reports that.
        finally:
            self._sending -= 1
            self._sent.set()
