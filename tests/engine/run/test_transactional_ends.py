"""Ends of a job's transaction other than a return: changes of the job itself, lost connections, odd errors."""

import asyncio
from typing import Any

import anyio
import asyncpg
import pytest

from asyncq import Client, JobContext, JobState, task
from asyncq.domain.events import (
    ErrorIgnored,
    JobCancelled,
    JobCompleted,
    JobEvent,
    JobRetried,
    TransactionAborted,
)
from asyncq.domain.task import Isolation
from tests.engine.conftest import MakeWorker
from tests.engine.run.test_transactional import LEVELS
from tests.support.effects import Effects, end_transactions
from tests.support.seen import Seen

# Its own doing


@pytest.mark.parametrize("level", LEVELS)
async def test_a_handler_that_replaces_its_own_job_is_kept_with_its_successor(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects, level: Isolation
) -> None:
    """The job plans its next round: it ends as replaced, once, and its work is committed."""

    @task(transactional=True, isolation=level, unique={"on_conflict": "replace"})
    async def poll_feed(ctx: JobContext) -> None:
        await ctx.query(effects.insert, ctx.job.id)
        await ctx.add_job(poll_feed, run_at=ctx.job.run_at.replace(year=ctx.job.run_at.year + 1))

    added = await client.add_job(poll_feed)
    await make_worker(poll_feed).run_once()
    left = (await client.admin.find_jobs(newest=False)).jobs

    assert ([added.id], [added.id], []) == (await effects.kept(), seen.ids(JobCancelled), seen.of(JobCompleted))
    assert [(JobState.SCHEDULED, 0)] == [(job.state, job.attempts) for job in left]


@pytest.mark.parametrize("in_savepoint", [False, True])
async def test_a_handler_that_cancels_its_own_job_ends_it_with_its_work(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects, *, in_savepoint: bool
) -> None:
    """Its queue continues, too."""

    @task(transactional=True, queue="feeds")
    async def retire(ctx: JobContext) -> None:
        await ctx.query(effects.insert, ctx.job.id)
        if ctx.job.priority:
            return
        async with ctx.connection() as db:
            if in_savepoint:
                async with db.transaction():
                    await client.admin.cancel_jobs([ctx.job.id], connection=db)
            else:
                await client.admin.cancel_jobs([ctx.job.id], connection=db)

    first, second = await client.add_job(retire), await client.add_job(retire, priority=1)
    await make_worker(retire).run_once()

    assert [first.id, second.id] == await effects.kept()
    assert ([first.id], [second.id]) == (seen.ids(JobCancelled), seen.ids(JobCompleted))
    assert [] == (await client.admin.find_jobs(newest=False)).jobs


async def test_a_cancellation_that_the_handler_undoes_cancels_nothing(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects
) -> None:
    """The rollback of the savepoint removes the mark."""

    @task(transactional=True)
    async def hesitate(ctx: JobContext) -> None:
        await ctx.query(effects.insert, ctx.job.id)
        async with ctx.connection() as db:
            savepoint = db.transaction()
            await savepoint.start()
            await client.admin.cancel_jobs([ctx.job.id], connection=db)
            await savepoint.rollback()

    added = await client.add_job(hesitate)
    await make_worker(hesitate).run_once()

    assert ([added.id], [added.id]) == (await effects.kept(), seen.ids(JobCompleted))


async def test_the_work_of_a_job_that_is_cancelled_meanwhile_is_rolled_back(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects
) -> None:
    """The mark comes from another transaction. A confirmed cancellation must hold."""

    @task(transactional=True)
    async def write(ctx: JobContext) -> None:
        await ctx.query(effects.insert, ctx.job.id)
        try:
            await client.admin.cancel_jobs([ctx.job.id])
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            return

    added = await client.add_job(write)
    await make_worker(write).run_once()

    assert ([], [added.id], []) == (
        await effects.kept(),
        seen.ids(JobCancelled),
        (await client.admin.find_jobs(newest=False)).jobs,
    )


# The connection


async def soon_end_transactions(db: asyncpg.Connection, schema: str) -> None:
    """End them while a statement runs."""
    await asyncio.sleep(0.05)
    await end_transactions(db, schema)


@pytest.mark.parametrize("then", ["query", "add a job", "in a statement", "wrap it"])
async def test_a_lost_connection_costs_no_attempt_whatever_the_handler_sees_of_it(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    effects: Effects,
    db: asyncpg.Connection,
    schema: str,
    then: str,
) -> None:
    """The current or the next statement fails, and the handler raises that error, as documented."""

    @task(transactional=True, max_attempts=1)
    async def write(ctx: JobContext) -> None:
        await ctx.query(effects.insert, ctx.job.id)
        if ctx.job.interruptions:
            return
        if then == "in a statement":
            async with anyio.create_task_group() as group:
                group.start_soon(soon_end_transactions, db, schema)
                await ctx.query("select pg_sleep(20)")
        await end_transactions(db, schema)
        if then == "add a job":
            await ctx.add_job(write)
        try:
            await ctx.query("select 1")
        except Exception as error:
            if then == "wrap it":
                raise ValueError("no row") from error
            raise

    added = await client.add_job(write)
    async with make_worker(write).start():
        await seen.wait_for(JobCompleted)

    assert ([added.id], [added.id], []) == (seen.ids(TransactionAborted), await effects.kept(), seen.of(JobRetried))


