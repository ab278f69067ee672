"""`use_local_time`: jobs without a time are due by the clock of the process that adds them."""

from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from asyncq import Added, Client, task
from asyncq.testing import MovableClock

DAY = timedelta(days=1)


@task
async def note() -> None:
    """Has no payload."""


async def due_in(client: Client, added: Added) -> timedelta:
    """How long after now, by the clock of this process, a job is due."""
    return (await client.get_job(added.id)).run_at - datetime.now(UTC)


async def test_without_it_jobs_are_due_by_the_clock_of_the_server(dsn: str, schema: str) -> None:
    """Processes whose clocks differ add to one order."""
    async with MovableClock(dsn, schema) as clock, Client(dsn, schema=schema) as client:
        await clock.move(DAY)
        added = await client.add_job(note.job())

        assert DAY / 2 < await due_in(client, added)


@pytest.mark.parametrize("in_transaction", [False, True])
async def test_a_job_without_a_time_is_due_by_the_clock_of_the_process(
    dsn: str, schema: str, in_transaction: bool
) -> None:
    """A simulation that moves its own clock adds jobs that are due by it, on either kind of connection."""
    async with MovableClock(dsn, schema) as clock, Client(dsn, schema=schema, use_local_time=True) as client:
        await clock.move(DAY)
        if in_transaction:
            connection = await asyncpg.connect(dsn)
            async with connection.transaction():
                one = await client.add_job(note.job(), connection=connection)
                several = await client.add_jobs([note.job(), note.job().with_options(queue="q")], connection=connection)
            await connection.close()
        else:
            one = await client.add_job(note.job())
            several = await client.add_jobs([note.job(), note.job().with_options(queue="q")])
        waits = [await due_in(client, added) for added in (one, *several)]

        assert all(-DAY / 2 < wait < DAY / 2 for wait in waits), waits


async def test_a_time_that_is_given_stays(dsn: str, schema: str) -> None:
    """The option fills in what is left out, and changes nothing else."""
    at = datetime(2040, 1, 1, tzinfo=UTC)
    async with Client(dsn, schema=schema, use_local_time=True) as client:
        given = await client.add_job(note.job(), run_at=at)
        keyed = await client.add_job(note.job(), job_key="k", run_at=at)
        kept = await client.add_job(note.job(), job_key="k", job_key_mode="preserve_run_at")

        assert [at, at] == [(await client.get_job(each.id)).run_at for each in (given, kept)]
        assert (keyed.id, "updated") == (kept.id, kept.outcome)
