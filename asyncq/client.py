"""`Client`: adds jobs and reads them, on a pool of its own or on the caller's connection."""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Self, Unpack, overload
from weakref import WeakKeyDictionary

import msgspec

from asyncq.admin import Admin
from asyncq.cron import CronAdmin
from asyncq.domain.adding import NOTHING, accepted, make_spec, make_specs
from asyncq.domain.administration import check_job_id
from asyncq.domain.around import AddMiddleware, added_within, check_middleware
from asyncq.domain.codec import Codec, Envelopes
from asyncq.domain.deduplication import DEFAULT_WINDOW, check_window
from asyncq.domain.errors import (
    AsyncqError,
    ConfigurationError,
    JobNotFound,
    ResultUnavailable,
    StoreUnavailable,
    seconds,
)
from asyncq.domain.flow import Flow, jobs_of
from asyncq.domain.job import Added, Job, JobOptions, JobSpec
from asyncq.domain.limit import Queue
from asyncq.domain.options import whole_number
from asyncq.domain.payload import DEFAULT_MAX_PAYLOAD, LARGEST_PAYLOAD
from asyncq.domain.result import Ended, result_of
from asyncq.domain.task import PayloadT, Registry, ResultT, Takes, TakesNothing, Task
from asyncq.domain.time_limit import Duration, duration_s
from asyncq.engine.run.child_tasks import is_in_handler
from asyncq.handle import Handle, handle_of
from asyncq.log.client import say_that_waits_poll
from asyncq.store import admin as store
from asyncq.store.adapters.kinds import Adapter
from asyncq.store.add import HandoffHints, add_jobs
from asyncq.store.callers import AddOptions, check_transaction, reading
from asyncq.store.client_pool import ClientPool, Loan, tidy
from asyncq.store.database import CallersConnection, Connection, Database, set_up
from asyncq.store.failures import connecting
from asyncq.store.limits import unlimited
from asyncq.store.listen import listen_database
from asyncq.store.migrate import Report, check_version, migrate
from asyncq.store.policies import check_policies
from asyncq.store.retries import Retries
from asyncq.store.roles import WayIn, way_in, way_in_of
from asyncq.store.statements import DEFAULT_SCHEMA
from asyncq.store.waits import Waits

AddSpecs = Callable[[Sequence[JobSpec], Connection | None], Awaitable[list[Added]]]


class _Use:
    """The state of a client in one process and event loop; the lock is held while the pool is opened.

    `blocks` counts the `async with` blocks that are open, or about to be. `open()` sets `is_kept_open` until `close()`.
    """

    def __init__(self, where: tuple[int, asyncio.AbstractEventLoop]) -> None:
        self.where = where
        self.opening = asyncio.Lock()
        self.blocks = 0
        self.is_kept_open = False


