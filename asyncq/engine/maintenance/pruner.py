"""Prunes: removes old data in small batches, so that no other statement waits for long."""

import asyncio
import random
from collections import Counter

import anyio

from asyncq.domain.errors import AsyncqError
from asyncq.domain.events import JobsExpired, JobsPruned, MaintenanceFailed
from asyncq.domain.options import ERROR_RETENTION, WorkerOptions
from asyncq.domain.outcome import error_text
from asyncq.engine.base.observers import Observers
from asyncq.engine.base.outage import Outage
from asyncq.engine.base.shield import shielded
from asyncq.engine.maintenance.history_size import HistorySizes
from asyncq.store.database import ReconnectingConnection
from asyncq.store.pruning import (
    FIRST_KEY_LOCK,
    expire_jobs,
    prune,
    prune_key_locks,
    prune_partitions,
    prune_stats,
    prune_steps,
)

BATCH = 500
EVERY_S = 60.0
WALK_EVERY_S = 3600.0  # key locks are many and small, and are kept for a day after their last use: no hurry
STEPS_EVERY_S = 600.0
LONGEST_S = 20.0  # after this time the rest is left to the next run


class Pruner:
    """The pruner of one worker. There is no leader: workers skip rows that another one has locked."""

    def __init__(self, line: ReconnectingConnection, observers: Observers, options: WorkerOptions) -> None:
        self._line = line
        self._observers = observers
        self._sizes = HistorySizes(line, observers)
        self._discarded_retention_s = options.discarded_retention_s
        # A worker that records no errors removes those of other workers, and of the time before, after the default.
        kept_s = options.error_retention_s
        self._error_retention_s = ERROR_RETENTION.total_seconds() if kept_s is None else kept_s
        self._outage = Outage("pruning", observers.emit)
        self._walk_at = 0.0
        self._gate: int | None = None
        self._partitions_at = 0.0
        self._steps_at = 0.0

    async def run_for_ever(self) -> None:
        """Prune now and then, after an error too. It is a task of its own: no rescue waits for the end of pruning."""
        while True:
            try:
                await self.run(LONGEST_S)
                await self._sizes.report(asyncio.get_running_loop().time())
                self._outage.over()
            except AsyncqError as error:
                self._observers.emit(MaintenanceFailed(error=error_text(error), failures=self._outage.failed()))
            await anyio.sleep(EVERY_S * random.uniform(0.8, 1.2))

    async def run(self, longest_s: float) -> None:
        """Prune until nothing is left or time is over, a batch of each kind at least.

        If cancelled, it waits for the running statement.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + longest_s
        await self._expire(until)
        total = Counter({"discarded": 0, "ended": 0, "requests": 0, "key_locks": 0, "attempts": 0, "steps": 0})
        more = True
        try:
            while True:
                if more:
                    async with shielded(self._line):
                        pruned = await prune(self._line, self._discarded_retention_s, self._error_retention_s, BATCH)
                    total.update(pruned)
                    more = BATCH in pruned.values()
                total["key_locks"] += await self._walk(loop.time())
                if loop.time() >= until or not (more or self._gate is not None):
                    break
            await self._prune_partitions(until)
            total["steps"] += await self._prune_steps(until)
            async with shielded(self._line):
                await prune_stats(self._line, BATCH)
        finally:
            if total.total():
                self._observers.emit(JobsPruned(**total))

    async def _expire(self, until: float) -> None:
        """End jobs that have expired until none is left or time is over, a batch at least."""
        while True:
            async with shielded(self._line):
                ids = await expire_jobs(self._line, BATCH)
            if ids:
                self._observers.emit(JobsExpired(job_ids=tuple(ids)))
            if len(ids) < BATCH or asyncio.get_running_loop().time() >= until:
                break

    async def _prune_partitions(self, until: float) -> None:
        """Remove idle partitions, a page after the other until the end or until time is over, if a walk is due."""
        after: int | None = 0
        if (now := asyncio.get_running_loop().time()) < self._partitions_at:
            return
        self._partitions_at = now + WALK_EVERY_S * random.uniform(0.8, 1.2)
        while after is not None:
            async with shielded(self._line):
                after = await prune_partitions(self._line, after, BATCH)
            if asyncio.get_running_loop().time() >= until:
                break

    async def _prune_steps(self, until: float) -> int:
        """Remove steps of ended jobs likewise, if a walk is due; returns how many were removed."""
        after: int | None = 0
        removed = 0
        if (now := asyncio.get_running_loop().time()) < self._steps_at:
            return removed
        self._steps_at = now + STEPS_EVERY_S * random.uniform(0.8, 1.2)
        while after is not None:
            async with shielded(self._line):
                some, after = await prune_steps(self._line, after, BATCH)
            removed += some
            if asyncio.get_running_loop().time() >= until:
                break
        return removed

    async def _walk(self, now: float) -> int:
        """Remove key locks of the next step of the walk, if one is due; returns how many were removed.

        The first walk begins anywhere, because a worker may not live long.
        """
        if self._gate is None and now >= self._walk_at:
            self._gate = FIRST_KEY_LOCK if self._walk_at else random.randint(FIRST_KEY_LOCK, -FIRST_KEY_LOCK - 1)
        if self._gate is None:
            return 0
        async with shielded(self._line):
            removed, self._gate = await prune_key_locks(self._line, self._gate, BATCH)
        if self._gate is None:
            self._walk_at = now + WALK_EVERY_S * random.uniform(0.8, 1.2)
        return removed
