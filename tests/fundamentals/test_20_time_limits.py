"""A time limit ends what takes too long: one attempt (`timeout=`), or the wait for the first one (`expires=`)."""

import asyncio
from datetime import timedelta

import anyio
import asyncpg
import pytest

from asyncq import Client, JobContext, JobNotFound, JobState, Timeout, task
from asyncq.testing import MovableClock, run_due


async def test_an_attempt_that_takes_too_long_has_failed(dsn: str, schema: str, client: Client) -> None:
    """The handler is cancelled, and the job is retried as after any failure."""

    @task(timeout="20 ms")
    async def fetch_page(url: str) -> None:
        await anyio.sleep_forever()

    added = await client.add_job(fetch_page, "https://example.org")
    ran = await run_due(dsn, [fetch_page], schema=schema)
    job = await client.get_job(added.id)

    assert ran.retried == [added.id]
    assert (job.state, job.attempts) == (JobState.RETRYABLE, 1)
    assert ran.errors[added.id].startswith("TimedOut: ran longer than 0.02 s")


async def test_a_job_can_have_a_limit_of_its_own(dsn: str, schema: str, client: Client) -> None:
    """It replaces that of the task."""

    @task(timeout="1 h")
    async def fetch_page(url: str) -> None:
        if "slow" in url:
            await anyio.sleep_forever()

    slow = await client.add_job(fetch_page, "https://slow.example.org", timeout=0.02)
    fast = await client.add_job(fetch_page, "https://example.org")
    ran = await run_due(dsn, [fetch_page], schema=schema)

    assert (ran.retried, ran.completed) == ([slow.id], [fast.id])


async def test_a_soft_limit_asks_the_handler_to_end(dsn: str, schema: str, client: Client) -> None:
    """It can store how far it came. The hard limit would cancel it."""
    copied: list[int] = []

    @task(timeout=Timeout(soft="20 ms", hard="1 h"))
    async def copy_rows(ctx: JobContext) -> None:
        copied.append(0)
        await ctx.cancelled.wait()

    added = await client.add_job(copy_rows)
    ran = await run_due(dsn, [copy_rows], schema=schema)

    assert ran.completed == [added.id]
    assert [0] == copied


async def test_a_handler_that_makes_progress_can_have_more_time(dsn: str, schema: str, client: Client) -> None:
    """Each call puts the hard limit off."""

    @task(timeout="500 ms")
    async def import_rows(rows: list[int], ctx: JobContext) -> None:
        for _ in rows:
            ctx.extend("1 h")
            await asyncio.sleep(0.2)

    added = await client.add_job(import_rows, [1, 2, 3])
    ran = await run_due(dsn, [import_rows], schema=schema)

    assert ran.completed == [added.id]


async def test_a_limit_can_be_given_in_sql(dsn: str, schema: str, client: Client, db: asyncpg.Connection) -> None:
    """It is a number of seconds in the options."""

    @task
    async def fetch_page() -> None:
        await anyio.sleep_forever()

    options = '{"timeout_s": 0.02}'
    job_id = await db.fetchval(f"select id from {schema}.add_job('fetch_page', options := $1::text::jsonb)", options)
    ran = await run_due(dsn, [fetch_page], schema=schema)

    assert ran.retried == [job_id]


async def test_a_job_that_may_start_too_late_never_starts(dsn: str, schema: str, client: Client) -> None:
    """It ends as cancelled. A retry of a job that started in time has all the time that it needs."""

    @task(expires="5 min")
    async def send_code(phone: str) -> None: ...

    late = await client.add_job(send_code, "+49 30 1234")
    patient = await client.add_job(send_code, "+49 30 5678", expires="1 h")
    async with MovableClock(dsn, schema) as clock:
        await clock.move(timedelta(minutes=6))
        ran = await run_due(dsn, [send_code], schema=schema)

    assert ran.started == [patient.id]
    with pytest.raises(JobNotFound):
        await client.get_job(late.id)
