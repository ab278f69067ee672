"""Transactional tasks: the work of a handler and the end of its job are one transaction."""

import asyncio
from typing import Any, get_args

import asyncpg
import pytest

from asyncq import Client, ConstantRetry, Discard, JobContext, JobState, RetryAfter, Snooze, TransactionUnusable, task
from asyncq.domain.events import (
    JobCompleted,
    JobInterrupted,
    JobLost,
    JobRetried,
    JobStarted,
    TransactionAborted,
    TransactionOpen,
    WorkerStopped,
)
from asyncq.domain.task import Isolation
from asyncq.engine.run import transactions
from tests.engine.conftest import MakeWorker
from tests.support.effects import Effects, end_transactions
from tests.support.seen import Seen
from tests.support.waiting import wait_until

LEVELS: tuple[Isolation, ...] = get_args(Isolation)


async def test_the_work_of_a_handler_is_committed_with_its_job(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects
) -> None:
    """Its rows become visible when its job ends, and not before."""
    before: list[list[int]] = []

    @task(transactional=True)
    async def write(ctx: JobContext) -> None:
        await ctx.query(effects.insert, ctx.job.id)
        before.append(await effects.kept())

    added = await client.add_job(write)
    await make_worker(write).run_once()

    assert ([[]], [added.id]) == (before, await effects.kept())
    assert ([added.id], []) == (seen.ids(JobCompleted), (await client.admin.find_jobs(newest=False)).jobs)


