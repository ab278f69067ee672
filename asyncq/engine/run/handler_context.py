"""What the contexts of all handlers share: connections, adds, and the end of the run."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from asyncq.domain.adding import NOTHING, accepted, make_spec, make_specs
from asyncq.domain.around import Add, AddMiddleware, added_within
from asyncq.domain.errors import ConfigurationError
from asyncq.domain.job import Added, JobOptions, JobSpec
from asyncq.domain.payload import DEFAULT_MAX_PAYLOAD
from asyncq.domain.signature import Context
from asyncq.domain.task import PayloadT, Registry, Takes, TakesNothing
from asyncq.domain.time_limit import Duration, duration_s
from asyncq.engine.run.progress import ReportedRun
from asyncq.engine.run.time_limit import TimeLimit
from asyncq.engine.run.transactions import HandlerResources, JobTransaction, Settling
from asyncq.store.add import add_jobs
from asyncq.store.callers import AddOptions, check_transaction
from asyncq.store.database import CallersConnection, Connection, Record
from asyncq.store.failures import lending

P = ParamSpec("P")
AnswerT = TypeVar("AnswerT")
Method = Callable[Concatenate[Any, P], Coroutine[Any, Any, AnswerT]]


def in_the_loop(method: Method[P, AnswerT]) -> Method[P, AnswerT]:
    """Refuse the call in a thread: a plain function cannot await, and the coroutine would be dropped silently."""

    @functools.wraps(method)
    def call(self: Any, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, AnswerT]:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            name = method.__name__
            said = f"ctx.{name}() must be awaited; in a plain function: anyio.from_thread.run(ctx.{name}, ...)"
            raise ConfigurationError(said) from None
        return method(self, *args, **kwargs)

    return call


class HandlerContext(Context):
    """The actions of a handler, whether it runs one job or several.

    Attributes:
        cancelled: Set when the worker stops, the run was cancelled, or its soft time limit is over. The handler should
            end soon, or it is cancelled. `ctx.cancelled.is_set()` works in threads too.
    """

    __slots__ = ("_limit", "_progress", "_registry", "_resources", "_settling", "cancelled")

    def __init__(
        self,
        registry: Registry,
        resources: HandlerResources,
        settling: Settling | None,
        *,
        limit: TimeLimit | None = None,
    ) -> None:
        self._registry = registry
        self._resources = resources
        self._settling: Settling | None = settling
        self._limit = limit
        self._progress: ReportedRun | None = None
        self.cancelled = asyncio.Event()

    def extend(self, by: Duration) -> None:
        """Put the hard time limit of this run off: it ends this time from now, or later. May be called in a thread.

        Args:
            by: Seconds, a timedelta, or text such as `"30 s"`. Nothing happens if the run has no hard limit.

        Raises:
            ConfigurationError: It is no duration.
        """
        by_s = duration_s(by, "an extension")
        if self._limit is not None:
            self._limit.extend(by_s)

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection]:
        """Borrow a connection to the worker's database from a pool that all handlers share.

        Yields:
            An asyncpg connection, outside of a transaction. In a transactional task it is the connection of its
            transaction, which is committed with the job when the handler returns. There `transaction()` makes
            savepoints, and only one statement at a time can run.

        Raises:
            PoolExhausted: Other handlers used all connections for longer than `pool_wait`.
            StoreUnavailable: The server cannot be reached.
            TransactionUnusable: The task is transactional, and its handler has ended.

        If cancelled, the connection is returned, and an open transaction is rolled back.
        """
        if isinstance(self._settling, JobTransaction):
            with lending:
                yield self._settling.connection
            return
        async with self._resources.pool.acquire() as connection:
            with lending:
                yield connection

    @in_the_loop
    async def query(self, sql: str, *args: Any) -> list[Record]:
        """Run one statement on such a connection.

        Args:
            sql: The statement, with $1, $2, ... for the parameters.
            *args: The parameters.

        Returns:
            The rows.

        Raises:
            PoolExhausted: As `connection`.
            asyncpg.PostgresError: The error of the statement.

        If cancelled, the server is asked to stop; it is unknown whether a writing statement was committed.
        """
        async with self.connection() as connection:
            return await connection.fetch(sql, *args)

    @overload
    async def add_job(
        self, task: Takes[PayloadT, Any], payload: PayloadT, /, **options: Unpack[AddOptions]
    ) -> Added: ...
    @overload
    async def add_job(self, task: TakesNothing[Any], /, **options: Unpack[AddOptions]) -> Added: ...
    @overload
    async def add_job(self, task: str, payload: Any = None, /, **options: Unpack[AddOptions]) -> Added: ...
    @overload
    async def add_job(self, task: JobSpec, /, **options: Unpack[AddOptions]) -> Added: ...
    @in_the_loop
    async def add_job(
        self,
        task: Any,
        payload: Any = NOTHING,
        /,
        *,
        connection: CallersConnection | None = None,
        autocommit: bool = False,
        **options: Unpack[JobOptions],
    ) -> Added:
        """Add a job, as `Client.add_job` does; in a transactional task as part of its transaction.

        Args:
            task: A task, the name of one, or a spec.
            payload: The payload.
            connection: The connection whose transaction the add becomes part of.
            autocommit: As in `Client.add_job`.
            **options: See `JobOptions`.

        Returns:
            The id of the job and the outcome of the add.

        Raises:
            InvalidJob: The job breaks a rule.
            DuplicateJob: Its unique policy refuses it, because of another job.
            StoreError: The database refused.

        If cancelled, the outcome is unknown unless the connection's transaction rolls back.
        """
        spec = make_spec(task, payload, options, registry=self._registry, strict=False, max_payload=DEFAULT_MAX_PAYLOAD)
        return accepted((await self._add([spec], check_transaction(connection, autocommit)))[0])

    @in_the_loop
    async def add_jobs(
        self, specs: Sequence[JobSpec], *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> list[Added]:
        """Add jobs in one round trip, as `Client.add_jobs` does.

        Args:
            specs: The jobs, made with `task.job(...)`.
            connection: As in `add_job`.
            autocommit: As in `Client.add_job`.

        Returns:
            The outcome of each add, in the order of the specs.

        Raises:
            InvalidJob: A job breaks a rule; none was added.
            StoreError: The database refused.

        If cancelled, the outcome is unknown unless the connection's transaction rolls back; all were added or none.
        """
        checked = make_specs(specs, registry=self._registry, strict=False, max_payload=DEFAULT_MAX_PAYLOAD)
        return await self._add(checked, check_transaction(connection, autocommit))

    async def _add(self, specs: Sequence[JobSpec], connection: Connection | None) -> list[Added]:
        add: Add = functools.partial(self._store, connection)
        for middleware in reversed(self._resources.add_middleware):
            add = functools.partial(self._add_within, middleware, add)
        return await add(specs)

    async def _add_within(self, middleware: AddMiddleware, inner: Add, specs: Sequence[JobSpec]) -> list[Added]:
        check = functools.partial(make_specs, registry=self._registry, strict=False, max_payload=DEFAULT_MAX_PAYLOAD)
        return await added_within(middleware, specs, inner, check)

    async def _store(self, connection: Connection | None, specs: Sequence[JobSpec]) -> list[Added]:
        database = self._resources.database
        if connection is not None:
            return await add_jobs(database, connection, specs)
        async with self.connection() as own:
            return await add_jobs(database, own, specs)
