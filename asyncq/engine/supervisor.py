"""The one task group: starts the parts in order, waits for the request to stop, stops them in reverse.

The parts run shielded: whoever cancels the worker from outside asks it to stop, and it ends in order, within the grace
period and a few seconds.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Awaitable, Callable, Iterable, Sequence

import anyio
from anyio import CapacityLimiter
from anyio.abc import TaskGroup

from asyncq.domain.cron.item import CronItem
from asyncq.domain.errors import AsyncqError
from asyncq.domain.events import (
    GraceExceeded,
    MaintenanceFailed,
    SettlementsAbandoned,
    TasksLeftBehind,
    WorkerCrashed,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
)
from asyncq.domain.options import LONGEST_POLL_S, WorkerOptions
from asyncq.domain.outcome import Settlement, in_short, words
from asyncq.domain.task import Registry
from asyncq.engine.base.groups import innermost
from asyncq.engine.base.identity import Identity
from asyncq.engine.base.lease import BEATS_A_LEASE, Lease
from asyncq.engine.base.observers import Observers
from asyncq.engine.canceller import Canceller
from asyncq.engine.cron.scheduler import Cron
from asyncq.engine.fetch.fetcher import Fetcher
from asyncq.engine.fetch.listener import listen
from asyncq.engine.job_loop import job_loop
from asyncq.engine.liveness.fallback_heartbeat import FallbackHeartbeat
from asyncq.engine.liveness.heartbeat import Heartbeat
from asyncq.engine.liveness.heartbeat_thread import HeartbeatCallbacks
from asyncq.engine.liveness.loop_watchdog import LoopWatchdog
from asyncq.engine.liveness.membership import Membership
from asyncq.engine.liveness.start_gate import StartGate
from asyncq.engine.maintenance.rounds import Rounds
from asyncq.engine.run.child_tasks import ChildTasks
from asyncq.engine.run.executor import Executor
from asyncq.engine.run.stuck import Stuck
from asyncq.engine.run.transactions import HandlerResources
from asyncq.engine.settle.claim_next import ClaimNext
from asyncq.engine.settle.completer import Completer
from asyncq.engine.settle.reporter import Reporter
from asyncq.engine.shutdown import StopRequest
from asyncq.engine.start_checks import check_server_and_schema
from asyncq.store import workers as store
from asyncq.store.database import Database, HandlerPool, ReconnectingConnection
from asyncq.store.policies import check_policies

CANCEL_S = 5.0  # how long cancelled handlers have to end
FLUSH_S = 10.0  # how long the last settlements may take
GIVE_UP_S = 5.0  # how long `run_once` tries to fetch when the database is away


class Supervisor:
    """One run of a worker, from its registration to its end.

    Args:
        database: Where the jobs are.
        registry: The tasks.
        options: How to work.
        observers: Told of everything.
        listen_database: Where to LISTEN; None to poll only.
        items: Recurring jobs of its own crontab; with once none are added.
        doors_may_move: Whether a clock that a test has moved is accepted.
    """

    def __init__(
        self,
        database: Database,
        registry: Registry,
        options: WorkerOptions,
        observers: Observers,
        *,
        listen_database: Database | None = None,
        items: Sequence[CronItem] = (),
        doors_may_move: bool = False,
    ) -> None:
        self._database = database
        self._listen_database = listen_database
        self._options = options
        self._observers = observers
        self._doors_may_move = doors_may_move
        self._identity = Identity(registry)
        self._reading = ReconnectingConnection(database, "fetch", generic_plans=True)
        self._writing = ReconnectingConnection(database, "settle", generic_plans=True)
        self._pool = HandlerPool(database, options.pool_size, options.pool_wait_s)
        resources = HandlerResources(database, self._pool, self._writing, observers, options.lease_s)
        self._child_tasks = ChildTasks()
        threads = CapacityLimiter(options.concurrency)
        lease = Lease(options.lease_s)
        self._executor = Executor(self._identity, resources, observers, threads, self._child_tasks, lease)
        self._stuck = Stuck(options.concurrency, self._identity, self._executor, threads, observers)
        self._fetcher = Fetcher(self._reading, self._identity, options, observers, self._finished)
        self._items = items
        # Who hears nothing looks for changed items as often as for jobs.
        longest_s = options.poll_s if listen_database is None else LONGEST_POLL_S
        self._cron = Cron(database, self._reading, items, self._identity, observers, longest_s=longest_s)
        self._progress = asyncio.Event()
        self._fetched = anyio.Event()
        self._loops_left = options.concurrency
        self._loops_ended = anyio.Event()
        self._written = anyio.Event()
        self._heartbeat = Heartbeat(database, options, registry, lease)
        self._start_gate = StartGate(lease, self._executor, self._heartbeat.beat_now)
        self._executor.is_proven = self._fetcher.is_proven = self._start_gate.is_proven
        self._fetcher.is_late = lease.is_late
        self._fallback = FallbackHeartbeat(
            [self._writing, self._reading], self._identity, self._start_gate, self._heartbeat, self._stuck
        )
        self._maintenance = Rounds(
            database, self._reading, self._identity, observers, options.discarded_retention_s, self._fetcher.cursor
        )
        self._membership = Membership(
            self._reading,
            self._identity,
            lease,
            self._heartbeat,
            self._fetcher,
            self._executor,
            self._start_gate,
            self._stuck,
            observers,
        )
        # Its items are declared under the new id.
        self._membership.rejoined = self._cron.wake
        self._has_left = False
        self._once = self._tell = False
        self._told = anyio.Event()
        self._told.set()

    @property
    def in_handler(self) -> bool:
        """Whether the current code was called by a handler of this worker."""
        return self._child_tasks.in_handler

    async def run(self, stop: StopRequest, *, once: bool = False, started: anyio.Event | None = None) -> None:
        """Work until asked to stop, or, with once, until nothing is runnable.

        Args:
            stop: The request to stop.
            once: Run what is due, and what becomes due by that, then end.
            started: An event to be set when the worker takes jobs.

        Raises:
            StoreError: The database cannot be used at the start; later it is tried for ever.

        If cancelled, it stops as if asked to, then the cancellation goes on.
        """
        try:
            if version := await stop.unless_asked(self._register(stop)):
                await self._until_ended(stop, once, started, version)
        finally:
            self._child_tasks.uninstall()
            with anyio.CancelScope(shield=True):
                await self._heartbeat.stop(forget_worker=True)  # Nothing where it has worked: it was stopped before.
                await self._reading.close()
                await self._writing.close()
                await self._pool.close()

    async def _until_ended(self, stop: StopRequest, once: bool, started: anyio.Event | None, version: str) -> None:
        ended = anyio.Event()
        try:
            async with anyio.create_task_group() as outer:
                outer.start_soon(self._work, stop, once, started, version, ended)
                try:
                    await ended.wait()
                finally:
                    if not ended.is_set():
                        stop.ask("cancelled")
        except BaseExceptionGroup as group:
            raise innermost(group) from None

    async def _register(self, stop: StopRequest) -> str:
        """Check the database, become known, learn the ids of the tasks; returns the server's version."""
        connection = await self._reading.connection()
        await check_server_and_schema(self._database, connection, self._identity.registry, self._observers)
        await check_policies(connection, self._database.schema)
        if not self._doors_may_move:
            await store.check_clock(self._reading, self._database.schema)
        canceller = Canceller(self._identity, self._fetcher, self._executor, self._start_gate)
        reactions = HeartbeatCallbacks(
            emit=self._observers.emit,
            lost=self._membership.lost,
            doubted=self._membership.doubted,
            regained=self._membership.regained,
            cancelled=canceller.cancel,
            named=self._start_gate.named,
            fallback=self._fallback.ask,
            rescue=self._maintenance.hurry,
            fail=stop.fail,
            started=self._start_gate.started,
            stuck=self._stuck.ids,
        )
        watchdog = LoopWatchdog(
            self._options.blocked_after_s, self._identity, self._executor, self._child_tasks, self._observers.emit
        )
        self._heartbeat.start(reactions, watchdog)
        await self._membership.join()
        await self._fetcher.prepare()
        server = connection.get_server_version()
        return f"{server.major}.{server.micro}"  # asyncpg reads 15.18 as 15.0.18

    async def _work(
        self, stop: StopRequest, once: bool, started: anyio.Event | None, version: str, ended: anyio.Event
    ) -> None:
        with anyio.CancelScope(shield=True):
            try:
                async with anyio.create_task_group() as group:
                    await self._start(group, once)
                    self._tell_start(version)
                    if started is not None:
                        started.set()
                    await self._wait(stop, once)
                    await self._shut_down(stop)
                    group.cancel_scope.cancel()
                    self._has_left = True
                    with anyio.CancelScope(shield=True):
                        # A part that waits for a server that does not answer ends with its connection.
                        await self._cron.close()
                        await self._reading.close()
                        await self._writing.close()
                if not self._has_left:
                    raise AsyncqError("a part was cancelled from inside: a defect of asyncq, please report it")
            except BaseException as error:
                said = WorkerCrashed(worker_id=self._identity.worker_id, error=in_short(innermost(error)))
                self._observers.emit(said, innermost(error))
                await self._abandon()
                raise
            finally:
                ended.set()

    async def _abandon(self) -> None:
        """After the failure of a part nothing goes on: no handler, and no heartbeat: so others rescue the claims."""
        self._stuck.close()  # No loop can be started any more.
        runs = self._executor.cancel_all()
        if handlers := [run.handler for run in runs if run.handler is not None]:
            await asyncio.wait(handlers, timeout=CANCEL_S)
        self._clear_away()
        await self._heartbeat.stop(keep_claims=bool(self._executor.running))

    async def _start(self, group: TaskGroup, once: bool) -> None:
        """Start the parts, writers before readers."""
        self._once = once
        self._child_tasks.install()
        self._group = group
        self._reporter = Reporter(self._observers, group)
        claim_next = ClaimNext(self._writing, self._identity, self._fetcher)
        self._completer = Completer(self._writing, self._reporter, self._observers, self._settled, claim_next)
        self._fetcher.give_back, self._fetcher.following = self._completer.give_back, self._completer.following
        self._completer.is_held = self._fetcher.buffer.is_held
        self._membership.open(group)
        self._fetcher.open(group.start_soon)
        group.start_soon(self._fallback.run)
        group.start_soon(self._complete)
        for _ in range(self._options.concurrency):
            group.start_soon(self._loop)
        self._stuck.replace = self._one_more_loop
        self._stuck.filled = self._fetcher.let_go
        self._stuck.changed = self._stuck_changed
        if once:
            await self._maintenance.once()
        else:
            group.start_soon(self._maintenance.run, self._options.lease_s / BEATS_A_LEASE)
            if self._options.listen:
                await group.start(
                    listen,
                    self._listen_database,
                    self._observers,
                    self._fetcher,
                    self._heard,
                    self._heard_of_cancelled,
                    self._heartbeat.beat_now,
                    self._cron.wake,
                )
        group.start_soon(self._membership.learn_the_rest)
        group.start_soon(self._fetch, GIVE_UP_S if once else None)
        if not once:
            await group.start(self._cron.run)

    def _heard(self, text: str) -> None:
        """Something may be due; if clocks may be moved, one may have been."""
        self._fetcher.on_call.heard(text)
        if self._doors_may_move:
            self._cron.wake()

    def _heard_of_cancelled(self, worker_id: int, job_id: int, _token: int) -> None:
        """Look in the rows: whoever can connect to the database can send such a message, whatever its rights."""
        if worker_id == self._identity.worker_id:
            if job_id:
                self._heartbeat.beat_now()
            else:
                self._membership.questioned()

    async def _fetch(self, give_up_s: float | None) -> None:
        await self._fetcher.run(self._progress.set, give_up_s)
        self._fetched.set()

    async def _loop(self) -> None:
        await job_loop(self._fetcher.buffer, self._executor, self._completer, self._start_gate, self._identity)
        self._loops_left -= 1
        if not self._loops_left:
            self._loops_ended.set()

    def _one_more_loop(self) -> None:
        self._loops_left += 1
        self._group.start_soon(self._loop)

    def _stuck_changed(self) -> None:
        """It shows in the worker's row, and fetching may go on."""
        self._heartbeat.beat_now()
        self._fetcher.wake()

    async def _complete(self) -> None:
        await self._completer.run(self._progress.set)
        self._written.set()

    async def _wait(self, stop: StopRequest, once: bool) -> None:
        if not once:
            await stop.asked()
            return
        async with anyio.create_task_group() as race:
            for end in (self._calm, stop.asked):
                race.start_soon(_first, end, race.cancel_scope)

    async def _calm(self) -> None:
        while not self._is_calm():
            self._progress.clear()
            await self._progress.wait()

    def _is_calm(self) -> bool:
        """Nothing runs, nothing waits here, nothing is to be written, and the last fetch found nothing."""
        busy = (
            self._executor.running or len(self._fetcher.buffer) or self._completer.unwritten or self._start_gate.waiting
        )
        return self._fetcher.is_idle and not busy

    async def _shut_down(self, stop: StopRequest) -> None:
        self._observers.emit(
            WorkerStopping(
                worker_id=self._identity.worker_id,
                reason=stop.reason or "nothing left to do",
                running=len(self._executor.running),
                grace_s=self._options.grace_s,
            )
        )
        self._cron.stop()
        self._fetcher.stop()
        self._completer.give_back(self._fetcher.buffer.close(), "the worker stops", self._identity.worker_id)
        self._start_gate.close()
        self._executor.tell_all()
        await self._let_finish(stop)
        stuck = tuple(sorted(run.claim.id for run in self._executor.running))
        with anyio.move_on_after(FLUSH_S):
            # A fetch that was under way gives back what it brings.
            await self._fetched.wait()
            self._completer.close()
            await self._written.wait()
            await self._told.wait()
        with anyio.move_on_after(CANCEL_S):
            await self._reporter.quiet()
        self._clear_away()
        await self._heartbeat.stop(keep_claims=bool(stuck))
        await self._leave(stuck)

    async def _let_finish(self, stop: StopRequest) -> None:
        """Running handlers may finish within the grace period; then they are cancelled."""
        with anyio.move_on_after(self._options.grace_s):
            async with anyio.create_task_group() as race:
                for end in (self._loops_ended.wait, stop.forced):
                    race.start_soon(_first, end, race.cancel_scope)
        if self._loops_ended.is_set():
            return
        if runs := self._executor.cancel_all():
            self._observers.emit(
                GraceExceeded(worker_id=self._identity.worker_id, job_ids=tuple(run.claim.id for run in runs))
            )
        with anyio.move_on_after(CANCEL_S):
            await self._loops_ended.wait()

    def _clear_away(self) -> None:
        """Cancel the asyncio tasks that handlers left behind."""
        self._stuck.close()
        handlers = {run.handler for run in self._executor.running}
        left = {task: owner for task, owner in self._child_tasks.find().items() if task not in handlers}
        if left:
            names = tuple(sorted(f"{owner}: {task.get_name()}" for task, owner in left.items()))
            self._observers.emit(TasksLeftBehind(names=names))
        for task in left:
            task.cancel()

    async def _leave(self, stuck: Sequence[int]) -> None:
        """Be forgotten, unless claims are left: then the row stays, and others take over after the lease."""
        abandoned = self._completer.abandoned()
        if abandoned:
            self._observers.emit(SettlementsAbandoned(job_ids=abandoned))
        if self._written.is_set() and not abandoned and not stuck:
            try:
                with anyio.move_on_after(FLUSH_S):
                    await self._membership.leave()
            except (AsyncqError, TimeoutError) as error:
                self._observers.emit(MaintenanceFailed(error=f"the worker could not be removed: {words(error)}"))
        self._observers.emit(
            WorkerStopped(
                worker_id=self._identity.worker_id,
                completed=self._reporter.completed,
                failed=self._reporter.failed,
                returned=self._reporter.returned,
                stuck=len(stuck),
            )
        )

    def _finished(self) -> int:
        return self._executor.finished

    def _settled(self, settlements: Iterable[Settlement]) -> None:
        """What was written may have made something runnable, here or elsewhere."""
        if self._once:
            self._fetcher.wake()  # What jobs added is found by one more fetch: nothing listens.
        tell_others = False
        for settlement in settlements:
            waits = settlement.delay_s is not None and not settlement.discarded
            if waits:
                delay_s = settlement.delay_s or 0.0
                self._fetcher.wake_in(delay_s)
                # Who sleeps elsewhere does not know of it, and this worker may be busy by then, or gone.
                tell_others = tell_others or delay_s <= LONGEST_POLL_S
            if settlement.queue is not None or not (waits or settlement.done):
                self._fetcher.wake()
                tell_others = tell_others or self._fetcher.on_call.is_mixed or not self._fetcher.has_room
        if tell_others:
            self._tell = True
            if self._told.is_set():
                self._told = anyio.Event()
                self._group.start_soon(self._tell_others)

    async def _tell_others(self) -> None:
        """Wake other workers: something is runnable that may not be for this one, or not now. A hint: it may fail."""
        try:
            while self._tell:
                self._tell = False
                await store.wake_workers(self._writing)
        except AsyncqError as error:
            self._observers.emit(MaintenanceFailed(error=f"other workers could not be woken: {error}"))
        finally:
            self._told.set()

    def _tell_start(self, version: str) -> None:
        options = self._options
        loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
        self._observers.emit(
            WorkerStarted(
                worker_id=self._identity.worker_id,
                schema=self._database.schema,
                tasks=tuple(sorted(self._identity.registry)),
                concurrency=options.concurrency,
                poll_s=options.poll_s,
                lease_s=options.lease_s,
                grace_s=options.grace_s,
                connections=3 + (self._listen_database is not None) + bool(self._items),
                pool_size=options.pool_size,
                server=version,
                loop=f"{loop}, Python {platform.python_version()}",
            )
        )


async def _first(wait: Callable[[], Awaitable[object]], scope: anyio.CancelScope) -> None:
    await wait()
    scope.cancel()