@pytest.mark.parametrize(
    ("error", "state", "attempts"),
    [
        (ValueError("no"), JobState.RETRYABLE, 1),
        (RetryAfter(60), JobState.RETRYABLE, 1),
        (Snooze(60), JobState.SCHEDULED, 0),
        (Discard("no"), JobState.DISCARDED, 1),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
async def test_the_work_of_a_handler_that_raises_is_rolled_back(
    client: Client,
    make_worker: MakeWorker,
    effects: Effects,
    error: Exception,
    state: JobState,
    attempts: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Any exception rolls the transaction back. The job is handled as without the option."""

    @task(transactional=True)
    async def write(ctx: JobContext) -> None:
        await ctx.query(effects.insert, ctx.job.id)
        raise error

    added = await client.add_job(write)
    await make_worker(write).run_once()
    job = await client.get_job(added.id)

    assert ([], state, attempts) == (await effects.kept(), job.state, job.attempts)
    # The driver complains of a connection that comes back in a transaction.
    assert [] == [record.getMessage() for record in caplog.records if record.name == "asyncio"]


async def test_everything_that_uses_the_context_is_one_transaction(
    client: Client, make_worker: MakeWorker, effects: Effects
) -> None:
    """This includes the jobs that it adds. `transaction()` is a savepoint of it."""
    numbers: list[str] = []
    number = "select pg_current_xact_id()::text"

    @task
    async def child() -> None:
        pass

    @task(transactional=True, max_attempts=1)
    async def write(ctx: JobContext) -> None:
        async with ctx.connection() as db, db.transaction():
            await db.execute(effects.insert, ctx.job.id)
            numbers.append(await db.fetchval(number))
        numbers.append((await ctx.query(number))[0][0])
        await ctx.add_job(child)
        raise ValueError

    added = await client.add_job(write)
    await make_worker(write, child).run_once()

    assert numbers[0] == numbers[1]
    assert ([], [added.id]) == (
        await effects.kept(),
        [job.id for job in (await client.admin.find_jobs(newest=False)).jobs],
    )


@pytest.mark.parametrize("level", [None, *LEVELS])
async def test_its_isolation_is_that_of_the_task(
    client: Client, make_worker: MakeWorker, level: Isolation | None
) -> None:
    """The default is read committed, whatever the role or the database has set."""
    found: list[str] = []

    @task(transactional=True, isolation=level)
    async def look(ctx: JobContext) -> None:
        found.extend(row[0] for row in await ctx.query("show transaction_isolation"))

    await client.add_job(look)
    await make_worker(look).run_once()

    assert [(level or "read_committed").replace("_", " ")] == found


async def test_the_next_job_of_its_queue_starts_when_it_is_committed(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects
) -> None:
    """Its queue is freed in the same transaction, and the worker fetches again."""
    kept: list[list[int]] = []

    @task(transactional=True, queue="line")
    async def write(ctx: JobContext) -> None:
        kept.append(await effects.kept())
        await ctx.query(effects.insert, ctx.job.id)

    ids = [added.id for added in await client.add_jobs([write.job() for _ in range(3)])]
    async with make_worker(write).start():
        await seen.wait_for(JobCompleted, 3)

    assert ([[], ids[:1], ids[:2]], ids) == (kept, await effects.kept())


async def test_a_completed_job_that_is_to_be_kept_is_kept(
    client: Client, make_worker: MakeWorker, effects: Effects
) -> None:
    """Its unique policy includes ended jobs."""

    @task(
        transactional=True,
        unique={"states": ["available", "active", "completed"], "period": "PT1H", "on_conflict": "ignore"},
    )
    async def write(ctx: JobContext) -> None:
        await ctx.query(effects.insert, ctx.job.id)

    first = await client.add_job(write)
    await make_worker(write).run_once()
    again = await client.add_job(write)

    assert ([first.id], JobState.COMPLETED) == (await effects.kept(), again.existing_state)


# Mistakes of a handler


async def test_a_handler_that_continues_after_an_error_of_the_server_fails_its_job(
    client: Client, make_worker: MakeWorker, effects: Effects
) -> None:
    """The server would answer COMMIT with a rollback, and the job would look completed."""

    @task(transactional=True)
    async def write(ctx: JobContext) -> None:
        await ctx.query(effects.insert, ctx.job.id)
        try:
            await ctx.query("select 1 / 0")
        except asyncpg.DivisionByZeroError:
            pass

    added = await client.add_job(write)
    await make_worker(write).run_once()
    job = await client.get_job(added.id)

    assert ([], 1) == (await effects.kept(), job.attempts)
    assert (job.last_error or "").startswith("TransactionUnusable: the transaction was rolled back")


@pytest.mark.parametrize("ends", ["commit", "rollback", "commit; begin", "rollback; begin"])
async def test_a_handler_that_ends_the_transaction_itself_fails_its_job(
    client: Client, make_worker: MakeWorker, ends: str
) -> None:
    """Its job would be completed without what was rolled back, or apart from what was committed."""

    @task(transactional=True)
    async def end(ctx: JobContext) -> None:
        async with ctx.connection() as db:
            await db.execute(ends)

    added = await client.add_job(end)
    await make_worker(end).run_once()
    job = await client.get_job(added.id)

    assert 1 == job.attempts
    assert "in which the job was to be completed has ended: its handler must not end it" in (job.last_error or "")
    # It may have been a commit, so the outcome of the handler's work is not reported.
    assert "rolled back" not in (job.last_error or "")


async def test_an_error_at_commit_fails_the_job(client: Client, make_worker: MakeWorker, effects: Effects) -> None:
    """A deferred constraint, for example, is a mistake of the handler."""
    await effects.on_commit("raise exception using errcode = '23514', message = 'not so'")

    @task(transactional=True)
    async def write(ctx: JobContext) -> None:
        await ctx.query(effects.insert, ctx.job.id)

    added = await client.add_job(write)
    await make_worker(write).run_once()
    job = await client.get_job(added.id)

    assert ([], 1) == (await effects.kept(), job.attempts)
    assert "not so" in (job.last_error or "")


async def test_the_context_of_an_ended_handler_has_no_connection(
    client: Client, make_worker: MakeWorker, effects: Effects
) -> None:
    """A task that it left behind would write into the transaction after its end, or into the next one."""
    refused: list[BaseException] = []
    left: list[asyncio.Task[None]] = []

    async def write_later(ctx: JobContext, handler: asyncio.Task[Any]) -> None:
        await asyncio.wait({handler})
        try:
            await ctx.query(effects.insert, 0)
        except TransactionUnusable as error:
            refused.append(error)

    @task(transactional=True)
    async def leave(ctx: JobContext) -> None:
        await ctx.query(effects.insert, ctx.job.id)
        handler = asyncio.current_task()
        assert handler is not None
        left.append(asyncio.get_running_loop().create_task(write_later(ctx, handler)))

    added = await client.add_job(leave)
    async with make_worker(leave).start():
        await wait_until(lambda: bool(left) and left[0].done(), description="the task that was left behind")
        await wait_until(lambda: seen_all(effects, added.id), description="the job to be committed")

    assert (1, [added.id]) == (len(refused), await effects.kept())


async def seen_all(effects: Effects, job: int) -> bool:
    """Whether the effect of a job is committed."""
    return job in await effects.kept()


# Obstacles


async def test_a_serialization_failure_costs_no_attempt(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects
) -> None:
    """The server asks to do it again: that is how the level works."""

    @task(transactional=True, isolation="serializable")
    async def write(ctx: JobContext) -> None:
        if ctx.job.interruptions == 0:
            raise asyncpg.SerializationError("could not serialize")
        await ctx.query(effects.insert, ctx.job.id)

    added = await client.add_job(write)
    async with make_worker(write).start():
        await seen.wait_for(JobCompleted)

    assert ([added.id], [added.id], []) == (seen.ids(TransactionAborted), await effects.kept(), seen.of(JobRetried))


async def test_a_run_that_gets_no_connection_costs_no_attempt(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects
) -> None:
    """Other handlers use all connections. Its handler was not called, which the error reports."""
    held = asyncio.Event()
    calls: list[int] = []

    @task
    async def hog(ctx: JobContext) -> None:
        async with ctx.connection():
            held.set()
            await seen.wait_for(TransactionAborted)

    @task(transactional=True)
    async def write(ctx: JobContext) -> None:
        calls.append(ctx.job.attempts)
        await ctx.query(effects.insert, ctx.job.id)

    async with make_worker(hog, write, pool_size=1, pool_wait=0.05).start():
        await client.add_job(hog)
        await held.wait()
        added = await client.add_job(write)
        await seen.wait_for(JobCompleted, 2)

    assert ([0], [added.id]) == (calls, await effects.kept())
    assert seen.of(TransactionAborted)[0].error.startswith("PoolExhausted: ")


async def test_a_connection_that_is_lost_before_the_commit_costs_no_attempt(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects, db: asyncpg.Connection, schema: str
) -> None:
    """The handler did its work, and none of it is kept: it is done again."""

    @task(transactional=True)
    async def write(ctx: JobContext) -> None:
        await ctx.query(effects.insert, ctx.job.id)
        if ctx.job.interruptions == 0:
            await end_transactions(db, schema)

    added = await client.add_job(write)
    async with make_worker(write).start():
        await seen.wait_for(JobCompleted)

    assert ([added.id], [added.id], []) == (seen.ids(TransactionAborted), await effects.kept(), seen.of(JobRetried))


# The claim


async def test_a_claim_that_is_lost_before_it_begins_is_not_run(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """It waited for a connection, and its worker was declared dead meanwhile: another one runs the job."""
    held, leave = asyncio.Event(), asyncio.Event()
    calls: list[int] = []

    @task
    async def hog(ctx: JobContext) -> None:
        async with ctx.connection():
            held.set()
            await leave.wait()

    @task(transactional=True)
    async def write(ctx: JobContext) -> None:
        calls.append(ctx.job.id)

    async with make_worker(hog, write, pool_size=1).start():
        await client.add_job(hog)
        await held.wait()
        added = await client.add_job(write)
        await seen.wait_for(JobStarted, 2)
        await db.execute(f"update {schema}._jobs set lock_token = lock_token + 1000 where id = {added.id}")
        leave.set()
        await seen.wait_for(JobLost)
        await db.execute(f"delete from {schema}._jobs")

    assert ([], [added.id]) == (calls, seen.ids(JobLost))


@pytest.mark.parametrize("level", LEVELS)
async def test_nothing_is_committed_under_a_lost_claim(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    effects: Effects,
    db: asyncpg.Connection,
    schema: str,
    level: Isolation,
) -> None:
    """Another role may have taken the claim at any time. An event reports it."""

    @task(transactional=True, isolation=level)
    async def write(ctx: JobContext) -> None:
        await ctx.query(effects.insert, ctx.job.id)
        await db.execute(f"update {schema}._jobs set lock_token = lock_token + 1000")

    added = await client.add_job(write)
    async with make_worker(write).start():
        await seen.wait_for(JobLost)
        await db.execute(f"delete from {schema}._jobs")

    assert ([], [added.id]) == (await effects.kept(), seen.ids(JobLost))


async def test_a_running_transaction_keeps_its_claim_although_its_worker_was_declared_dead(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects, db: asyncpg.Connection, schema: str
) -> None:
    """A rescue skips the row: the transaction lives. Its handler ends, and has done its work once."""
    rescued: list[Any] = []

    @task(transactional=True)
    async def write(ctx: JobContext) -> None:
        await ctx.query(effects.insert, ctx.job.id)
        await db.execute(f"update {schema}._workers set last_seen = last_seen - interval '1 h'")
        rescued.extend(await db.fetch(f"select * from {schema}._rescue_jobs(true)"))

    added = await client.add_job(write)
    await make_worker(write).run_once()
    # The dead worker had a claim left at that time; the next rescue removes its row.
    again = await db.fetch(f"select * from {schema}._rescue_jobs(true)")

    assert ([], [added.id], []) == (rescued, await effects.kept(), again)
    assert [added.id] == seen.ids(JobCompleted)


# The end of the worker


async def test_a_handler_that_a_shutdown_cuts_off_leaves_nothing(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects
) -> None:
    """Rolled back, due at once, no attempt counted."""
    written = asyncio.Event()

    @task(transactional=True)
    async def write(ctx: JobContext) -> None:
        await ctx.query(effects.insert, ctx.job.id)
        written.set()
        await asyncio.Event().wait()

    added = await client.add_job(write)
    async with make_worker(write, grace=0).start():
        await written.wait()
    job = await client.get_job(added.id)

    assert ([], [added.id]) == (await effects.kept(), seen.ids(JobInterrupted))
    assert (JobState.AVAILABLE, 0, 1) == (job.state, job.attempts, job.interruptions)


@pytest.mark.parametrize("steps", range(0, 60, 4))
async def test_a_stop_at_any_moment_keeps_all_of_a_run_or_nothing(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects, steps: int
) -> None:
    """The handler is cancelled while it waits for a connection, begins, writes, completes, commits, gives it back."""

    @task(transactional=True, retry=ConstantRetry(0))
    async def write(ctx: JobContext) -> None:
        await ctx.query(effects.insert, ctx.job.id)

    async with make_worker(write, grace=0).start():
        await client.add_job(write)  # Its connection waits for the next one.
        await seen.wait_for(JobCompleted)
        await client.add_job(write)
        await seen.wait_for(JobStarted, 2)
        for _ in range(steps):
            await asyncio.sleep(0)
    left = (await client.admin.find_jobs(newest=False)).jobs

    assert [0] * len(left) == [job.attempts for job in left]
    assert (2, 0) == (len(left) + len(await effects.kept()), seen.of(WorkerStopped)[0].stuck)


async def test_a_transaction_that_is_open_for_long_is_reported(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It delays vacuum in the whole database. It is reported again after twice the time."""
    monkeypatch.setattr(transactions, "TELL_AFTER_S", 0.02)

    @task(transactional=True)
    async def linger(ctx: JobContext) -> None:
        await seen.wait_for(TransactionOpen, 2)

    added = await client.add_job(linger)
    await make_worker(linger).run_once()

    assert [added.id, added.id] == seen.ids(TransactionOpen)[:2]
    assert [0.02, 0.04] == [event.open_s for event in seen.of(TransactionOpen)][:2]
