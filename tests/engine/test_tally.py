"""Workers write how many runs ended: after they have stopped in order, the sums are the jobs that ended."""

import anyio
import asyncpg

from asyncq import Client, Discard, RetryAfter, Snooze, task
from asyncq.testing import make_worker

SUMS = """
select task.identifier as task, sum(completed) as completed, sum(retried) as retried, sum(discarded) as discarded,
  sum(snoozed) as snoozed, sum((select sum(runs) from unnest(took) as runs)) as timed
from {schema}._stats as counted join {schema}._tasks as task on task.id = counted.task_id group by 1 order by 1
"""


@task
async def well(number: int) -> None:
    """Ends well."""


@task
async def also(number: int) -> None:
    """Ends well too."""


@task
async def badly(number: int) -> None:
    """Ends in each other way."""
    match number % 3:
        case 0:
            raise Discard("no")
        case 1:
            raise RetryAfter(3600)
        case _:
            raise Snooze(3600)


async def test_the_sums_are_the_jobs_that_ended(dsn: str, schema: str, client: Client, db: asyncpg.Connection) -> None:
    """By task, over several workers."""
    await client.add_jobs([each.job(number) for number in range(600) for each in (well, also, badly)])
    workers = [make_worker(dsn, [well, also, badly], schema=schema) for _ in range(4)]
    async with anyio.create_task_group() as group:
        for worker in workers:
            group.start_soon(worker.run_once)
    rows = await db.fetch(SUMS.format(schema=schema))

    assert [("also", 600, 0, 0, 0), ("badly", 0, 200, 200, 200), ("well", 600, 0, 0, 0)] == [
        tuple(row)[:5] for row in rows
    ]
    assert all(row["timed"] > 0 for row in rows)


async def test_a_worker_without_stats_writes_none(
    dsn: str, schema: str, client: Client, db: asyncpg.Connection
) -> None:
    """Its jobs run as others."""
    await client.add_job(well, 1)
    await make_worker(dsn, [well], schema=schema, stats=False).run_once()

    assert 0 == await db.fetchval(f"select count(*) from {schema}._stats")
    assert 0 == (await client.admin.counts()).available
