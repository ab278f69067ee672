"""A parameter annotated `JobContext` receives what a handler can know and do about its job."""

import logging

import anyio
import asyncpg
import pytest

from asyncq import Client, Job, JobContext, JobNotFound, JobState, Progress, task
from asyncq.testing import MovableClock, assert_added, make_worker, run_due
from tests.support.waiting import wait_until


async def test_the_context_knows_the_job(dsn: str, schema: str, client: Client) -> None:
    """The job has its state at the claim: id, queue, priority, earlier attempts, ..."""
    jobs: list[Job] = []

    @task(queue="mail", priority=3)
    async def greet(name: str, ctx: JobContext) -> None:
        jobs.append(ctx.job)

    added = await client.add_job(greet, "Ada", flags=["b", "a"])
    await run_due(dsn, [greet], schema=schema)
    [job] = jobs

    assert (job.id, job.task, job.queue, job.priority, job.flags) == (added.id, "greet", "mail", 3, ("a", "b"))
    assert (job.state, job.attempts, job.last_error) == (JobState.ACTIVE, 0, None)


async def test_the_context_knows_the_attempt(dsn: str, schema: str, client: Client) -> None:
    """The first is 1; `job.last_error` says how the one before ended."""
    attempts: list[tuple[int, str | None]] = []

    @task(retry=[60])
    async def greet(ctx: JobContext) -> None:
        attempts.append((ctx.attempt, ctx.job.last_error and ctx.job.last_error.partition("\n")[0]))
        raise ValueError(f"attempt {ctx.attempt}")

    await client.add_job(greet)
    await run_due(dsn, [greet], schema=schema)
    await MovableClock(dsn, schema).set((await assert_added(client, greet))[0].run_at)
    await run_due(dsn, [greet], schema=schema)

    assert attempts == [(1, None), (2, "ValueError: attempt 1")]


async def test_the_contexts_logger_names_the_job(
    dsn: str, schema: str, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Its records have `job_id`, `task` and `attempt`. Your logging configuration decides how they look."""
    caplog.set_level(logging.INFO, "asyncq.job")

    @task
    async def greet(name: str, ctx: JobContext) -> None:
        ctx.logger.info("hello %s", name)

    added = await client.add_job(greet, "Ada")
    await run_due(dsn, [greet], schema=schema)
    [record] = [record for record in caplog.records if record.name == "asyncq.job"]

    assert record.getMessage() == "hello Ada"
    assert (record.__dict__["job_id"], record.__dict__["task"], record.__dict__["attempt"]) == (added.id, "greet", 1)


async def test_a_handler_can_report_its_progress(dsn: str, schema: str, client: Client) -> None:
    """Others read it while the job runs. It is written at most once a second; the report ends with the run."""
    read = anyio.Event()

    @task
    async def copy_files(count: int, ctx: JobContext) -> None:
        ctx.progress(1, count, "the first one")
        await read.wait()

    job_id = (await client.add_job(copy_files, 3)).id

    async def progress() -> Progress | None:
        return (await client.get_job(job_id)).progress

    async with make_worker(dsn, [copy_files], schema=schema).start():
        await wait_until(progress, description="the progress to be written")
        found = await progress()
        read.set()

    assert found is not None
    assert (1, 3, "the first one") == (found.done, found.total, found.note)


async def test_a_handler_can_add_jobs(dsn: str, schema: str, client: Client) -> None:
    """It uses the worker's connections. `run_due` runs the added jobs too."""

    @task
    async def count_down(number: int, ctx: JobContext) -> None:
        if number:
            await ctx.add_job(count_down, number - 1)

    await client.add_job(count_down, 3)
    ran = await run_due(dsn, [count_down], schema=schema)

    assert len(ran.completed) == 4


async def test_a_handler_can_query_the_database(dsn: str, schema: str, client: Client) -> None:
    """One statement, on a connection that the worker's handlers share."""
    found: list[int] = []

    @task
    async def look(ctx: JobContext) -> None:
        rows = await ctx.query("select 6 * $1::int as answer", 7)
        found.append(rows[0]["answer"])

    await client.add_job(look)
    await run_due(dsn, [look], schema=schema)

    assert found == [42]


async def test_a_handler_can_use_a_transaction(dsn: str, schema: str, client: Client, db: asyncpg.Connection) -> None:
    """`ctx.connection()` lends a connection: writes and adds of a failed handler are rolled back."""
    await db.execute(f"create table {schema}.greetings (name text)")

    @task
    async def greet(name: str, ctx: JobContext) -> None:
        async with ctx.connection() as connection, connection.transaction():
            await connection.execute(f"insert into {schema}.greetings values ($1)", name)
            await ctx.add_job("thank", {"name": name}, connection=connection)
            if name == "Bob":
                raise ValueError("Bob is not at home")

    await client.add_job(greet, "Ada")
    await client.add_job(greet, "Bob")
    await run_due(dsn, [greet], schema=schema)

    assert [row["name"] for row in await db.fetch(f"select name from {schema}.greetings")] == ["Ada"]
    assert [job.payload for job in await assert_added(client, "thank")] == ['{"name":"Ada"}']


async def test_a_handler_can_notice_that_the_worker_stops(dsn: str, schema: str, client: Client) -> None:
    """`ctx.cancelled` is set when the worker stops, so that a handler can end before the grace period does."""
    started = anyio.Event()
    copied: list[int] = []

    @task
    async def copy_files(ctx: JobContext) -> None:
        started.set()
        while not ctx.cancelled.is_set():
            copied.append(len(copied))
            await ctx.query("select 'the next file'")

    added = await client.add_job(copy_files)
    async with make_worker(dsn, [copy_files], schema=schema).start():
        await started.wait()
        await wait_until(lambda: len(copied) > 2, description="some files")

    with pytest.raises(JobNotFound):  # it ended well
        await client.get_job(added.id)
