"""Starts the parts of a worker in order, waits for the request to stop, and stops them in reverse.

The parts run shielded in one task group. A cancellation of the worker from outside only asks it to stop. It ends in
order, within the grace period and a few seconds.
"""

import asyncio
import platform
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

import anyio
from anyio.abc import TaskGroup, TaskStatus

from asyncq.domain.cron.item import CronItem
from asyncq.domain.errors import AsyncqError, StoreError, UnsupportedServer
from asyncq.domain.events import (
    GraceExceeded,
    LeaseOnly,
    MaintenanceFailed,
    SettlementsAbandoned,
    TasksLeftBehind,
    WorkerCrashed,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
)
from asyncq.domain.options import WorkerOptions
from asyncq.domain.outcome import error_line, error_text
from asyncq.domain.share import Choice
from asyncq.domain.task import Registry
from asyncq.engine.base.groups import innermost
from asyncq.engine.base.lease import BEATS_A_LEASE
from asyncq.engine.base.observers import Observers
from asyncq.engine.fetch.listener import listen
from asyncq.engine.parts import Parts
from asyncq.engine.run.around import Around
from asyncq.engine.shutdown import StopRequest
from asyncq.store import workers as store
from asyncq.store.claim import plan
from asyncq.store.database import Connection, Database
from asyncq.store.migrate import check_version
from asyncq.store.policies import check_policies
from asyncq.store.probe import LEASE_ONLY, NO_FATE, check_capabilities

CANCEL_S = 5.0  # how long cancelled handlers have to end
FLUSH_S = 10.0  # how long the last settlements may take
GIVE_UP_S = 5.0  # how long `run_once` tries to fetch while the database is unavailable


