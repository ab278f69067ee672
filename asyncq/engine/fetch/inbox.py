"""The claims of one worker from their arrival to their start.

A claim comes by a fetch, with the end of another job of its partition, or by a hand-off. It waits in the buffer until a
slot is free. A claim that must not start is given back.
"""

import asyncio
from collections.abc import Callable, Collection

import anyio

from asyncq.domain.job import Claim
from asyncq.engine.base.identity import Identity
from asyncq.engine.base.lease import Lease
from asyncq.engine.fetch.buffer import Buffer

STALE_S = 0.1  # a claim that has not started after this long goes back
CANCELLED = "they were cancelled"


class Inbox:
    """The inbox of one worker. `give_back` returns claims to the database, given the reason and the worker's id."""

    def __init__(
        self, identity: Identity, lease: Lease, give_back: Callable[[Collection[Claim], str, int], None]
    ) -> None:
        self._identity = identity
        self._lease = lease
        self.give_back = give_back
        self.changed = asyncio.Event()
        # With the buffer half empty it is time to think of the next fetch.
        self.buffer = Buffer(self.changed.set)
        self.is_closed = False
        self._expected: dict[int, int] = {}
        self._cancelled: set[tuple[int, int]] = set()

    @property
    def coming(self) -> int:
        """How many claims may come by statements that were not answered yet."""
        return sum(self._expected.values())

    def expect(self, token: int, claims: int) -> None:
        """Claims with this token may come: at most so many by a statement, 0 for a hand-off."""
        self._expected[token] = claims

    def answered(self, token: int) -> None:
        """No more claims come with this token."""
        self._expected.pop(token, None)

    def receive(self, worker_id: int, claims: list[Claim]) -> bool:
        """Take claims, or give them back and return False if the worker stops or has lost this id."""
        if worker_id != self._identity.worker_id or self.is_closed:
            reason = "the worker stops" if self.is_closed else "the worker was declared dead"
            self.give_back(claims, reason, worker_id)
            return False
        if claims:
            self.buffer.put(self._not_cancelled(claims))
            self.changed.set()  # The fetcher returns those that find no free slot.
        return True

    def take_over(self, worker_id: int, claim: Claim, made_at: float) -> None:
        """Take a claim that an add has made, by the server's clock, or give it back if a rescue may have taken it."""
        if self._lease.is_late(made_at):
            self.give_back([claim], "the message about it came late", worker_id)
        else:
            self.receive(worker_id, [claim])

    def cancel(self, jobs: Collection[tuple[int, int]]) -> None:
        """Give back the claims, by job id and token, of cancelled jobs that have not started, now or when they come."""
        self._return(self.buffer.remove(jobs), CANCELLED)
        self._cancelled = {job for job in self._cancelled.union(jobs) if job[1] in self._expected}

    def _not_cancelled(self, claims: list[Claim]) -> list[Claim]:
        """The claims that may start; the others go back, to be settled as cancelled."""
        if not self._cancelled:
            return claims
        cancelled = self._cancelled
        self._cancelled = {job for job in cancelled if job[1] in self._expected}
        self._return([claim for claim in claims if (claim.id, claim.token) in cancelled], CANCELLED)
        return [claim for claim in claims if (claim.id, claim.token) not in cancelled]

    def return_all(self, reason: str) -> None:
        self._return(self.buffer.drain(), reason)

    def return_stale(self) -> None:
        """Give back claims that have waited for too long: another worker may have a free slot."""
        if asyncio.get_running_loop().time() - self.buffer.filled_at >= STALE_S:
            self._return(self.buffer.overflow(), "no slot became free")

    def close(self) -> None:
        """Take no more claims, and give back those that have not started: the worker stops."""
        self.is_closed = True
        self._return(self.buffer.close(), "the worker stops")

    def _return(self, claims: list[Claim], reason: str) -> None:
        if claims:
            self.give_back(claims, reason, self._identity.worker_id)

    async def wait(self, longest_s: float) -> None:
        """Wait until something changes, or a claim becomes stale, for at most so many seconds."""
        self.changed.clear()
        if len(self.buffer):
            longest_s = min(longest_s, STALE_S)
        with anyio.move_on_after(longest_s):
            await self.changed.wait()
