"""`JobContext`: gives a handler its job, and the actions of its run."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, ParamSpec

from asyncq.domain.around import claimed_job
from asyncq.domain.attempt import Attempt
from asyncq.domain.errors import ClaimLost, ConfigurationError, TaskError
from asyncq.domain.events import PartitionBackedOff
from asyncq.domain.job import Claim, Job
from asyncq.domain.progress import check_report
from asyncq.domain.task import Registry
from asyncq.domain.time_limit import Duration, duration_s
from asyncq.engine.base.records import JobLogger
from asyncq.engine.base.shield import shielded
from asyncq.engine.run.handler_context import HandlerContext, in_the_loop
from asyncq.engine.run.progress import ReportedRun
from asyncq.engine.run.steps import Steps
from asyncq.engine.run.time_limit import TimeLimit
from asyncq.engine.run.transactions import HandlerResources, JobTransaction, OwnTransactions, Settling
from asyncq.store import settle as store
from asyncq.store.admin import errors
from asyncq.store.callers import check_connection
from asyncq.store.database import AsyncpgConnection, Connection

P = ParamSpec("P")


class JobContext(HandlerContext):
    """Information about a handler's job, and actions for it.

    Attributes:
        cancelled: Set when the worker stops, the job was cancelled, or its soft time limit is over. The handler should
            end soon, or it is cancelled. `ctx.cancelled.is_set()` works in threads too.
    """

    __slots__ = ("_claim", "_steps", "_task", "_worker_id")

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
        super().__init__(registry, resources, settling, limit=limit)
        self._claim = claim
        self._task = task
        self._worker_id = worker_id
        self._steps: Steps | None = None

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
        """A logger whose records have the fields `job_id`, `task`, `attempt`, `queue` and `worker_id`."""
        return JobLogger(self._claim, self._task, self._worker_id)

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

    @in_the_loop
    async def step(
        self, name: str, function: Callable[P, Awaitable[Any]] | Callable[P, Any], *args: P.args, **kwargs: P.kwargs
    ) -> Any:
        """Call a function once for this job: what it returns is stored, and later runs get that instead of a call.

        Args:
            name: The name of the step, at most 200 printable characters. It stays the same in later versions.
            function: A coroutine function, or a plain one that returns at once: it is called in the event loop.
            *args: Its arguments.
            **kwargs: Its arguments by name.

        Returns:
            What the function returned, as it is read from JSON: the same at the first run and at a later one.

        Raises:
            TaskError: The name was used before in this run, or is none. The result is no JSON, or larger than 1 MiB.
                The job has 1,000 steps. The task is transactional, or `ctx.complete` was called.
            ClaimLost: The job belongs to another worker now, and the step is not stored; do not catch it.
            PoolExhausted: As `connection`.
            CodecFailed: The codec could not encode the result, or decode that of an earlier run.
            StoreError: The database refused. After a StoreUnavailable the step may be stored or not.

        If the function raises, nothing is stored, and the next run calls it again. It is called again too if the worker
        dies between its return and the commit. If cancelled while the function runs, nothing is stored; after its
        return the step is stored, and then the cancellation goes on.
        """
        return await self._of_run("step").step(name, function, args, kwargs)

    @in_the_loop
    async def tx_step(
        self,
        name: str,
        function: Callable[Concatenate[Connection, P], Awaitable[Any]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Any:
        """Call a function with a transaction, once for this job: its writes and the step are one commit.

        Args:
            name: As in `step`.
            function: A coroutine function; its first argument is an asyncpg connection, in a READ COMMITTED
                transaction that it must not end.
            *args: Its other arguments.
            **kwargs: Its arguments by name.

        Returns:
            As `step`.

        Raises:
            TaskError: As `step`; then nothing is committed.
            ClaimLost: The job belongs to another worker now, and all is rolled back; do not catch it.
            TransactionUnusable: The function ended the transaction, or caught the error of a statement in it.
            PoolExhausted: As `connection`.
            CodecFailed: As `step`.
            StoreError: The database refused. After a StoreUnavailable both are committed, or none.

        If the function raises, all is rolled back. If cancelled while it runs, likewise; after its return both are
        committed, and then the cancellation goes on.
        """
        return await self._of_run("tx_step").tx_step(name, function, args, kwargs)

    def _of_run(self, name: str) -> Steps:
        if isinstance(self._settling, JobTransaction):
            said = "its transaction is committed with the job, or rolled back as a whole"
            raise TaskError(f"task {self._task!r} is transactional, so that ctx.{name} has no use: {said}")
        if self._settling is not None:
            raise TaskError(f"ctx.{name} was called after ctx.complete, which ends the job")
        if self._steps is None:
            self._steps = Steps(self._resources, self._claim, self._task, self._worker_id)
        return self._steps

    @in_the_loop
    async def back_off(self, delay: Duration) -> None:
        """Let no job of this job's partition start for a while, such as when a service refuses a key (429).

        The partition is that of the job's queue, else that of its task's limit and the key in its payload. The jobs of
        it that run go on, this one too. `RetryAfter(delay, partition=True)` does the same, and ends this run.

        Args:
            delay: Seconds, a timedelta, or text such as `"30 s"`. A longer wait that was asked for before stays.

        Raises:
            ClaimLost: The job belongs to another worker now, and nothing waits.
            ConfigurationError: It is no duration. Or the job has neither a queue nor a limit.
            StoreError: The database refused, or a fetch held the partition for a second.

        It is committed at once, also in a transactional task. If cancelled, it may be done or not.
        """
        delay_s = duration_s(delay, "a delay")
        if self._claim.partition is None:
            raise ConfigurationError("this job has no partition to back off: it has no queue, and its task no limit")
        async with shielded(self._resources.line):
            found = await store.back_off(self._resources.line, self._worker_id, [self._claim], [delay_s])
        if not found:
            raise ClaimLost(self._claim.id)
        for done in found:
            event = PartitionBackedOff(limit=done.limit, key=done.key, until=done.until, job_id=done.job_id)
            self._resources.observers.emit(event)

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
            return await errors(self._resources.database, connection, self._claim.id, self._task)

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