class Supervisor:
    """One run of a worker, from its registration to its end.

    With `once` it ends when no job is due any more, and adds no recurring jobs. Without `listen_database` it polls.
    """

    def __init__(
        self,
        database: Database,
        registry: Registry,
        options: WorkerOptions,
        observers: Observers,
        *,
        around: Around,
        choice: Choice,
        listen_database: Database | None = None,
        items: Sequence[CronItem] = (),
        once: bool = False,
        allow_test_clock: bool = False,
    ) -> None:
        self._database = database
        self._listen_database = listen_database
        self._options = options
        self._observers = observers
        self._has_items = bool(items)
        self._once = once
        self._allow_test_clock = allow_test_clock
        self.parts = Parts(
            database,
            registry,
            options,
            observers,
            around=around,
            choice=choice,
            items=items,
            listens=listen_database is not None,
            once=once,
        )
        self._progress = asyncio.Event()
        self._fetched, self._written = anyio.Event(), anyio.Event()
        self._has_left = False

    @property
    def in_handler(self) -> bool:
        """Whether the current code was called by a handler of this worker."""
        return self.parts.child_tasks.in_handler

    async def run(self, stop: StopRequest, *, started: anyio.Event | None = None) -> None:
        """Work until asked to stop, or, with `once`, until nothing is runnable; `started` is set at the first fetch.

        StoreError if the database cannot be used at the start; later the worker retries without end. If cancelled, the
        worker stops as if asked to. Then the cancellation continues.
        """
        try:
            if version := await stop.unless_asked(self._register(stop)):
                await self._until_ended(stop, started, version)
        finally:
            self.parts.leave_loop()
            with anyio.CancelScope(shield=True):
                await self.parts.close()

    async def _until_ended(self, stop: StopRequest, started: anyio.Event | None, version: str) -> None:
        ended = anyio.Event()
        try:
            async with anyio.create_task_group() as outer:
                outer.start_soon(self._work, stop, started, version, ended)
                try:
                    await ended.wait()
                finally:
                    if not ended.is_set():
                        stop.ask("cancelled")
        except BaseExceptionGroup as group:
            raise innermost(group) from None

    async def _register(self, stop: StopRequest) -> str:
        """Check the database, register the worker and its tasks, and return the server's version."""
        connection = await self.parts.reading.connection()
        await self._check(connection)
        self.parts.start_heartbeat(stop.fail)
        await self.parts.membership.join()
        await plan(self.parts.reading)  # Before the first job waits for it.
        server = connection.get_server_version()
        return f"{server.major}.{server.micro}"  # asyncpg reads 15.18 as 15.0.18

    async def _check(self, connection: Connection) -> None:
        """Refuse a schema or a server with which this worker cannot work; report features that are limited."""
        database, registry = self._database, self.parts.identity.registry
        await check_version(connection, database.schema)
        found = await check_capabilities(database, connection)
        if NO_FATE in found.limits and (names := [name for name in registry if registry[name].isolation is not None]):
            raise UnsupportedServer(f"the server cannot run transactional tasks: {', '.join(names)}; {NO_FATE}")
        if LEASE_ONLY in found.limits:
            self._observers.emit(LeaseOnly(reason=LEASE_ONLY))
        await check_policies(database, connection)
        if not self._allow_test_clock:
            await store.check_clock(self.parts.reading, database.schema)

    async def _work(self, stop: StopRequest, started: anyio.Event | None, version: str, ended: anyio.Event) -> None:
        with anyio.CancelScope(shield=True):
            try:
                async with anyio.create_task_group() as group:
                    await self._start(group)
                    self._emit_start(version)
                    if started is not None:
                        started.set()
                    await self._wait(stop)
                    await self._shut_down(stop)
                    group.cancel_scope.cancel()
                    self._has_left = True
                    with anyio.CancelScope(shield=True):
                        # A part that waits for a server that does not answer ends with its connection.
                        await self.parts.cron.close()
                        await self.parts.reading.close()
                        await self.parts.writing.close()
                if not self._has_left:
                    raise AsyncqError("a part was cancelled from inside: a defect of asyncq, please report it")
            except BaseException as error:
                said = WorkerCrashed(worker_id=self.parts.identity.worker_id, error=error_line(innermost(error)))
                self._observers.emit(said, innermost(error))
                await self._abandon()
                raise
            finally:
                ended.set()

    async def _abandon(self) -> None:
        """After a part has failed, stop the handlers and the heartbeat, so that other workers rescue the claims."""
        self.parts.stuck.close()  # From here on no loop can be started.
        runs = self.parts.executor.cancel_all()
        if handlers := [run.handler for run in runs if run.handler is not None]:
            await asyncio.wait(handlers, timeout=CANCEL_S)
        self._clear_away()
        await self.parts.heartbeat.stop(keep_claims=bool(self.parts.executor.running))

    async def _start(self, group: TaskGroup) -> None:
        """Start the parts, writers before readers."""
        parts = self.parts
        parts.child_tasks.install()
        parts.tasks.open(group)
        parts.membership.open()
        group.start_soon(parts.fallback.run)
        group.start_soon(self._complete)
        for _ in range(self._options.concurrency):
            parts.loops.start()
        if self._once:
            await parts.maintenance.once()
        else:
            parts.maintenance.start(group, self._options.lease_s / BEATS_A_LEASE)
            group.start_soon(parts.closer.run_for_ever)
            if self._options.listen:
                await group.start(self._listen)
        group.start_soon(parts.tally.run_for_ever)
        group.start_soon(parts.membership.learn_the_rest)
        group.start_soon(self._fetch)
        if not self._once:
            await group.start(parts.cron.run)

    async def _listen(self, *, task_status: TaskStatus[None]) -> None:
        parts = self.parts
        await listen(
            self._listen_database,
            self._observers,
            identity=parts.identity,
            on_call=parts.on_call,
            handoff=parts.handoff,
            heard=self._heard,
            cancelled=self._heard_of_cancelled,
            look=parts.heartbeat.beat_now,
            changed=parts.cron.wake,
            task_status=task_status,
        )

    def _heard(self, text: str) -> None:
        """Handle a wake-up: a job may be due, something may be paused, or a test may have moved the clock."""
        if not self.parts.closer.heard(text) and not self.parts.pauses.heard(text):
            self.parts.on_call.heard(text)
        if self._allow_test_clock:
            self.parts.cron.wake()

    def _heard_of_cancelled(self, worker_id: int, job_id: int) -> None:
        """Check the rows, since every role that can connect to the database can send this message."""
        if worker_id == self.parts.identity.worker_id:
            if job_id:
                self.parts.heartbeat.beat_now()
            else:
                self.parts.membership.questioned()

    async def _fetch(self) -> None:
        await self.parts.fetcher.run(self._progress.set, GIVE_UP_S if self._once else None)
        self._fetched.set()

    async def _complete(self) -> None:
        await self.parts.completer.run(self._progress.set)
        self._written.set()

    async def _wait(self, stop: StopRequest) -> None:
        if not self._once:
            await stop.asked.wait()
            return
        await _any_of(self._calm, stop.asked.wait)

    async def _calm(self) -> None:
        while not self.parts.is_calm or await self.parts.closer.look():
            self._progress.clear()
            await self._progress.wait()

    async def _shut_down(self, stop: StopRequest) -> None:
        held_back = {} if stop.reason else await _held_back(self.parts)
        said = stop.reason or _reason(held_back)
        me, running, grace_s = self.parts.identity.worker_id, len(self.parts.executor.running), self._options.grace_s
        self._observers.emit(
            WorkerStopping(worker_id=me, reason=said, running=running, grace_s=grace_s, held_back=held_back)
        )
        self.parts.cron.stop()
        self.parts.fetcher.stop()
        self.parts.start_gate.close()
        self.parts.executor.ask_all_to_end()
        await self._let_finish(stop)
        stuck = tuple(sorted(claim.id for run in self.parts.executor.running for claim in run.claims))
        with anyio.move_on_after(FLUSH_S):
            # A fetch in progress gives its claims back.
            await self._fetched.wait()
            self.parts.completer.close()
            await self._written.wait()
            await self.parts.wake_ups.sent()
            await self.parts.progress.close()
            await self.parts.tally.flush()
        with anyio.move_on_after(CANCEL_S):
            await self.parts.reporter.quiet()
        self._clear_away()
        await self.parts.heartbeat.stop(keep_claims=bool(stuck))
        await self._leave(stuck)

    async def _let_finish(self, stop: StopRequest) -> None:
        """Wait for running handlers until the grace period ends, then cancel them."""
        with anyio.move_on_after(self._options.grace_s):
            await _any_of(self.parts.loops.ended.wait, stop.forced.wait)
        if self.parts.loops.ended.is_set():
            return
        if runs := self.parts.executor.cancel_all():
            job_ids = tuple(claim.id for run in runs for claim in run.claims)
            self._observers.emit(GraceExceeded(worker_id=self.parts.identity.worker_id, job_ids=job_ids))
        with anyio.move_on_after(CANCEL_S):
            await self.parts.loops.ended.wait()

    def _clear_away(self) -> None:
        """Cancel the asyncio tasks that handlers left behind."""
        self.parts.stuck.close()
        handlers = {run.handler for run in self.parts.executor.running}
        left = {task: owner for task, owner in self.parts.child_tasks.find().items() if task not in handlers}
        if names := tuple(sorted(f"{owner}: {task.get_name()}" for task, owner in left.items())):
            self._observers.emit(TasksLeftBehind(names=names))
        for task in left:
            task.cancel()

    async def _leave(self, stuck: Sequence[int]) -> None:
        """Remove the worker's row; with claims left, keep it, so that others rescue them after the lease."""
        abandoned = self.parts.outbox.abandoned
        if abandoned:
            self._observers.emit(SettlementsAbandoned(job_ids=abandoned))
        if self._written.is_set() and not abandoned and not stuck:
            try:
                with anyio.move_on_after(FLUSH_S):
                    await self.parts.membership.leave()
            except AsyncqError as error:
                self._observers.emit(MaintenanceFailed(error=f"the worker could not be removed: {error_text(error)}"))
        reporter = self.parts.reporter
        event = WorkerStopped(
            worker_id=self.parts.identity.worker_id,
            completed=reporter.completed,
            failed=reporter.failed,
            returned=reporter.returned,
            stuck=len(stuck),
        )
        self._observers.emit(event)

    def _emit_start(self, version: str) -> None:
        options = self._options
        loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
        event = WorkerStarted(
            worker_id=self.parts.identity.worker_id,
            schema=self._database.schema,
            tasks=tuple(sorted(self.parts.identity.registry)),
            concurrency=options.concurrency,
            poll_s=options.poll_s,
            lease_s=options.lease_s,
            grace_s=options.grace_s,
            connections=3 + (self._listen_database is not None) + self._has_items,
            pool_size=options.pool_size,
            server=version,
            loop=f"{loop}, Python {platform.python_version()}",
        )
        self._observers.emit(event)


async def _held_back(parts: Parts) -> dict[str, int]:
    """How many due jobs of each task may not start; none if the database does not answer in time."""
    with suppress(StoreError), anyio.move_on_after(CANCEL_S):
        return await store.held_back(parts.reading, parts.identity.tasks)
    return {}


def _reason(held_back: Mapping[str, int]) -> str:
    """Why a worker ends that nobody has asked to stop."""
    if not held_back:
        return "nothing left to do"
    return f"nothing more may start: {', '.join(f'{number} jobs of {task}' for task, number in held_back.items())} wait"


async def _any_of(*ends: Callable[[], Awaitable[object]]) -> None:
    """Wait for the first of several ends."""

    async def wait(end: Callable[[], Awaitable[object]]) -> None:
        await end()
        race.cancel_scope.cancel()

    async with anyio.create_task_group() as race:
        for end in ends:
            race.start_soon(wait, end)
