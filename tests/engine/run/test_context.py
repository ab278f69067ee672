"""The context: the fields of the job, and access to the database."""

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest
from anyio import from_thread

from asyncq import Client, Job, JobContext, JobState, task
from asyncq.domain.events import JobCompleted, JobRetried
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen


@task
async def child(number: int) -> None:
    """A job that another one adds."""


async def test_the_context_knows_the_job_as_it_was_claimed(client: Client, make_worker: MakeWorker) -> None:
    """Everything that was given with the add, by its Python name."""
    found: list[tuple[Job, int]] = []

    @task
    async def look(ctx: JobContext) -> None:
        found.append((ctx.job, ctx.attempt))

    run_at = datetime(2020, 1, 2, 3, 4, 5, 678901, UTC)
    added = await client.add_job(
        look, queue="line", priority=3, max_attempts=7, run_at=run_at, flags=["b", "a"], meta={"trace": "x"}
    )
    await make_worker(look).run_once()
    job, attempt = found[0]

    assert (added.id, "look", "line", 3, 7, run_at) == (
        job.id,
        job.task,
        job.queue,
        job.priority,
        job.max_attempts,
        job.run_at,
    )
    assert (("a", "b"), {"trace": "x"}, JobState.ACTIVE, 0, 1) == (
        job.flags,
        job.meta,
        job.state,
        job.attempts,
        attempt,
    )


async def test_a_meta_that_cannot_be_read_keeps_no_handler_from_its_job(
    client: Client, make_worker: MakeWorker, db: asyncpg.Connection, schema: str
) -> None:
    """An earlier release stored it; the handler may not care."""
    found: list[Job] = []

    @task
    async def look(ctx: JobContext) -> None:
        found.append(ctx.job)

    await client.add_job(look)
    await db.execute(f"update {schema}._jobs set meta = '{{\"n\": 1e5000}}'")
    await make_worker(look).run_once()

    assert [["unreadable"]] == [list(job.meta or {}) for job in found]


async def test_the_second_attempt_knows_the_error_of_the_first(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """A handler may decide by it."""
    found: list[tuple[int, str]] = []

    @task(retry=[0])
    async def look(ctx: JobContext) -> None:
        found.append((ctx.attempt, (ctx.job.last_error or "").partition("\n")[0]))
        if ctx.attempt == 1:
            raise LookupError("first")

    await client.add_job(look)
    await make_worker(look).run_once()

    assert [(1, ""), (2, "LookupError: first")] == found


async def test_jobs_that_a_handler_adds_in_its_transaction_are_rolled_back_with_it(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """A job and its effects belong together."""

    @task
    async def add_and_fail(ctx: JobContext) -> None:
        async with ctx.connection() as connection, connection.transaction():
            await ctx.add_job(child, 1, connection=connection)
            raise OSError

    await client.add_job(add_and_fail)
    await make_worker(add_and_fail).run_once()

    assert 1 == await db.fetchval(f"select count(*) from {schema}._all_jobs()")
    assert 1 == len(seen.of(JobRetried))


async def test_many_jobs_are_added_in_one_round_trip(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """`add_jobs` keeps the order of the specs."""
    ids: list[int] = []

    @task
    async def fan_out(ctx: JobContext) -> None:
        ids.extend(added.id for added in await ctx.add_jobs([child.job(number) for number in range(5)]))

    await client.add_job(fan_out)
    await make_worker(fan_out, child, concurrency=1).run_once()

    assert ids == [event.job_id for event in seen.of(JobCompleted) if event.task == "child"]


async def test_an_error_of_the_handler_s_own_statement_is_that_of_the_driver(
    client: Client, make_worker: MakeWorker
) -> None:
    """Handlers rely on `except asyncpg.UniqueViolationError`."""
    caught: list[type[BaseException]] = []

    @task
    async def divide(ctx: JobContext) -> None:
        try:
            await ctx.query("select 1 / $1::int", 0)
        except asyncpg.DivisionByZeroError as error:
            caught.append(type(error))

    await client.add_job(divide)
    await make_worker(divide).run_once()

    assert [asyncpg.DivisionByZeroError] == caught


async def test_a_transaction_left_open_by_a_cancelled_handler_is_rolled_back(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """A single cancellation lets the driver send its ROLLBACK, so the connection is returned clean."""
    entered = asyncio.Event()

    @task
    async def hang(ctx: JobContext) -> None:
        async with ctx.connection() as connection, connection.transaction():
            await connection.execute(f"create table {schema}.made_by_handler ()")
            entered.set()
            await asyncio.Event().wait()

    async with make_worker(hang, grace=0).start():
        await client.add_job(hang)
        await entered.wait()

    assert None is await db.fetchval("select to_regclass($1)", f"{schema}.made_by_handler")


async def test_the_logger_s_records_carry_the_job(
    client: Client, make_worker: MakeWorker, caplog: pytest.LogCaptureFixture
) -> None:
    """A log search by job id then finds the handler's records."""

    @task
    async def speak(ctx: JobContext) -> None:
        ctx.logger.info("hello")

    caplog.set_level(logging.INFO, "asyncq.job")
    added = await client.add_job(speak)
    await make_worker(speak).run_once()
    record: Any = next(record for record in caplog.records if record.message == "hello")

    assert (added.id, "speak", 1) == (record.job_id, record.task, record.attempt)


@pytest.mark.parametrize("call", ["add_job", "add_jobs", "query", "complete"])
async def test_a_plain_function_that_calls_an_async_method_gets_an_error(
    client: Client, make_worker: MakeWorker, call: str
) -> None:
    """The call would do nothing, and the job would complete."""

    @task
    def plain(ctx: JobContext) -> None:
        getattr(ctx, call)("child")

    added = await client.add_job(plain)
    await make_worker(plain).run_once()

    said = (await client.get_job(added.id)).last_error
    assert said is not None
    assert f"ctx.{call}() must be awaited; in a plain function: anyio.from_thread.run(ctx.{call}, ...)" in said


async def test_a_plain_function_adds_jobs_by_way_of_the_event_loop(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The function waits for the answer."""

    @task
    def plain(ctx: JobContext) -> None:
        from_thread.run(ctx.add_job, child.job(1))

    added = await client.add_job(plain)
    await make_worker(plain, child).run_once()

    # Another slot may run the child before the end of the function is written.
    assert [added.id, added.id + 1] == sorted(seen.ids(JobCompleted))
