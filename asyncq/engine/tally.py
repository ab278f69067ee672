"""Counts the ends of runs by task, and writes them every ten seconds: numbers over time for all workers together."""

import random
import time
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any

import anyio
import msgspec

from asyncq.domain.errors import AsyncqError
from asyncq.domain.events import MaintenanceFailed
from asyncq.domain.moment import MOMENTS_BEGIN_S
from asyncq.domain.outcome import error_text
from asyncq.domain.task import Task
from asyncq.engine.base.identity import Identity
from asyncq.engine.base.lease import Lease
from asyncq.engine.base.observers import Observers
from asyncq.engine.base.outage import Outage
from asyncq.engine.base.shield import shielded
from asyncq.engine.run.run import Run
from asyncq.store.database import ReconnectingConnection
from asyncq.store.workers import write_stats

EVERY_S = 10.0
TIMED = 8  # of the runs of a batch
BUCKETS = 20  # below 1, 2, 4, .. 2^18 milliseconds, and the rest

_task_of = attrgetter("task")


class TaskStats:
    """The numbers of one task since the last flush."""

    __slots__ = ("ends", "took", "took_s", "waited", "waited_s")

    def __init__(self) -> None:
        self.ends = Counter[str]()
        self.took = [0] * BUCKETS
        self.waited = [0] * BUCKETS
        self.took_s = self.waited_s = 0.0


class Tally:
    """The numbers of one worker; a crash, or an error of a flush, loses those of ten seconds."""

    def __init__(
        self, line: ReconnectingConnection, identity: Identity, observers: Observers, lease: Lease, *, counts: bool
    ) -> None:
        self._line = line
        self._identity = identity
        self._observers = observers
        self._lease = lease
        self._counts = counts
        self._outage = Outage("writing numbers", observers.emit)
        self._well = Counter[Task[...]]()
        self._tasks: dict[Task[...], TaskStats] = {}

    def ended_well(self, runs: Collection[Run]) -> None:
        """Count completed runs: all of them by task, in C, and the times of some."""
        if not self._counts:
            return
        self._well.update(map(_task_of, runs))
        step = -(-len(runs) // TIMED)
        self._time(islice(runs, 0, None, step) if step > 1 else runs)

    def ended(self, run: Run | None, end: str) -> None:
        """Count another end of a run: retried, discarded, cancelled or snoozed."""
        if self._counts and run is not None:
            self._of(run.task).ends[end] += 1
            self._time((run,))

    def _time(self, runs: Any) -> None:
        clock_s = self._lease.server_clock_s
        # Of the server's clock: the moment at which this process's counter was 0.
        began_s = None if clock_s is None else clock_s - time.perf_counter() - MOMENTS_BEGIN_S
        task, stats, last = None, TaskStats(), BUCKETS - 1
        for run in runs:
            if run.task is not task:
                task, stats = run.task, self._of(run.task)
            started_at = run.started_at
            took_s = run.ended_at - started_at
            if took_s < 0.0:
                continue  # It did not end by itself.
            stats.took_s += took_s
            place = int(took_s * 1000).bit_length()
            stats.took[place if place < last else last] += 1  # noqa: FURB136 - half the time of min()
            if began_s is not None and (waited_s := began_s + started_at - run.claim.due / 1_000_000) > 0.0:
                stats.waited_s += waited_s
                place = int(waited_s * 1000).bit_length()
                stats.waited[place if place < last else last] += 1  # noqa: FURB136

    def _of(self, task: Task[...]) -> TaskStats:
        stats = self._tasks.get(task)
        if stats is None:
            stats = self._tasks[task] = TaskStats()
        return stats

    def take(self) -> Sequence[dict[str, Any]]:
        """The numbers of each task since the last call."""
        for task, number in self._well.items():
            self._of(task).ends["completed"] += number
        taken, self._tasks = self._tasks, {}
        self._well.clear()
        ends = ("completed", "retried", "discarded", "cancelled", "snoozed")
        return [
            {
                "task": task.name,
                "took_s": stats.took_s,
                "waited_s": stats.waited_s,
                "took": stats.took,
                "waited": stats.waited,
                **{end: stats.ends[end] for end in ends},
            }
            for task, stats in taken.items()
        ]

    async def run_for_ever(self) -> None:
        """Flush every ten seconds, after an error too."""
        while self._counts:
            await anyio.sleep(EVERY_S * random.uniform(0.9, 1.1))
            await self.flush()

    async def flush(self) -> None:
        """Write the numbers since the last flush. If cancelled, it waits for the running statement."""
        if not self._counts:
            return
        try:
            said = msgspec.json.encode(self.take()).decode()
            async with shielded(self._line):
                await write_stats(self._line, said, self._identity.worker_id)
            self._outage.over()
        except AsyncqError as error:
            self._observers.emit(MaintenanceFailed(error=error_text(error), failures=self._outage.failed()))
