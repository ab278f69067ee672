"""`Worker`: runs jobs. Wiring only; the parts live in `engine`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import ExitStack, asynccontextmanager
from contextvars import copy_context
from datetime import timedelta

import anyio

from asyncq.domain.cron.crontab import Crontab, gather
from asyncq.domain.errors import ConfigurationError, TaskError
from asyncq.domain.events import Event, Observer
from asyncq.domain.options import BLOCKED_AFTER_S, DISCARDED_RETENTION, ForbiddenFlags, switch, worker_options
from asyncq.domain.task import Registry, Task
from asyncq.engine.base import user_code
from asyncq.engine.base.observers import Observers, listed
from asyncq.engine.run.copies import no_copies
from asyncq.engine.shutdown import StopRequest
from asyncq.engine.signals import signals
from asyncq.engine.supervisor import Supervisor
from asyncq.log import LogObserver, hint_once
from asyncq.store.database import Database
from asyncq.store.migrate import migrate as migrate_database
from asyncq.store.statements import DEFAULT_SCHEMA


class Worker:
    """Runs jobs of the given tasks. Times are timedeltas or seconds.

    Args:
        dsn: The database, as a PostgreSQL DSN.
        tasks: The tasks.
        schema: The schema's name; `asyncq` by default.
        concurrency: Jobs at once; 10 by default. Raise it for handlers that mostly wait.
        poll: How long an idle worker sleeps at most before it looks again; 2 s by default, at most 60 s. Only the
            safety net: notifications and due times wake it earlier.
        lease: After how long without a sign of life other workers take over its jobs; 30 s by default.
        grace: How long a stopping worker lets running handlers finish; 25 s by default.
        pool_size: Connections for handlers, opened on demand; 5 by default.
        pool_wait: How long a handler waits for one of them; 30 s by default.
        listen: Whether to hold a LISTEN connection; True by default, False polls only.
        listen_dsn: The DSN for that connection, which leads directly to the server; `dsn` by default. Needed where
            `dsn` leads to a pooler that pools by transaction.
        forbidden_flags: Jobs with one of these flags are left alone: a list, a function or an async function, asked
            before each fetch.
        discarded_retention: How long jobs that were discarded are kept before workers remove them; 30 days by default,
            None for ever, which costs room in the database.
        blocked_after: After how long without an answer of the event loop a warning names the job and the line that
            block it; 1 s by default, None for never.
        crontab: Recurring jobs, beside those that the tasks bring along: the text of a crontab, a `CronItem`, or a list
            of both; none by default. `run_once` leaves them alone.
        observers: Told of events: plain functions, or objects with `wants`.
        migrate: Whether to bring the schema up to date at the start; False by default.

    Raises:
        ConfigurationError: An option cannot work.
        TaskError: Two tasks share a name, or there is neither a task nor a recurring job.
        InvalidCrontab: Recurring jobs that cannot be understood, or two with the same identifier; with all problems.
    """

    def __init__(
        self,
        dsn: str,
        tasks: Iterable[Task[...]],
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
        forbidden_flags: ForbiddenFlags = None,
        discarded_retention: timedelta | float | None = DISCARDED_RETENTION,
        blocked_after: timedelta | float | None = BLOCKED_AFTER_S,
        crontab: Crontab | None = None,
        observers: Sequence[Observer | Callable[[Event], None]] = (),
        migrate: bool = False,
    ) -> None:
        self._database = Database(dsn, schema)
        self._listen_database = self._listens_at(switch("listen", listen), listen_dsn)
        self._registry = Registry(tasks)
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
            blocked_after=blocked_after,
        )
        others = listed(observers)
        self._observers = Observers([LogObserver(), *others])
        self._is_observed = bool(others)
        self._migrate = switch("migrate", migrate)
        if not self._registry and not self._items:
            raise TaskError("tasks is empty, so that this worker would run no job: Worker(dsn, [task, ...])")
        self._stop: StopRequest | None = None
        self._ended: anyio.Event | None = None
        self._running: Supervisor | None = None
        self._doors_may_move = False

    def _listens_at(self, listen: bool, listen_dsn: str | None) -> Database | None:
        """Where to LISTEN, if anywhere."""
        if not listen:
            if listen_dsn is not None:
                raise ConfigurationError("listen_dsn with listen=False: there is nothing to listen for")
            return None
        if listen_dsn is None:
            return None if self._database.is_pooled else self._database
        listen_database = Database(listen_dsn, self._database.schema)
        if listen_database.is_pooled:
            raise ConfigurationError("listen_dsn leads directly to the server: leave statement_cache_size=0 out")
        return listen_database

    async def run(self) -> None:
        """Run jobs until SIGTERM, SIGINT or `stop()`; a second signal ends the grace period.

        A worker that has not started by then, since it waits for the database or for a migration, ends at once.

        Raises:
            SchemaMissing: The schema is not installed, or older than this release: run `asyncq migrate`.
            SchemaTooNew: It needs a newer release; a worker that runs when this comes about stops in order first.
            StoreUnavailable: The database cannot be reached at the start; later it is tried again for ever.

        If cancelled, it stops in order, within the grace period and a few seconds.
        """
        await self._run(once=False, handle_signals=True)

    async def run_once(self, *, handle_signals: bool = False) -> None:
        """Run until nothing is runnable: what is due, and what becomes due by that, named queues to their end.

        Args:
            handle_signals: Whether SIGTERM and SIGINT stop it in order, as with `run`; False by default.

        Jobs that wait for a later time or a retry stay.

        Raises:
            StoreError: The database cannot be used.

        If cancelled, it stops in order, as `run` does.
        """
        await self._run(once=True, handle_signals=handle_signals)

    @asynccontextmanager
    async def start(self) -> AsyncGenerator[Worker]:
        """Run inside a service for as long as the block lasts; signals are the service's business.

        Yields:
            The worker, when it takes jobs.

        Raises:
            StoreError: The database cannot be used at the start.

        At the end of the block it stops in order, within the grace period and a few seconds. If a part of the worker
        fails, its error is raised at the end of the block, unless the block raises one of its own. Another asyncio task
        than the one that entered it may leave the block, as with the fixtures of some test runners.
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
        """Stop, and wait until the worker has ended; from a handler it only asks.

        Called by a handler of this worker, or by a task that one started, it returns at once: the worker would wait for
        the handler, and the handler for the worker. If cancelled, the worker goes on stopping.
        """
        if self._stop is None or self._ended is None:
            return
        if not self._stop.is_asked:
            self._stop.ask("stop() was called")
        if self._running is None or not self._running.in_handler:
            await self._ended.wait()

    async def _run(self, *, once: bool, handle_signals: bool, started: anyio.Event | None = None) -> None:
        if self._stop is not None:
            raise ConfigurationError("this worker runs already: one Worker object is one worker; make another one")
        if not once and not self._is_observed:
            hint_once()
        self._stop, self._ended = StopRequest(), anyio.Event()
        try:
            with ExitStack() as stack:
                stack.enter_context(no_copies())
                if handle_signals:
                    stack.enter_context(signals(self._stop.ask))
                if self._migrate:
                    await self._stop.unless_asked(migrate_database(self._database))
                if not self._stop.is_asked:
                    self._running = self._supervisor()
                    await self._running.run(self._stop, once=once, started=started)
            if self._stop.error is not None:
                raise self._stop.error
        finally:
            self._ended.set()
            self._stop = self._running = None

    def _supervisor(self) -> Supervisor:
        return Supervisor(
            self._database,
            self._registry,
            self._options,
            self._observers,
            listen_database=self._listen_database,
            items=self._items,
            doors_may_move=self._doors_may_move,
        )
