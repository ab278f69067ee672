"""`JobContext`: gives a handler its job, connections, and adds."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from asyncq.domain.adding import NOTHING, accepted, make_spec, make_specs
from asyncq.domain.around import claimed_job
from asyncq.domain.attempt import Attempt
from asyncq.domain.errors import ConfigurationError
from asyncq.domain.job import Added, Claim, Job, JobOptions, JobSpec
from asyncq.domain.payload import DEFAULT_MAX_PAYLOAD
from asyncq.domain.progress import check_report
from asyncq.domain.signature import Context
from asyncq.domain.task import PayloadT, Registry, Takes, TakesNothing
from asyncq.domain.time_limit import Duration, duration_s
from asyncq.engine.base.records import JobLogger
from asyncq.engine.run.progress import ReportedRun
from asyncq.engine.run.time_limit import TimeLimit
from asyncq.engine.run.transactions import HandlerResources, JobTransaction, OwnTransactions, Settling
from asyncq.store.add import add_jobs
from asyncq.store.admin import errors
from asyncq.store.callers import AddOptions, check_connection, check_transaction
from asyncq.store.database import AsyncpgConnection, CallersConnection, Connection, Record
from asyncq.store.failures import lending

P = ParamSpec("P")
AnswerT = TypeVar("AnswerT")
Method = Callable[Concatenate["JobContext", P], Coroutine[Any, Any, AnswerT]]


def in_the_loop(method: Method[P, AnswerT]) -> Method[P, AnswerT]:
    """Refuse the call in a thread: a plain function cannot await, and the coroutine would be dropped silently."""

    @functools.wraps(method)
    def call(self: JobContext, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, AnswerT]:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            name = method.__name__
            said = f"ctx.{name}() must be awaited; in a plain function: anyio.from_thread.run(ctx.{name}, ...)"
            raise ConfigurationError(said) from None
        return method(self, *args, **kwargs)

    return call


class JobContext(Context):
    """Information about a handler's job, and actions for it.

    Attributes:
        cancelled: Set when the worker stops, the job was cancelled, or its soft time limit is over. The handler should
            end soon, or it is cancelled. `ctx.cancelled.is_set()` works in threads too.
    """

    __slots__ = (
        "_claim",
        "_limit",
        "_progress",
        "_registry",
        "_resources",
        "_settling",
        "_task",
        "_worker_id",
        "cancelled",
    )

    def __init__(
        self,
        claim: Claim,
        task: str,
        worker_id: int,
        registry: Registry,
        resources: HandlerResources,
        settling: Settling | None,
        *,
        limit: TimeLimit | None = None,
    ) -> None:
        self._claim = claim
        self._task = task
        self._worker_id = worker_id
        self._registry = registry
        self._resources = resources
        self._settling = settling
        self._limit = limit
        self._progress: ReportedRun | None = None
        self.cancelled = asyncio.Event()

    @property
    def job(self) -> Job:
        """The job as it was when it was claimed."""
        return claimed_job(self._claim, self._task, self._worker_id)

    @property
    def attempt(self) -> int:
        """The number of this attempt; the first is 1."""
        return self._claim.attempts + 1

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records have the fields `job_id`, `task` and `attempt`."""
        return JobLogger(self._claim.id, self._task, self.attempt)

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

    def progress(self, done: float, total: float | None = None, note: str | None = None) -> None:
        """Report how far the handler is; others read the last report while the job runs, as `Job.progress`.

        A plain call that never waits: it stores the report in memory, in a thread too. The worker writes the last one,
        at most once a second. The report ends with this run: a retry begins with none.

        Args:
            done: How much is done, in any unit. At least 0, at most `total`; more is cut.
            total: How much there is to do; None if that is unknown.
            note: A text for people; None for none. Only its first 500 characters are stored.

        Raises:
            TypeError: A number is no int or float, or the note is no str.
            ValueError: A number is NaN, infinite, or too large for a float.
        """
        report = check_report(done, total, note)
        writer = self._resources.progress
        with writer.first_report:
            if self._progress is None:
                self._progress = ReportedRun(self._claim, self._worker_id, report)
                writer.add(self._progress)
            else:
                self._progress.latest = report

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

    @in_the_loop
    async def errors(self) -> tuple[Attempt, ...]:
        """Read the earlier failed attempts of this job, on such a connection.

        Returns:
            The attempts in order, as `Admin.errors` does: each as long as workers keep it.

        Raises:
            PoolExhausted: As `connection`.
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        async with self.connection() as connection:
            return await errors(self._resources.database, connection, self._claim.id)

    @in_the_loop
    async def complete(self, *, connection: AsyncpgConnection) -> None:
        """Complete this job in your own transaction: the job is settled by its commit.

        Args:
            connection: An asyncpg connection to the worker's database, in a transaction.

        Raises:
            ClaimLost: The job was cancelled, or belongs to another worker now; do not catch it, so that the
                transaction is rolled back.
            TransactionUnusable: The connection is in no transaction, or in one that cannot write. Or its snapshot is
                older than the job's row, which `completes=True` of the task prevents.
            ConfigurationError: The task is transactional: its return completes the job.
            StoreError: The database refused.

        After the commit the worker does not change the job, even if the handler raises. If the transaction is rolled
        back, the job is settled as if this had not been called; a return then counts as a failure. If cancelled, the
        transaction decides whether the job is completed.
        """
        own = check_connection(connection)
        if self._settling is None:
            self._settling = OwnTransactions(self._resources, self._claim, self._task, self._worker_id)
        await self._settling.complete(own)

    @overload
    async def add_job(self, task: Takes[PayloadT], payload: PayloadT, /, **options: Unpack[AddOptions]) -> Added: ...
    @overload
    async def add_job(self, task: TakesNothing, /, **options: Unpack[AddOptions]) -> Added: ...
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
        database = self._resources.database
        if connection is not None:
            return await add_jobs(database, connection, specs)
        async with self.connection() as own:
            return await add_jobs(database, own, specs)