class Client:
    """Adds jobs.

    Args:
        dsn: The database, as a PostgreSQL DSN.
        schema: The schema's name; `asyncq` by default.
        tasks: The tasks that exist. Adds by name then use their defaults and are checked against their types; other
            names are refused. None (the default) accepts any name. The list may have the queues of a worker too.
        pool_size: How many connections at most, opened on demand; 10 by default.
        max_payload: The largest payload in bytes; 1 MiB by default, at most 16 MiB.
        idempotency_window: How long an idempotency key is valid after its first use; 24 hours by default, at most 366
            days. Until then a row remembers the job, even after its end.
        retry_for: How long a call that certainly changed nothing is repeated while the database cannot be used: a
            timedelta or seconds. 0 by default: the error is raised at once.
        middleware: Coroutine functions around its adds, the first one outermost; none by default.
        codec: Encodes payloads before they are stored, and decodes them when jobs are read; none by default. Workers
            need it too.
        use_local_time: Whether jobs without a `run_at` are due by the clock of this process at the time of the call;
            False by default: by the clock of the server.
        listen_dsn: The DSN for notifications of the ends of awaited jobs, directly to the server; `dsn` by default. If
            `dsn` leads to a pooler with transaction pooling, the client asks every 0.5 s without it.

    Attributes:
        admin: Reads and changes jobs.
        cron: Reads and changes recurring items.

    Raises:
        ConfigurationError: An option is not valid.

    Use it as an async context manager, or call `open()` and `close()`. Several `async with` blocks may be open at the
    same time, nested or concurrent: the end of the last one closes the client, unless `open()` was called.
    """

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = DEFAULT_SCHEMA,
        tasks: Iterable[Task[...] | Queue] | None = None,
        pool_size: int = 10,
        max_payload: int = DEFAULT_MAX_PAYLOAD,
        idempotency_window: timedelta = DEFAULT_WINDOW,
        retry_for: timedelta | float = 0,
        middleware: Sequence[AddMiddleware] = (),
        codec: Codec | None = None,
        use_local_time: bool = False,
        listen_dsn: str | None = None,
    ) -> None:
        self._max_payload = whole_number("max_payload", max_payload, 1, LARGEST_PAYLOAD)
        self._database = Database(dsn, schema, None if codec is None else Envelopes(codec, self._max_payload))
        self._listen_database = listen_database(self._database, listen_dsn)
        # A pooler's sessions keep no prepared statements.
        self._hints = None if self._database.is_pooled else HandoffHints()
        self._registry = None if tasks is None else Registry(tasks, encoded=codec is not None)
        self._window = check_window(idempotency_window)
        self._retry_for_s = seconds(retry_for, "retry_for")
        self._pool_size = whole_number("pool_size", pool_size, 1, 1000)
        self._use_local_time = use_local_time
        self._pool: ClientPool | None = None
        self._waits: Waits | None = None
        self._used: _Use | None = None
        self.admin = Admin(self._database, self._without_limits)
        self.cron = CronAdmin(self._database, self._patiently, self._registry)
        self._way_in: WayIn | None = None
        self._ways_in: WeakKeyDictionary[object, WayIn] = WeakKeyDictionary()
        self._add_specs: AddSpecs = self._add
        self._has_middleware = bool(middleware)
        for function in reversed(check_middleware(middleware)):
            self._add_specs = partial(self._add_within, function, self._add_specs)

    async def __aenter__(self) -> Self:
        use = self._use()
        # The block is counted before the pool is opened: another block that ends meanwhile must not close the pool.
        use.blocks += 1
        try:
            await self._open_once(use)
        except BaseException:
            await self._leave(use)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._leave(self._use())

    async def _leave(self, use: _Use) -> None:
        use.blocks -= 1
        # A process that was forked inside a block ends a block that it has not begun.
        if use.blocks <= 0 and not use.is_kept_open:
            use.blocks = 0
            await self._close()

    @property
    def is_open(self) -> bool:
        """Whether it is open in this process."""
        return self._pool is not None and self._used is not None and self._used.where[0] == os.getpid()

    async def open(self) -> None:
        """Open the pool and check the schema, until `close()`; does nothing if it is open.

        Raises:
            StoreUnavailable: The database cannot be reached.
            SchemaMissing: The schema is not installed: run `asyncq migrate`.
            AccessDenied: The role has no rights on the schema: see `asyncq roles`.
            ConfigurationError: Row level security hides rows of the schema from the role.

        If cancelled, nothing stays open.
        """
        use = self._use()
        await self._open_once(use)
        use.is_kept_open = True

    async def _open_once(self, use: _Use) -> None:
        async with use.opening:
            if self._pool is None:
                await self._open()

    def _use(self) -> _Use:
        """The state of the client in this process and event loop; the state of another process has no effect."""
        here = (os.getpid(), asyncio.get_running_loop())
        if self._used is None or self._used.where != here:
            if self._used is not None and self._pool is not None and self._used.where[0] == here[0]:
                raise ConfigurationError("the client was opened in another event loop: open one in each loop")
            self._used, self._pool, self._waits = _Use(here), None, None
        return self._used

    async def _open(self) -> None:
        pool = self._database.pool("client", self._pool_size, reset=tidy, init=set_up)
        with connecting(self._database.dsn):
            await pool
        self._pool = ClientPool(pool)
        try:
            async with self._patiently() as connection:
                self._way_in = await way_in(connection, self._database.schema)
                # A role that only adds cannot read the version, and need not: what it calls stays as it is.
                if self._way_in == "directly":
                    await check_version(connection, self._database.schema)
                    await check_policies(self._database, connection)
        except BaseException:
            await self._close()
            raise

    async def close(self) -> None:
        """Close the pool, also for blocks that are open; calls that are running may finish for a few seconds.

        The client may be opened again. In a forked process this closes nothing: the connections belong to the parent.

        Raises:
            ConfigurationError: It was opened in another event loop.

        If cancelled, the connections are cut at once.
        """
        self._use().is_kept_open = False
        await self._close()

    async def _close(self) -> None:
        pool, self._pool = self._pool, None
        waits, self._waits = self._waits, None
        if pool is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(5.0):
                if waits is not None:
                    await waits.close()
                await pool.close()

    async def migrate(self) -> Report:
        """Bring the schema up to this release; the client need not be open.

        Returns:
            The migrations that were applied; none if the database is newer than this release.

        Raises:
            StoreError: The database cannot be used.

        It is safe if many processes do it at once. If cancelled, each migration was applied as a whole or not at all.
        """
        return await migrate(self._database)

    @overload
    async def add_job(
        self, task: Takes[PayloadT, ResultT], payload: PayloadT, /, **options: Unpack[AddOptions]
    ) -> Handle[ResultT]: ...
    @overload
    async def add_job(self, task: TakesNothing[ResultT], /, **options: Unpack[AddOptions]) -> Handle[ResultT]: ...
    @overload
    async def add_job(self, task: str, payload: Any = None, /, **options: Unpack[AddOptions]) -> Handle[Any]: ...
    @overload
    async def add_job(self, task: JobSpec[ResultT], /, **options: Unpack[AddOptions]) -> Handle[ResultT]: ...
    async def add_job(
        self,
        task: Any,
        payload: Any = NOTHING,
        /,
        *,
        connection: CallersConnection | None = None,
        autocommit: bool = False,
        **options: Unpack[JobOptions],
    ) -> Handle[Any]:
        """Add a job.

        Args:
            task: A task, the name of one, or a spec made with `task.job(...)`.
            payload: The argument of the handler's first parameter; with a name, the payload object (`{}` by default).
            connection: A connection of the caller, in a transaction: the job is added in it, and workers are notified
                when it commits. It is one of asyncpg; an `AsyncSession`, `AsyncConnection` or `async_scoped_session` of
                SQLAlchemy; or an `AsyncConnection` or `AsyncCursor` of psycopg. SQLAlchemy and psycopg begin a
                transaction by themselves. None (the default) uses the client's pool and commits at once. The role of
                an asyncpg connection needs the same rights as the client's.
            autocommit: Whether `connection` may be outside of a transaction, where the job is committed at once; False
                by default, which refuses such a connection.
            **options: See `JobOptions`; None means the task's default.

        Returns:
            A handle with the id of the job and the outcome of the add: it may be the id of an earlier job. It reads the
            job's progress and result.

        Raises:
            InvalidJob: The job breaks a rule; `code`, `field`, `limit` and `length` name it.
            DuplicateJob: Its unique policy refuses it, because of another job. A transaction of the caller continues.
            CodecFailed: The codec of the client raised; its error is the cause.
            UnknownTask: The client was given tasks, and none has this name.
            TransactionUnusable: The caller's connection is in no transaction, or in one that is aborted or read only.
            StoreUnavailable: The database cannot be used, or the connection broke; `outcome` says whether the job may
                have been added. On its own pool the client has repeated the call before: with an `idempotency_key` for
                about 2 s; if it certainly changed nothing, for as long as `retry_for`.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        spec = make_spec(task, payload, options, registry=self._registry, strict=True, max_payload=self._max_payload)
        (added,) = await self._add_specs([spec], check_transaction(connection, autocommit))
        return handle_of(accepted(added), self, spec)

    async def add_jobs(
        self, specs: Sequence[JobSpec], *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> list[Added]:
        """Add jobs in one round trip and one transaction, as if one by one; ids follow the order of the specs.

        Args:
            specs: The jobs, made with `task.job(...)`.
            connection: As in `add_job`.
            autocommit: As in `add_job`.

        Returns:
            The outcome of each add, in the order of the specs. A job that its policy refuses is not an error here.

        Raises:
            InvalidJob: A job breaks a rule, or the jobs together exceed 256 MiB; none was added.
            StoreError: As in `add_job`; if the outcome is unknown, the call was made again only if every job has an
                `idempotency_key`.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back; all were added or none.
        """
        checked = make_specs(specs, registry=self._registry, strict=True, max_payload=self._max_payload)
        return await self._add_specs(checked, check_transaction(connection, autocommit))

    async def add_workflow(
        self, flow: Flow[ResultT], *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> Handle[ResultT]:
        """Add all jobs of a workflow in one transaction.

        Args:
            flow: The workflow, made with `chain` or `group(...).then(...)`.
            connection: As in `add_job`.
            autocommit: As in `add_job`.

        Returns:
            The handle of its last job.

        Raises:
            InvalidJob: As in `add_jobs`. Or the client has a codec, and results are passed on.
            StoreError: As in `add_job`.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back; all were added or none.
        """
        specs = jobs_of(flow)
        added = await self.add_jobs(specs, connection=connection, autocommit=autocommit)
        return handle_of(added[-1], self, specs[-1])

    async def run(self, spec: JobSpec[ResultT], *, timeout: Duration | None = None) -> ResultT:
        """Add a job, wait until it has ended, and return what its handler returned.

        Its result is kept for a minute after its end, without `keep`, so that no lost notification loses it.

        Args:
            spec: The job, made with `task.job(...)`; `with_options` sets its options.
            timeout: As in `Handle.result`.

        Returns:
            The result, read by the return annotation of the handler.

        Raises:
            InvalidJob: As in `add_job`.
            DuplicateJob: As in `add_job`.
            JobFailedError: As in `Handle.result`.
            JobCancelledError: As in `Handle.result`.
            ResultUnavailable: As in `Handle.result`.
            WaitTimeout: As in `Handle.result`.
            ConfigurationError: A handler calls this, or the role of the client may only add jobs.
            StoreError: As in `add_job`.

        If cancelled, the job goes on if it was added.
        """
        self._check_wait("client.run()")
        spec = make_spec(spec, NOTHING, {}, registry=self._registry, strict=True, max_payload=self._max_payload)
        limit_s = None if timeout is None else duration_s(timeout, "timeout")
        waits = self._open_waits()
        if self._way_in == "by_enqueue":
            raise ConfigurationError("the role of this client may only add jobs: it cannot read results")
        channel = await waits.channel()
        with waits.adding():
            watched = msgspec.structs.replace(spec, returns=spec.returns.watched_on(channel))
            (answer,) = await self._add_specs([watched], None)
            added = accepted(answer)
            # The job of an earlier add has no channel of this client yet; a middleware may have dropped it.
            is_watched = bool(channel) and added.outcome == "added" and not self._has_middleware
            wait = waits.enlist(added.id, is_watched=is_watched)
        ended = await waits.end_of(wait, limit_s)
        if ended is None:
            raise ResultUnavailable(added.id, "it has ended, and nothing of it is kept")
        result: ResultT = result_of(ended, spec.returns)
        return result

    async def wait_for(self, job_id: int, *, timeout: Duration | None = None) -> Ended:
        """Wait until a job has ended: any job, also one that another program added.

        Args:
            job_id: The id of the job.
            timeout: As in `Handle.result`.

        Returns:
            The end of the job. A job that fails and may be retried has not ended.

        Raises:
            InvalidJob: `job_id` is not an int of 64 bits.
            JobNotFound: No job has the id, or it has ended, and nothing of it is kept.
            WaitTimeout: It has not ended in time; it goes on.
            ConfigurationError: A handler calls this.
            StoreError: The database refused.

        If cancelled, the job goes on.
        """
        self._check_wait("client.wait_for()")
        check_job_id(job_id)
        limit_s = None if timeout is None else duration_s(timeout, "timeout")
        waits = self._open_waits()
        ended = await waits.end_of(waits.enlist(job_id), limit_s)
        if ended is None:
            raise JobNotFound(job_id)
        return ended

    def _check_wait(self, call: str) -> None:
        if is_in_handler():
            raise ConfigurationError(
                f"{call} in a handler would hold a slot of its worker while it waits: let the awaited job add the next "
                "one, or wait outside of handlers"
            )

    def _open_waits(self) -> Waits:
        self._connection()  # It raises if the client is not open here.
        if self._waits is None:
            self._waits = Waits(self._database, self._listen_database, self._connection, say_that_waits_poll)
        return self._waits

    async def get_job(self, job_id: int, *, connection: CallersConnection | None = None) -> Job:
        """Read a job.

        Args:
            job_id: The id of the job.
            connection: A connection of the caller, as in `add_job`, whose transaction may have added the job; the
                client's pool by default.

        Returns:
            The job as it is now, with its failed attempts. A job that has ended has `ended_at`, and its result, if it
            is kept.

        Raises:
            InvalidJob: `job_id` is not an int of 64 bits.
            JobNotFound: No job has the id, or it has ended and is not kept.
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        check_job_id(job_id)
        async with reading(connection, self._patiently) as mine:
            job = await store.get_job(self._database, mine, job_id)
        if job is None:
            raise JobNotFound(job_id)
        return job

    async def _add_within(
        self, middleware: AddMiddleware, inner: AddSpecs, specs: Sequence[JobSpec], connection: Connection | None
    ) -> list[Added]:
        check = partial(make_specs, registry=self._registry, strict=True, max_payload=self._max_payload)
        return await added_within(middleware, specs, lambda checked: inner(checked, connection), check)

    async def _add(self, specs: Sequence[JobSpec], connection: Connection | None) -> list[Added]:
        if self._use_local_time:
            now = datetime.now(UTC)
            specs = [spec if spec.run_at else msgspec.structs.replace(spec, run_at=now) for spec in specs]
        if connection is not None:
            return await self._add_on(connection, specs, None)
        began = asyncio.get_running_loop().time()
        retries: Retries | None = None
        while True:
            try:
                async with self._connection() as own:
                    return await self._add_on(own, specs, self._hints)
            except AsyncqError as error:
                if retries is None:
                    has_keys = all(spec.idempotency_key for spec in specs)
                    retries = Retries(began + self._retry_for_s, has_keys=has_keys)
                await retries.pause(error)

    async def _add_on(
        self, connection: Connection, specs: Sequence[JobSpec], hints: HandoffHints | None
    ) -> list[Added]:
        if isinstance(connection, Adapter):
            way = await way_in_of(connection, self._database.schema, self._ways_in)
        else:
            # A client that was never opened checks the schema on the first connection that it gets.
            if self._way_in is None:
                self._way_in = await way_in(connection, self._database.schema)
            way = self._way_in
        return await add_jobs(self._database, connection, specs, way, self._window, hints=hints)

    def _connection(self) -> Loan:
        if self._pool is None or self._used is None:
            raise ConfigurationError("the client is not open: use `async with Client(...)`, or call open()")
        if self._used.where[0] != os.getpid():
            raise ConfigurationError("the client was opened before a fork: open one in each process")
        self._use()
        return Loan(self._pool, self._database.dsn)

    @asynccontextmanager
    async def _patiently(self) -> AsyncGenerator[Connection]:
        """Acquire a connection; while none is available, try again for as long as `retry_for`."""
        retries = Retries(asyncio.get_running_loop().time() + self._retry_for_s, has_keys=False)
        async with AsyncExitStack() as stack:
            while True:
                try:
                    connection = await stack.enter_async_context(self._connection())
                    break
                except StoreUnavailable as error:
                    await retries.pause(error)
            yield connection

    @asynccontextmanager
    async def _without_limits(self) -> AsyncGenerator[Connection]:
        """Acquire a connection whose statements have no time limit, not even those of the role."""
        async with self._patiently() as connection, unlimited(connection, self._database.schema):
            yield connection


async def add_job(
    dsn: str, task: str, payload: Any = None, *, schema: str = DEFAULT_SCHEMA, **options: Unpack[JobOptions]
) -> Added:
    """Connect, add one job, disconnect: for scripts. A service uses a `Client`, which is about ten times as fast.

    Args:
        dsn: The database.
        task: The task's name.
        payload: The payload object; `{}` by default.
        schema: The schema's name.
        **options: As in `Client.add_job`.

    Returns:
        The job's id and the outcome of the add.

    Raises:
        InvalidJob: The job breaks a rule.
        StoreError: The database cannot be used.

    If cancelled, the outcome is unknown.
    """
    # Checked before the connection is opened: an invalid job needs none.
    spec = make_spec(task, payload, options, registry=None, strict=True, max_payload=DEFAULT_MAX_PAYLOAD)
    async with Client(dsn, schema=schema, pool_size=1) as client:
        return await client.add_job(spec)