async def test_a_conflict_in_a_task_group_costs_no_attempt(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """One error of the group is the conflict."""

    @task(transactional=True, isolation="serializable", max_attempts=1)
    async def write(ctx: JobContext) -> None:
        if ctx.job.interruptions == 0:
            raise ExceptionGroup("both", [ValueError(), ExceptionGroup("one", [asyncpg.SerializationError("no")])])

    added = await client.add_job(write)
    async with make_worker(write).start():
        await seen.wait_for(JobCompleted)

    assert ([added.id], []) == (seen.ids(TransactionAborted), seen.of(JobRetried))


# Odd errors


class Delegating(Exception):
    """Passes on what it is asked, to something that was never set."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Unprintable(Exception):
    """Its text needs what is not there."""

    def __str__(self) -> str:
        return self.args[1]


@pytest.mark.parametrize("kind", [Delegating, Unprintable])
async def test_an_error_whose_text_cannot_be_read_is_a_failed_attempt(
    client: Client, make_worker: MakeWorker, seen: Seen, kind: type[Exception]
) -> None:
    """The worker goes on, and runs the next job."""

    @task(transactional=True)
    async def write(ctx: JobContext) -> None:
        if ctx.job.priority == 0:
            raise kind("x")

    added = await client.add_job(write)
    other = await client.add_job(write, priority=1)
    await make_worker(write).run_once()

    assert ([added.id], [other.id]) == (seen.ids(JobRetried), seen.ids(JobCompleted))


async def test_an_error_without_a_text_after_the_end_of_its_job_is_ignored(
    client: Client, make_worker: MakeWorker, seen: Seen, dsn: str
) -> None:
    """The job was completed in the handler's own transaction. The later error is reported as far as possible."""

    @task
    async def write(ctx: JobContext) -> None:
        own = await asyncpg.connect(dsn)
        try:
            async with own.transaction():
                await ctx.complete(connection=own)
        finally:
            await own.close()
        raise Unprintable("x")

    added = await client.add_job(write)
    await make_worker(write).run_once()
    (ignored,) = seen.of(ErrorIgnored)

    assert isinstance(ignored, JobEvent)
    assert ([added.id], "<its __str__ raised IndexError>") == (seen.ids(JobCompleted), ignored.error)


@pytest.mark.parametrize("how", ["timeout", "terminated"])
@pytest.mark.parametrize("is_used", [True, False], ids=["used again", "handler returns"])
async def test_a_connection_that_was_ended_while_no_statement_ran_is_explained(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, how: str, *, is_used: bool
) -> None:
    """The driver drops the server's reason (25P03, 57P01), and says that the connection was released to the pool."""
    ended: list[int] = []

    @task(transactional=True)
    async def idle(ctx: JobContext) -> None:
        if ended:
            return
        async with ctx.connection() as connection:
            gone = asyncio.Event()
            connection.add_termination_listener(lambda _: gone.set())
            ended.append(connection.get_server_pid())
            if how == "timeout":
                await connection.execute("set idle_in_transaction_session_timeout = '50ms'")
            else:
                await db.execute("select pg_terminate_backend($1)", ended[0])
            await gone.wait()
            if is_used:
                await connection.execute("select 1")

    await client.add_job(idle)
    async with make_worker(idle).start():
        await seen.wait_for(JobCompleted)
    (hindered,) = seen.of(TransactionAborted)

    assert "ended while no statement ran: by the server (idle_in_transaction_session_timeout, " in hindered.error
    assert 1 == len(seen.of(JobCompleted))


async def test_a_plain_handler_whose_connection_was_ended_gets_a_note_too(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection
) -> None:
    """Its own error stays, with a note."""

    @task(max_attempts=1)
    async def idle(ctx: JobContext) -> None:
        async with ctx.connection() as connection:
            gone = asyncio.Event()
            connection.add_termination_listener(lambda _: gone.set())
            await db.execute("select pg_terminate_backend($1)", connection.get_server_pid())
            await gone.wait()
            await connection.execute("select 1")

    added = await client.add_job(idle)
    await make_worker(idle).run_once()
    error = (await client.get_job(added.id)).last_error or ""

    assert error.startswith("InterfaceError: ")
    assert "pg_terminate_backend" in error.rpartition("InterfaceError")[2]
