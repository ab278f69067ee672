"""A table that records the runs of queues, and refuses two runs of one queue at once.

Each run is recorded in a transaction that stays open while it lasts, so a killed run leaves nothing. Two runs that
overlap cannot both be recorded, whether the other one has ended or not.
"""

import asyncio
import random
import sys

import asyncpg

from asyncq import ConstantRetry, JobContext, Snooze, Task, Worker, task


async def create_ledger(db: asyncpg.Connection, schema: str) -> None:
    """Make the tables, in a test's schema. int4range instead of int: so no extension is needed for the constraint."""
    await db.execute(f"""
        create table {schema}.ledger (
          id bigint generated always as identity,
          job_id bigint not null,
          queue int4range not null,
          span tstzrange not null,
          constraint ledger_never_two_at_once exclude using gist (queue with &&, span with &&));
        create table {schema}.ledger_violations (job_id bigint, queue int)""")


def ledger_task(schema: str, *, trouble: float) -> Task[...]:
    """A task that writes itself into the ledger, and sometimes fails or snoozes.

    Args:
        schema: Where the ledger is.
        trouble: How many of the runs do so, from 0 to 1.
    """

    @task(retry=ConstantRetry(0.02), max_attempts=1000)
    async def enter(ctx: JobContext, queue: int) -> None:
        try:
            async with ctx.connection() as connection, connection.transaction():
                row = await connection.fetchval(
                    f"""
                    insert into {schema}.ledger (job_id, queue, span)
                    values ($1, int4range($2, $2, '[]'), tstzrange(clock_timestamp(), 'infinity')) returning id""",
                    ctx.job.id,
                    queue,
                )
                await asyncio.sleep(random.uniform(0, 0.01))
                await connection.execute(
                    f"update {schema}.ledger set span = tstzrange(lower(span), clock_timestamp()) where id = $1", row
                )
        except (asyncpg.ExclusionViolationError, asyncpg.DeadlockDetectedError):
            # A deadlock is two runs of one queue that wait for each other's row: the same thing.
            await ctx.query(f"insert into {schema}.ledger_violations values ($1, $2)", ctx.job.id, queue)
            raise
        if random.random() < trouble:
            raise random.choice([OSError("trouble"), Snooze(0.02)])

    return enter


def main() -> None:
    """A worker in a process of its own: `python -m tests.support.queue_ledger DSN SCHEMA`."""
    dsn, schema = sys.argv[1:]
    enter = ledger_task(schema, trouble=0.2)
    asyncio.run(Worker(dsn, [enter], schema=schema, concurrency=4, pool_size=4, lease=1, poll=1, grace=0).run())


if __name__ == "__main__":
    main()
