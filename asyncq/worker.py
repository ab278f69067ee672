"""`Worker`: runs jobs. It only connects the parts, which are in `engine`."""

import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from contextvars import copy_context
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import anyio

from asyncq.domain.address import check_addresses
from asyncq.domain.around import AddMiddleware, Middleware, check_lifespan, check_middleware, name_of
from asyncq.domain.codec import Codec, Envelopes
from asyncq.domain.cron.crontab import Crontab, gather
from asyncq.domain.errors import ConfigurationError, TaskError
from asyncq.domain.events import Event, Observer
from asyncq.domain.http_address import http_address
from asyncq.domain.limit import Queue
from asyncq.domain.options import (
    BLOCKED_AFTER_S,
    DISCARDED_RETENTION,
    ERROR_RETENTION,
    ForbiddenFlags,
    switch,
    worker_options,
)
from asyncq.domain.resource import Resource, check_overrides, check_uses
from asyncq.domain.share import Share, choice_of
from asyncq.domain.task import Registry, Task
from asyncq.domain.time_limit import Keep
from asyncq.engine.base import user_code
from asyncq.engine.base.held import held_by, is_held_by
from asyncq.engine.base.observers import Observers, listed
from asyncq.engine.probes.counters import Counters
from asyncq.engine.run.around import Around
from asyncq.engine.run.copies import no_copies
from asyncq.engine.run.lifespan import Lifespan
from asyncq.engine.shutdown import StopRequest
from asyncq.engine.signals import signals
from asyncq.engine.supervisor import Supervisor
from asyncq.log.hint import hint_once
from asyncq.log.observer import LogObserver
from asyncq.store.database import Database
from asyncq.store.listen import listen_database
from asyncq.store.migrate import migrate as migrate_database
from asyncq.store.statements import DEFAULT_SCHEMA

if TYPE_CHECKING:
    from asyncq.engine.probes.probes import Probes


