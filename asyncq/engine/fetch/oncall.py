"""Which idle worker hears of adds: one is on the lookout for all, and adds tell nobody while none is.

Adds tell nobody, or the one on the lookout. Whoever was on the lookout is in charge until it rests again or hands over.
A worker that rests has looked for jobs after somebody had taken the lookout and all adds that told nobody had ended.
Where workers are of several kinds, none can look for all: then one is always on the lookout, and each hears all.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial

import anyio

from asyncq.domain.errors import AsyncqError
from asyncq.store.listen import ALL, Listening, Post

DEADLINE_S = 5.0
FIRST_RETRY_S = 0.005
SLOWEST_RETRY_S = 0.25
# How things are is asked again that often: who was on the lookout may be gone without a word.
ASK_AGAIN_S = 30.0


class Lookout:
    """The lookout of one worker.

    Args:
        wake: Makes the fetcher look for jobs.
        wake_in: The same, after a delay.
    """

    def __init__(self, wake: Callable[[], object], wake_in: Callable[[float], object]) -> None:
        self._wake = wake
        self._wake_in = wake_in
        self._start_soon: Callable[..., object] | None = None
        self._ear: Listening | None = None
        self._speaking = 0
        self._said = asyncio.Event()
        self._forget()

    def _forget(self) -> None:
        self._is_out = self._is_in_charge = self._is_covered = self._is_told = False
        self._is_mixed: bool | None = None  # not known
        self._ask_at = 0.0
        self._retry_s = FIRST_RETRY_S
        self._times_all = 0

    def open(self, start_soon: Callable[..., object]) -> None:
        """From now on it can speak; by this tasks are started."""
        self._start_soon = start_soon

    def connected(self, ear: Listening) -> None:
        """The worker listens: nothing was heard before, so it looks for jobs."""
        self._forget()
        self._ear = ear
        self._wake()

    def lost(self) -> None:
        """It does not listen; the server has ended its lookout."""
        self._forget()
        self._ear = None

    def heard(self, text: str) -> None:
        """A notification came."""
        if text == ALL:
            self._is_covered, self._ask_at = False, 0.0
            self._times_all += 1
        elif self._is_covered and not self._is_out and not self._is_mixed:
            return  # Another worker is on the lookout.
        elif self._is_told and self._is_out and not self._is_mixed:
            # Adds come faster than this worker rests: they need not tell it, until it does. It stays in charge.
            self._leave(tell_all=False)
        self._is_told = True
        self._wake()

    async def may_rest(self) -> bool:
        """Before the worker sleeps with a free slot: make sure that it will hear, or another one for it.

        Returns:
            Whether it may sleep; otherwise it has to look for jobs once more.

        If cancelled, the answer is waited for.
        """
        ear, now = self._ear, _now()
        self._is_told = False
        if ear is None or (self._is_covered and now < self._ask_at):
            return True
        if now < self._ask_at:
            self._wake_in(self._ask_at - now)
            return True
        was_out, times_all = self._is_out, self._times_all
        found: Post | None = None
        try:
            with anyio.CancelScope(shield=True):
                async with asyncio.timeout(DEADLINE_S):
                    found = await ear.take_lookout(was_out=was_out)
        except (AsyncqError, TimeoutError):
            ear.drop()  # It may be on the lookout without knowing it.
            self._ask_at = now + SLOWEST_RETRY_S
        if found is None:
            return True  # Until the listener has a new connection the worker polls.
        if ear is self._ear and was_out == self._is_out:
            # What was heard since comes first.
            self._learn(found, now, is_covered=found.is_quiet and times_all == self._times_all)
        return False

    def _learn(self, found: Post, now: float, *, is_covered: bool) -> None:
        if found.is_mixed and not self._is_mixed:
            self._speak(was_out=False, tell_all=True)  # The others have to know that each of them is needed.
        self._is_out = self._is_in_charge = found.is_out
        self._is_mixed = found.is_mixed
        self._is_covered = is_covered
        if is_covered:
            self._retry_s = FIRST_RETRY_S
            self._ask_at = now + ASK_AGAIN_S * random.uniform(0.8, 1.2)
        else:
            self._ask_at = now + self._retry_s * random.uniform(0.8, 1.2)
            self._retry_s = min(2 * self._retry_s, SLOWEST_RETRY_S)

    @property
    def is_mixed(self) -> bool:
        """Whether workers are known to be of several kinds: what this one leaves alone, another may be waiting for."""
        return bool(self._is_mixed)

    @property
    def is_in_charge(self) -> bool:
        """Whether others count on this worker to look out, so that they have to be told when it does not."""
        return self._is_in_charge

    def no_room(self) -> None:
        """All slots are taken: another one has to look out."""
        if not self._is_mixed:
            self._hand_over()

    async def stop(self) -> None:
        """The worker stops: another one has to look out, whether or not they are of several kinds by now.

        Only when it returns, and that has been said, may the worker's row go, or the connection: else another one would
        believe that it is covered.
        """
        self._hand_over()
        while self._speaking:
            self._said.clear()
            await self._said.wait()

    def _hand_over(self) -> None:
        if self._is_in_charge:
            self._is_in_charge = False
            self._leave(tell_all=True)

    def _leave(self, *, tell_all: bool) -> None:
        was_out, self._is_out = self._is_out, False
        self._is_covered = False
        self._ask_at = 0.0
        if was_out or tell_all:
            self._speak(was_out=was_out, tell_all=tell_all)

    def _speak(self, *, was_out: bool, tell_all: bool) -> None:
        if self._ear is not None and self._start_soon is not None:
            self._speaking += 1
            self._start_soon(partial(self._tell, self._ear, was_out=was_out, tell_all=tell_all))

    async def _tell(self, ear: Listening, *, was_out: bool, tell_all: bool) -> None:
        try:
            async with asyncio.timeout(DEADLINE_S):
                await ear.leave_lookout(was_out=was_out, tell_all=tell_all)
        except (AsyncqError, TimeoutError):
            ear.drop()  # Its lookout ends with it, and the listener says so.
        finally:
            self._speaking -= 1
            self._said.set()


def _now() -> float:
    return asyncio.get_running_loop().time()
