"""Claimed jobs on their way from the fetcher to the coroutine workers."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable

from asyncq.domain.job import Claim

BREATH = 8
LONGEST_HOLD_S = 0.01  # then handlers that hold the event loop leave it to others
PAUSE = 3  # rounds of the loop: what others wait for mostly takes them more than one


class Buffer:
    """A queue of claims that knows how many workers wait at it.

    `low` is called when at most `low_water` claims are left, or a worker waits: the fetcher may want to fetch.
    """

    def __init__(self, low: Callable[[], None]) -> None:
        self._claims: deque[Claim] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._low = low
        self.is_closed = False
        self.filled_at = 0.0  # by the loop's clock
        self._turn = 1  # the next claim's place among eight; before the last one is taken, others may run
        self._held_s = 0.0  # by handlers, since others had the loop
        self._pausing = False
        self._taking = 0
        self._aside: list[list[Claim]] = []
        self.low_water = 0

    def __len__(self) -> int:
        return len(self._claims)

    @property
    def waiting(self) -> int:
        """Workers that wait for a claim."""
        return len(self._waiting)

    def held(self, for_s: float) -> None:
        """A handler has ended that kept everything else from running for so long."""
        self._held_s += for_s

    def put(self, claims: Iterable[Claim]) -> None:
        """Append claims, in the order in which they are to start."""
        if not self._claims:
            self._held_s = 0.0  # Others had the loop, or there would be none.
        self._claims.extend(claims)
        self.filled_at = asyncio.get_running_loop().time()
        for _ in range(len(self._claims)):
            if not self._wake_one():
                break

    def pop(self) -> Claim | None:
        """The next claim at once; None if `take` has to be awaited: there is none, or it is others' turn to run."""
        if not self._claims or self._turn == BREATH or self._held_s > LONGEST_HOLD_S:
            return None
        self._turn += 1
        return self._first()

    async def take(self) -> Claim | None:
        """The next claim; None when the buffer is closed. If cancelled, no claim is taken."""
        self._taking += 1
        try:
            while (claim := self.pop()) is None:
                if self._claims:
                    await self._let_others_run()
                    if self._claims and self._held_s <= LONGEST_HOLD_S:
                        return self._first()
                elif self.is_closed:
                    return None
                else:
                    await self._wait()
            return claim
        except asyncio.CancelledError:
            if self._claims:
                self._wake_one()  # It may have been woken for one of them.
            raise
        finally:
            self._taking -= 1

    async def _let_others_run(self) -> None:
        """Handlers that never wait would keep the loop, and with it the next fetch, from running.

        Where they have held it for long, all slots wait until the first of them has waited for long enough.
        """
        self._turn = 1
        if self._held_s <= LONGEST_HOLD_S or self._pausing:
            await asyncio.sleep(0)
            return
        self._pausing = True
        try:
            for _ in range(PAUSE):
                await asyncio.sleep(0)
        finally:
            self._pausing = False
            self._held_s = 0.0

    def _first(self) -> Claim:
        claim = self._claims.popleft()
        if len(self._claims) <= self.low_water:
            self._low()
        return claim

    async def _wait(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._low()
        try:
            await future
        finally:
            if future in self._waiting:
                self._waiting.remove(future)

    @property
    def first(self) -> Claim | None:
        return self._claims[0] if self._claims else None

    def extract(self, wanted: Callable[[Claim], bool], most: int) -> list[Claim]:
        """Take some of the wanted claims, and leave the others."""
        found, left = list[Claim](), deque[Claim]()
        for claim in self._claims:
            (found if len(found) < most and wanted(claim) else left).append(claim)
        self._claims = left
        if found and len(left) <= self.low_water:
            self._low()
        return found

    async def wait(self) -> None:
        """Wait as a worker that takes the next claim, but take none; `pass_on` lets another worker take it."""
        await self._wait()

    def pass_on(self) -> None:
        self._wake_one()

    def set_aside(self) -> list[Claim]:
        """A list for claims that were taken and wait for others; they leave it as if they were still here."""
        aside: list[Claim] = []
        self._aside.append(aside)
        return aside

    def end_aside(self, aside: list[Claim]) -> None:
        """The claims of such a list start."""
        self._aside = [each for each in self._aside if each is not aside]

    def drain(self) -> list[Claim]:
        claims = list(self._claims)
        self._claims.clear()
        for aside in self._aside:
            claims += aside
            aside.clear()
        return claims

    def overflow(self) -> list[Claim]:
        """Take out the last ones, as many as there are more than workers that wait for one or are about to take one."""
        return [self._claims.pop() for _ in range(len(self._claims) - self._taking)][::-1]

    def remove(self, jobs: Collection[tuple[int, int]]) -> list[Claim]:
        """Take out the claims of some jobs, given the id of each, and the token of its claim."""
        removed = [claim for claim in self._claims if (claim.id, claim.token) in jobs]
        if removed:
            self._claims = deque(claim for claim in self._claims if (claim.id, claim.token) not in jobs)
            self._low()
        for aside in self._aside:
            removed += [claim for claim in aside if (claim.id, claim.token) in jobs]
            aside[:] = [claim for claim in aside if (claim.id, claim.token) not in jobs]
        return removed

    def close(self) -> list[Claim]:
        """Let the workers end after the job that they run; returns the claims that none has taken."""
        self.is_closed = True
        claims = self.drain()
        while self._wake_one():
            pass
        return claims

    def _wake_one(self) -> bool:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
                return True
        return False
