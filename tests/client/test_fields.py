"""A misspelt field of a payload through the client, where it knows the tasks; a worker ignores it."""

from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from asyncq import AsyncqError, Client, CronItem, InvalidCrontab, JobContext, JobSpec, Worker, task

RAN: list[tuple[str, bool]] = []


@task
async def rollup(day: str = "today", dry_run: bool = False) -> None:
    """A task with defaults."""
    RAN.append((day, dry_run))


@task
async def starts_another(ctx: JobContext) -> None:
    """Adds a job of its worker with a misspelt field."""
    try:
        await ctx.add_job("rollup", {"dryrun": True})
    except AsyncqError as error:
        RAN.append((str(error), False))


async def test_a_misspelt_field_adds_nothing(dsn: str, schema: str, db: asyncpg.Connection) -> None:
    """A misspelt field by name, in bulk, as a spec or as a recurring item would run the job with the default."""
    spec = JobSpec(task="rollup", payload='{"dryrun": true}')
    async with Client(dsn, schema=schema, tasks=[rollup]) as client:
        adds: list[Callable[[], Awaitable[object]]] = [
            lambda: client.add_job("rollup", {"dryrun": True}),
            lambda: client.add_job(spec),
            lambda: client.add_jobs([rollup.job("monday"), spec]),
            lambda: client.cron.add(CronItem("rollup", "0 4 * * *", payload={"dryrun": True})),
        ]
        for add in adds:
            with pytest.raises(AsyncqError, match="there is no field 'dryrun'; did you mean 'dry_run'"):
                await add()

        stored = await client.cron.add(CronItem("rollup", "0 4 * * *", payload={"dry_run": True}))
        with pytest.raises(InvalidCrontab, match="there is no field 'dryrun'"):
            await client.cron.change(stored.identifier, payload={"dryrun": True})

    assert 0 == await db.fetchval(f"select count(*) from {schema}._all_jobs()")


async def test_an_item_with_an_unknown_field_can_be_changed(client: Client, dsn: str, schema: str) -> None:
    """Another release stored it."""
    await client.cron.add(CronItem("rollup", "0 4 * * *", payload={"dryrun": True}))
    async with Client(dsn, schema=schema, tasks=[rollup]) as knowing:
        changed = await knowing.cron.change("rollup", match="0 5 * * *")

    assert "0 5 * * *" == changed.expression


async def test_a_worker_runs_a_job_with_a_field_that_it_does_not_know(
    dsn: str, schema: str, client: Client, db: asyncpg.Connection
) -> None:
    """Another release added it, or SQL; a handler that adds one on this worker is refused."""
    RAN.clear()
    await client.add_job("rollup", {"dryrun": True, "day": "monday"})
    await db.execute(f"""select {schema}.add_job('rollup', '{{"dryrun": true}}')""")
    await Worker(dsn, [rollup], schema=schema, concurrency=1).run_once()
    await client.add_job("starts_another")
    await Worker(dsn, [rollup, starts_another], schema=schema).run_once()

    said = "payload of task 'rollup': there is no field 'dryrun'; did you mean 'dry_run'?"

    assert [("monday", False), ("today", False), (said, False)] == RAN