class Worker:
    """Runs jobs of the given tasks. Times are timedeltas or seconds.

    Args:
        dsn: The database, as a PostgreSQL DSN.
        tasks: The tasks, and a `Queue` for each named queue that has a limit other than one job at once.
        schema: The schema's name; `asyncq` by default.
        concurrency: How many jobs at once; 10 by default. Raise it for handlers that mostly wait.
        poll: How long an idle worker sleeps at most between two fetches; 2 s by default, at most 60 s. Notifications
            and due times wake it earlier.
        lease: How long without a heartbeat until other workers take over its jobs; 30 s by default.
        grace: How long a stopping worker lets running handlers finish; 25 s by default.
        pool_size: How many connections for handlers, opened on demand; 5 by default.
        pool_wait: How long a handler waits for one of them; 30 s by default.
        listen: Whether to hold a LISTEN connection; True by default. False only polls.
        listen_dsn: The DSN for that connection, directly to the server; `dsn` by default. It is needed if `dsn` leads
            to a pooler with transaction pooling.
        queues: The names of queues and of limits, or their `Share` of its slots. Of jobs that have a queue or a limit
            it runs only those of one that is named; all by default.
        exclude: The names of queues and of limits whose jobs it does not run; none by default.
        forbidden_flags: Jobs with one of these flags are not run: a list, a function or an async function, which is
            called before each fetch.
        discarded_retention: How long discarded jobs are kept before workers remove them; 30 days by default. None for
            ever, which costs space in the database.
        error_retention: How long failed attempts are kept, whatever became of the job; 7 days by default. None records
            none. The shortest time of all workers applies.
        keep: How long ended jobs are kept, with payload and result: seconds, a timedelta, or text such as `"7 days"`.
            For tasks that do not say it; they are not kept by default.
        blocked_after: How long the event loop may be blocked until a warning names the job and the line; 1 s by
            default, None for never.
        crontab: Recurring jobs, in addition to those of the tasks: the text of a crontab, a `CronItem`, or a list of
            both; none by default. `run_once` ignores them.
        observers: Functions, or objects with `wants`, that receive events.
        migrate: Whether to upgrade the schema at the start; False by default.
        lifespan: An async context manager function that takes the worker: entered before the first fetch, left after
            the last settlement; none by default.
        middleware: Coroutine functions around the runs of all tasks, the first one outermost; none by default.
        add_middleware: Coroutine functions around the adds of handlers, as `middleware` of a `Client`; none by default.
        processes: How many processes at once for tasks with `run_in="process"`, started on demand; by default as many
            as the machine has CPUs.
        process_memory: How many bytes of memory such a process may use; none by default. One that uses more is killed,
            and its job has failed. On Linux.
        codec: Decodes payloads that a client's codec has encoded, and encodes those that the worker adds; none by
            default.
        overrides: Resources that are replaced, for tests: each by another resource, or by a value; none by default.
        max_result: The largest result in bytes; 1 MiB by default, at most 16 MiB. A job with a larger one completes
            without it.
        stats: Whether to write how many runs ended, and how long they took and waited, every ten seconds; True by
            default. A crash loses the numbers of up to ten seconds.
        http: Where to answer probes and show metrics, as `HOST:PORT`: `/healthz`, `/readyz`, `/metrics`. Not by
            default.
        unhealthy_after: How long the event loop may be blocked until `/healthz` says so; 30 s by default.

    Raises:
        ConfigurationError: An option is not valid.
        TaskError: Two tasks share a name, or there is neither a task nor a recurring job. Or the resources of a task do
            not fit together, or another process cannot import a handler that runs there.
        InvalidCrontab: Recurring jobs are not valid, or two have the same identifier; with all problems.
    """

    def __init__(
        self,
        dsn: str,
        tasks: Iterable[Task[...] | Queue],
        *,
        schema: str = DEFAULT_SCHEMA,
        concurrency: int | None = None,
        poll: timedelta | float | None = None,
        lease: timedelta | float | None = None,
        grace: timedelta | float | None = None,
        pool_size: int | None = None,
        pool_wait: timedelta | float | None = None,
        listen: bool = True,
        listen_dsn: str | None = None,
        queues: Sequence[str | Share] | None = None,
        exclude: Iterable[str] | None = None,
        forbidden_flags: ForbiddenFlags = None,
        discarded_retention: timedelta | float | None = DISCARDED_RETENTION,
        error_retention: timedelta | float | None = ERROR_RETENTION,
        keep: Keep | None = None,
        blocked_after: timedelta | float | None = BLOCKED_AFTER_S,
        crontab: Crontab | None = None,
        observers: Sequence[Observer | Callable[[Event], None]] = (),
        migrate: bool = False,
        lifespan: Callable[["Worker"], AbstractAsyncContextManager[Any]] | None = None,
        middleware: Sequence[Middleware] = (),
        add_middleware: Sequence[AddMiddleware] = (),
        codec: Codec | None = None,
        overrides: Mapping[Resource[Any], Any] | None = None,
        processes: int | None = None,
        process_memory: int | None = None,
        max_result: int | None = None,
        http: str | None = None,
        unhealthy_after: timedelta | float | None = None,
        stats: bool = True,
    ) -> None:
        self._database = Database(dsn, schema, None if codec is None else Envelopes(codec))
        self._listen_database = self._listens_at(switch("listen", listen), listen_dsn)
        self._registry = Registry(tasks, encoded=codec is not None)
        self._items = gather(crontab, self._registry)
        self._options = worker_options(
            concurrency=concurrency,
            poll=poll,
            lease=lease,
            grace=grace,
            pool_size=pool_size,
            pool_wait=pool_wait,
            listen=listen,
            forbidden_flags=forbidden_flags,
            discarded_retention=discarded_retention,
            error_retention=error_retention,
            keep=keep,
            blocked_after=blocked_after,
            processes=processes,
            process_memory=process_memory,
            max_result=max_result,
            unhealthy_after=unhealthy_after,
            stats=switch("stats", stats),
        )
        self._http = None if http is None else http_address(http)
        self._choice = choice_of(queues, exclude, concurrency=self._options.concurrency)
        others = listed(observers)
        self._counters = Counters()
        self._observers = Observers([LogObserver(), *others, *([] if self._http is None else [self._counters])])
        self._is_observed = bool(others)
        self._migrate = switch("migrate", migrate)
        self._lifespan = check_lifespan(lifespan)
        self._middleware = check_middleware(middleware)
        self._add_middleware = check_middleware(add_middleware)
        self._overrides = check_overrides(overrides)
        self._check_resources()
        check_addresses(self._registry)
        if not self._registry and not self._items:
            raise TaskError("tasks is empty: this worker would run no job; write Worker(dsn, [task, ...])")
        self._stop: StopRequest | None = None
        self._ended: anyio.Event | None = None
        self._running: Supervisor | None = None
        self._probes: Probes | None = None
        self._allow_test_clock = False

    def _listens_at(self, listen: bool, listen_dsn: str | None) -> Database | None:
        """The database for the LISTEN connection, if there is one."""
        if not listen:
            if listen_dsn is not None:
                raise ConfigurationError("listen_dsn is given with listen=False: leave one of them out")
            return None
        return listen_database(self._database, listen_dsn)

    def _check_resources(self) -> None:
        for task in self._registry.values():
            uses, is_async = task.signature.uses.values(), task.signature.is_async
            has_lifespan = self._lifespan is not None
            check_uses(task.name, uses, is_async=is_async, overrides=self._overrides, has_lifespan=has_lifespan)

    async def run(self) -> None:
        """Run jobs until SIGTERM, SIGINT or `stop()`; a second signal ends the grace period.

        A worker that still waits for the database or for a migration at that time ends at once.

        Raises:
            LifespanFailed: The lifespan raised at the start, or ended while the worker ran.
            SchemaMissing: The schema is not installed, or older than this release: run `asyncq migrate`.
            SchemaTooNew: The schema needs a newer release. A running worker stops in order before it raises this.
            StoreUnavailable: The database cannot be reached at the start; a running worker reconnects for ever.

        If cancelled, it stops in order, within the grace period and a few seconds.
        """
        await self._run(once=False, handle_signals=True)

    async def run_once(self, *, handle_signals: bool = False) -> None:
        """Run until no job is runnable: due jobs, jobs that become due meanwhile, and queues to their end.

        Args:
            handle_signals: Whether SIGTERM and SIGINT stop it in order, as with `run`; False by default.

        Jobs that wait for a later time, for a retry, or because of a limit, a rate or a pause are not run. The event
        `WorkerStopping` has the numbers of the last ones.

        Raises:
            LifespanFailed: As `run`.
            StoreError: The database cannot be used.

        If cancelled, it stops in order, as `run` does.
        """
        await self._run(once=True, handle_signals=handle_signals)

    @asynccontextmanager
    async def start(self) -> AsyncGenerator[Self]:
        """Run inside a service until the block ends; the service handles the signals.

        Yields:
            The worker, as soon as it fetches jobs.

        Raises:
            LifespanFailed: As `run`.
            StoreError: The database cannot be used at the start.

        At the end of the block it stops in order, within the grace period and a few seconds. If a part of the worker
        fails, its error is raised at the end of the block, unless the block raises its own. The block may be left in
        another asyncio task than the one that entered it, as fixtures of some test runners do.
        """
        started = anyio.Event()

        async def work() -> None:
            await self._run(once=False, handle_signals=False, started=started)

        # No task group: a fixture may leave this block in another asyncio task than the one that entered it.
        running, is_entered, end = user_code.start(copy_context(), work), False, None
        running.add_done_callback(lambda _: started.set())
        try:
            await started.wait()
            is_entered = True
            if not running.done() or not isinstance(await user_code.end_of(running), user_code.Raised):
                yield self
        finally:
            with anyio.CancelScope(shield=True):
                # A worker that has ended needs no stop, and a refused second start must not stop the running one.
                if is_entered and not running.done():
                    await self.stop()
                elif not is_entered:
                    running.cancel()
                end = await user_code.end_of(running)
        if isinstance(end, user_code.Raised):
            raise end.error

    async def stop(self) -> None:
        """Stop, and wait until the worker has ended; a handler only requests the stop.

        It returns at once in a handler, the lifespan or a resource of this worker, or in a task that one of them
        started: each would wait for the other. If cancelled, the worker continues to stop.
        """
        if self._stop is None or self._ended is None:
            return
        if not self._stop.is_asked:
            self._stop.ask("stop() was called")
        if not is_held_by(self) and (self._running is None or not self._running.in_handler):
            await self._ended.wait()

    async def _run(self, *, once: bool, handle_signals: bool, started: anyio.Event | None = None) -> None:
        if self._stop is not None:
            raise ConfigurationError("this worker already runs: one Worker object is one worker; make another one")
        if not once and not self._is_observed:
            hint_once()
        self._stop, self._ended = StopRequest(), anyio.Event()
        try:
            async with AsyncExitStack() as stack:
                stack.enter_context(no_copies())
                if handle_signals:
                    stack.enter_context(signals(self._stop.ask))
                if self._http is not None or (handle_signals and "NOTIFY_SOCKET" in os.environ):
                    await stack.enter_async_context(self._probed(notifies=handle_signals))
                if self._migrate:
                    await self._stop.unless_asked(migrate_database(self._database))
                if not self._stop.is_asked:
                    await self._work(self._stop, once=once, started=started)
            if self._stop.error is not None:
                raise self._stop.error
        finally:
            self._ended.set()
            self._stop = self._running = self._probes = None

    def _probed(self, *, notifies: bool) -> AbstractAsyncContextManager[None]:
        """Answer probes, and notify systemd if it wants that of this process, until the block ends."""
        from asyncq.engine.probes.probes import Probes, probing
        from asyncq.engine.probes.systemd import Notifier

        options = self._options
        notifier = Notifier.of(os.environ, options.grace_s) if notifies else None
        self._probes = Probes(self._http, notifier, self._counters, options.unhealthy_after_s)
        return probing(self._probes, self._observers.emit)

    async def _work(self, stop: StopRequest, *, once: bool, started: anyio.Event | None) -> None:
        """Run inside of the lifespan, if there is one."""
        if self._lifespan is None:
            await self._supervise(stop, None, once=once, started=started)
            return
        enter, name = partial(self._lifespan, self), name_of(self._lifespan)
        with held_by(self):
            lifespan = Lifespan(enter, name, self._observers, fail=stop.fail)
        try:
            value = await stop.unless_asked(lifespan.open())
            await self._supervise(stop, value, once=once, started=started)
        finally:
            await lifespan.close()

    async def _supervise(self, stop: StopRequest, lifespan: Any, *, once: bool, started: anyio.Event | None) -> None:
        """Run with the value of the lifespan, and close the resources after it."""
        with held_by(self):
            around = Around(
                self._middleware, self._overrides, lifespan, self._observers, add_middleware=self._add_middleware
            )
        self._running = Supervisor(
            self._database,
            self._registry,
            self._options,
            self._observers,
            around=around,
            choice=self._choice,
            listen_database=self._listen_database,
            items=self._items,
            once=once,
            allow_test_clock=self._allow_test_clock,
        )
        if self._probes is not None:
            self._probes.follow(self._running.parts.vitals(lambda: stop.is_asked))
        try:
            await self._running.run(stop, started=started)
        finally:
            await around.close()
