"""Maintenance that each worker does for all, on a jittered timer and without a leader: rescue, prune."""

import asyncio
import random
from collections.abc import Sequence

import anyio
from anyio.abc import TaskGroup

from asyncq.domain.errors import AsyncqError
from asyncq.domain.events import JobsRescued, MaintenanceFailed, PartitionCorrected, TransactionsEnded, UnknownTasks
from asyncq.domain.options import WorkerOptions
from asyncq.domain.outcome import error_text
from asyncq.engine.base.identity import Identity
from asyncq.engine.base.observers import Observers
from asyncq.engine.base.outage import Outage
from asyncq.engine.base.shield import shielded
from asyncq.engine.maintenance.mover import LONGEST_S, Mover
from asyncq.engine.maintenance.pruner import Pruner
from asyncq.store.database import Database, ReconnectingConnection
from asyncq.store.transactions import end_transactions
from asyncq.store.workers import Rescued, correct_counts, pass_on_ends, rescue_jobs, unknown_tasks

THOROUGH_EVERY = 30  # rounds; a thorough round reads the claims of all workers
FIRST_WITHIN = 6  # rounds after the start: after its rush, and not in all workers of a fleet at once
DEADLINE_S = 60.0
REST_S = 2.0


class Rounds:
    """The rounds of one worker. A large rescue has a connection of its own, so that no fetch waits for it."""

    def __init__(
        self,
        database: Database,
        line: ReconnectingConnection,
        identity: Identity,
        observers: Observers,
        options: WorkerOptions,
    ) -> None:
        self._line = line
        self._apart = ReconnectingConnection(database, "rescue", answer_s=DEADLINE_S)
        self._identity = identity
        self._observers = observers
        self.pruner = Pruner(line, observers, options)
        self.mover = Mover(line, observers)
        self._keeps_errors = options.error_retention_s is not None
        self._rounds = -random.randint(1, FIRST_WITHIN)
        self._outage = Outage("maintenance", observers.emit)
        self._wanted = asyncio.Event()
        self._rests_until = 0.0
        self._told: set[str] = set()

    def start(self, group: TaskGroup, every_s: float) -> None:
        """Start the rounds, the removal of old rows, and the moves, for ever."""
        group.start_soon(self.run, every_s)
        group.start_soon(self.pruner.run_for_ever)
        group.start_soon(self.mover.run_for_ever)

    async def run(self, every_s: float) -> None:
        """Do a round at once, then one every `every_s` seconds, and one whenever a worker has died; for ever."""
        while True:
            hurried = self._wanted.is_set()
            self._wanted.clear()
            try:
                rescued = await self.round(hurried=hurried)
                if hurried and not rescued:
                    # Another worker was faster, or locks the remaining jobs.
                    self._rests_until = asyncio.get_running_loop().time() + REST_S
                self._outage.over()
            except AsyncqError as error:
                self._observers.emit(MaintenanceFailed(error=error_text(error), failures=self._outage.failed()))
            with anyio.move_on_after(every_s * random.uniform(0.8, 1.2)):
                await self._wanted.wait()

    def hurry(self) -> None:
        """Do the next round now, because a worker has died."""
        if asyncio.get_running_loop().time() >= self._rests_until:
            self._wanted.set()

    async def once(self) -> None:
        """Do the maintenance of a short-lived worker: a thorough round, all moves, and a little pruning."""
        self._rounds = 0
        await self.round()
        await self.mover.run(LONGEST_S)
        await self.pruner.run(0.0)

    async def round(self, *, hurried: bool = False) -> int:
        """Rescue jobs, and report tasks that no worker here knows; returns how many jobs were rescued."""
        thorough = self._rounds % THOROUGH_EVERY == 0
        if thorough or hurried:
            try:
                if thorough:
                    await self._correct_counts(self._apart)
                rescued = await self._rescue(self._apart, thorough)
            finally:
                with anyio.CancelScope(shield=True):
                    await self._apart.close()
        else:
            rescued = await self._rescue(self._line, thorough)
        self._rounds += 1
        async with shielded(self._line):
            await pass_on_ends(self._line)
        if rescued:
            discarded = [job for job in rescued if job.ran and job.attempts >= job.max_attempts]
            event = JobsRescued(
                worker_ids=tuple(sorted({job.worker_id for job in rescued})),
                job_ids=tuple(job.job_id for job in rescued),
                discarded_job_ids=tuple(job.job_id for job in discarded),
                spared_job_ids=tuple(job.job_id for job in rescued if not job.ran),
            )
            self._observers.emit(event)
        unknown = set(await unknown_tasks(self._line, self._identity.tasks)) - self._told - {*self._identity.registry}
        if unknown:
            self._told |= unknown
            self._observers.emit(UnknownTasks(names=tuple(sorted(unknown))))
        return len(rescued)

    async def _correct_counts(self, line: ReconnectingConnection) -> None:
        async with shielded(line):
            corrected = await correct_counts(line)
        for one in corrected:
            self._observers.emit(
                PartitionCorrected(limit=one.name, key=one.key, counted=one.counted, running=one.running)
            )

    async def _rescue(self, line: ReconnectingConnection, thorough: bool) -> Sequence[Rescued]:
        async with shielded(line):
            if ended := await end_transactions(line):
                worker_ids = sorted({worker_id for worker_id, _ in ended})
                job_ids = sorted(job_id for _, job_id in ended if job_id is not None)
                self._observers.emit(TransactionsEnded(worker_ids=tuple(worker_ids), job_ids=tuple(job_ids)))
            return await rescue_jobs(line, thorough=thorough, keeps_errors=self._keeps_errors)
