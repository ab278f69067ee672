"""Tests as a user of asyncq writes them; docs/guide/testing.md shows parts of this file."""

from datetime import timedelta

import asyncpg
import pytest

from asyncq import Client, JobContext, task
from asyncq.testing import MovableClock, assert_added, assert_not_added, run_due

# The tested code: a sign-up that adds a job, and the task of that job.

letters: list[str] = []


@task(queue="mail", max_attempts=3)
async def send_welcome(ctx: JobContext, email: str) -> None:
    """Greet a user."""
    if "@" not in email:
        raise ValueError(f"{email} is no address")
    letters.append(email)


async def sign_up(email: str, db: asyncpg.Connection, jobs: Client) -> None:
    """Sign a user up."""
    async with db.transaction():
        await jobs.add_job(send_welcome.job(email=email), connection=db)


@pytest.fixture(autouse=True)
def empty_letter_box() -> None:
    """No test sees the letters of another."""
    letters.clear()


# The tests.


async def test_signing_up_adds_a_welcome(client: Client, db: asyncpg.Connection) -> None:
    """The added jobs are compared without running them."""
    await sign_up("ada@example.org", db, client)

    await assert_added(client, send_welcome, email="ada@example.org", queue="mail")
    await assert_not_added(client, send_welcome, email="bob@example.org")


async def test_the_welcome_is_sent(dsn: str, schema: str, client: Client, db: asyncpg.Connection) -> None:
    """A real worker runs due jobs. An error of a handler fails the test."""
    await sign_up("ada@example.org", db, client)

    ran = await run_due(dsn, [send_welcome], schema=schema, raise_errors=True)

    assert ["ada@example.org"] == letters
    assert 1 == len(ran.completed)


async def test_a_wrong_address_is_tried_three_times(dsn: str, schema: str, client: Client) -> None:
    """Retries wait, so the test moves the schema's clock instead of sleeping."""
    added = await client.add_job(send_welcome.job(email="nowhere"))

    async with MovableClock(dsn, schema) as clock:
        for _ in range(3):
            ran = await run_due(dsn, [send_welcome], schema=schema)
            await clock.move(timedelta(hours=1))

    assert [added.id] == ran.discarded
    assert "ValueError: nowhere is no address" in ran.errors[added.id]


async def test_the_handler_alone() -> None:
    """A task is called like the function that it is; a handler that does not use its context takes None for it."""
    await send_welcome(None, "ada@example.org")

    assert ["ada@example.org"] == letters
