"""A worker process that records each run: `python -m tests.support.counting_program DSN SCHEMA GRACE`.

Its job `count` takes some milliseconds, or, with `how="long"`, for ever.
"""

import asyncio
import os
import sys

import asyncpg

from asyncq import JobContext, Task, Worker, task


async def create_runs(db: asyncpg.Connection, schema: str) -> None:
    """Make the table, in a test's schema."""
    await db.execute(f"create table {schema}.runs (number int, pid int, ended boolean not null default false)")


def counting_task(schema: str) -> Task[...]:
    """The task."""
    begin = f"insert into {schema}.runs (number, pid) values ($1, $2)"
    end = f"update {schema}.runs set ended = true where number = $1 and pid = $2"

    @task
    async def count(ctx: JobContext, number: int, how: str = "short") -> None:
        await ctx.query(begin, number, os.getpid())
        await (asyncio.Event().wait() if how == "long" else asyncio.sleep(0.005))
        await ctx.query(end, number, os.getpid())

    return count


def main() -> None:
    """Run the worker."""
    dsn, schema, grace = sys.argv[1:]
    worker = Worker(dsn, [counting_task(schema)], schema=schema, grace=float(grace), pool_size=10)
    asyncio.run(worker.run())
    print("ended", flush=True)


if __name__ == "__main__":
    main()
