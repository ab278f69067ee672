"""Prunes: removes what need not be kept any longer, in small batches, so that nobody has to wait for one."""

from __future__ import annotations

import asyncio
import random

from asyncq.domain.events import JobsPruned
from asyncq.engine.base.observers import Observers
from asyncq.engine.base.shield import shielded
from asyncq.store.database import ReconnectingConnection
from asyncq.store.pruning import FIRST_KEY_LOCK, Pruned, prune, prune_key_locks

BATCH = 500
EVERY_S = 60.0
WALK_EVERY_S = 3600.0  # key locks are many and small, and go a day after their last use: no hurry
LONGEST_S = 20.0  # after this long the rest waits for the next time
DEADLINE_S = 60.0


class Pruner:
    """The pruner of one worker. There is no leader: what one has in hand the others skip.

    Args:
        line: A connection, shared with the fetcher, who has a turn after each batch.
        observers: Told what was removed.
        discarded_retention_s: How long jobs that were discarded are kept; None for ever.
    """

    def __init__(self, line: ReconnectingConnection, observers: Observers, discarded_retention_s: float | None) -> None:
        self._line = line
        self._observers = observers
        self._discarded_retention_s = discarded_retention_s
        self._due_at = self._walk_at = 0.0
        self._gate: int | None = None

    async def run_when_due(self) -> None:
        """Prune, if that was not done lately.

        Raises:
            StoreError: The database cannot be used; what was removed until then is told.
            TimeoutError: It did not answer.

        If cancelled, the statement is waited for.
        """
        now = asyncio.get_running_loop().time()
        if now >= self._due_at:
            self._due_at = now + EVERY_S * random.uniform(0.8, 1.2)
            await self.run(LONGEST_S)

    async def run(self, longest_s: float) -> None:
        """Prune until nothing is left, or for about so long; a batch of each kind in any case.

        Raises:
            StoreError: The database cannot be used; what was removed until then is told.
            TimeoutError: It did not answer.

        If cancelled, the statement is waited for.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + longest_s
        pruned = total = Pruned()
        key_locks = 0
        try:
            more = True
            while True:
                if more:
                    async with shielded(self._line, DEADLINE_S):
                        pruned = await prune(self._line, self._discarded_retention_s, BATCH)
                    more = BATCH in (pruned.discarded, pruned.ended, pruned.requests)
                    total = _sum(total, pruned)
                after = self._next_gate(loop.time())
                if after is not None:
                    key_locks += await self._step(after, loop.time())
                if loop.time() >= until or not (more or self._gate is not None):
                    break
        finally:
            if key_locks or total != Pruned():
                event = JobsPruned(
                    discarded=total.discarded, ended=total.ended, requests=total.requests, key_locks=key_locks
                )
                self._observers.emit(event)

    def _next_gate(self, now: float) -> int | None:
        """Where the walk over the key locks goes on. The first begins anywhere, since a worker may not live long."""
        if self._gate is None and now >= self._walk_at:
            self._gate = FIRST_KEY_LOCK if self._walk_at else random.randint(FIRST_KEY_LOCK, -FIRST_KEY_LOCK - 1)
        return self._gate

    async def _step(self, after: int, now: float) -> int:
        """Look at the next key locks; returns how many were removed."""
        removed = 0
        async with shielded(self._line, DEADLINE_S):
            removed, self._gate = await prune_key_locks(self._line, after, BATCH)
        if self._gate is None:
            self._walk_at = now + WALK_EVERY_S * random.uniform(0.8, 1.2)
        return removed


def _sum(one: Pruned, other: Pruned) -> Pruned:
    return Pruned(one.discarded + other.discarded, one.ended + other.ended, one.requests + other.requests)
