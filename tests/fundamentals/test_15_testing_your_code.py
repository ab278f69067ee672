"""How to test code that adds and runs jobs, with the kit in `asyncq.testing`: on a real PostgreSQL, without waiting.

The `schema` of these tests comes from `temporary_schema`: each has one of its own, so that they may run in parallel.
"""

from datetime import timedelta

import asyncpg
import pytest

from asyncq import Client, JobContext, task
from asyncq.testing import MovableClock, assert_added, assert_not_added, make_worker, run_due
from tests.support.waiting import wait_until


@task(queue="mail")
async def send_welcome(to: str, name: str = "friend") -> None:
    """Send an email to a new user."""
    if "@" not in to:
        raise ValueError(f"{to} is no address")


@task
async def send_reminder(to: str, ctx: JobContext) -> None:
    """Ask again after a week."""
    await ctx.add_job(send_welcome.job(to))


async def sign_up(email: str, client: Client, connection: asyncpg.Connection) -> None:
    """The code under test: stores a user and adds jobs, in one transaction."""
    async with connection.transaction():
        await client.add_job(send_welcome.job(email), connection=connection)
        in_a_week = await connection.fetchval("select now() + '7 days'")
        await client.add_job(send_reminder.job(email), connection=connection, run_at=in_a_week)


async def test_assert_added_finds_a_waiting_job(client: Client, db: asyncpg.Connection) -> None:
    """Only the named fields of the payload and options of the job are compared."""
    await sign_up("ada@example.org", client, db)

    await assert_added(client, send_welcome, to="ada@example.org", name="friend", queue="mail")
    await assert_not_added(client, send_welcome, to="bob@example.org")


async def test_assert_added_returns_the_jobs(client: Client, db: asyncpg.Connection) -> None:
    """Further assertions can use them. Unpacking asserts that there is exactly one."""
    await sign_up("ada@example.org", client, db)

    [reminder] = await assert_added(client, send_reminder)

    assert timedelta(days=6) < reminder.run_at - reminder.created_at <= timedelta(days=7)


async def test_assert_added_sees_an_open_transaction(client: Client, db: asyncpg.Connection, schema: str) -> None:
    """It takes the connection instead of the client, so that a test can roll everything back."""
    transaction = db.transaction()
    await transaction.start()
    await sign_up("ada@example.org", client, db)
    await assert_added(db, send_welcome, schema=schema, to="ada@example.org")
    await transaction.rollback()

    await assert_not_added(client, send_welcome)


async def test_run_due_runs_the_jobs_and_returns_their_outcomes(
    dsn: str, schema: str, client: Client, db: asyncpg.Connection
) -> None:
    """A real worker runs on real tables. The reminder is not due yet."""
    await sign_up("ada@example.org", client, db)

    ran = await run_due(dsn, [send_welcome, send_reminder], schema=schema)

    assert (len(ran.completed), len(ran.discarded)) == (1, 0)


async def test_run_due_can_raise_the_error_of_a_handler(
    dsn: str, schema: str, client: Client, db: asyncpg.Connection
) -> None:
    """A defect in a handler then fails the test with the handler's own traceback."""
    await sign_up("nonsense", client, db)

    with pytest.raises(ValueError, match="nonsense is no address"):
        await run_due(dsn, [send_welcome], schema=schema, raise_errors=True)


async def test_moving_the_clock_brings_the_time_of_a_job(
    dsn: str, schema: str, client: Client, db: asyncpg.Connection
) -> None:
    """A week passes in a moment: for this schema only, and only one that is a test's."""
    await sign_up("ada@example.org", client, db)
    await run_due(dsn, [send_welcome, send_reminder], schema=schema)

    await MovableClock(dsn, schema).move(timedelta(days=7))
    ran = await run_due(dsn, [send_welcome, send_reminder], schema=schema)

    assert ran.tasks == ["send_reminder", "send_welcome"]


async def test_moving_the_clock_wakes_a_running_worker(dsn: str, schema: str, client: Client) -> None:
    """For tests of a whole service, `make_worker` makes a worker that accepts a moved clock."""
    rung: list[str] = []

    @task
    async def ring(name: str) -> None:
        rung.append(name)

    async with MovableClock(dsn, schema) as clock, make_worker(dsn, [ring], schema=schema).start():
        await client.add_job(ring, "breakfast", run_at=await clock.now() + timedelta(hours=8))
        await clock.move(timedelta(hours=8))
        await wait_until(lambda: rung == ["breakfast"], description="the bell")
