"""A worker that counts, in a process of its own, to be killed: `python -m tests.crash.counting DSN SCHEMA`.

Each of its jobs adds one to an account: `once` in a transactional task, `at_least_once` in a transaction of its own,
`stepped` in a `tx_step`. A job of `last` adds the sum of `once`.
"""

import asyncio
import random
import sys
from typing import Any

import asyncpg

from asyncq import ConstantRetry, JobContext, StoreUnavailable, Worker, task
from asyncq.store.database import Connection

LEASE_S = 1.0
ACCOUNTS = 40
# The limits: a kill is no failure of the job.
FOR_EVER = {"retry": ConstantRetry(0.02), "max_attempts": 32767}


async def create_ledger(db: asyncpg.Connection, schema: str) -> None:
    """Make the accounts of both tasks."""
    await db.execute(f"""
        create table {schema}.ledger (task text, account int, count int, primary key (task, account));
        insert into {schema}.ledger
        select task, account, 0
        from unnest('{{once,at_least_once,stepped}}'::text[]) as task, generate_series(0, {ACCOUNTS - 1}) as account""")


async def sums(db: asyncpg.Connection, schema: str) -> dict[str, int]:
    """How often each task was done."""
    return dict(await db.fetch(f"select task, sum(count)::int from {schema}.ledger group by task"))


def adds_one(schema: str) -> str:
    """The statement that adds one to an account."""
    return f"update {schema}.ledger set count = count + 1 where task = $1 and account = $2"


def adds_sum(schema: str) -> str:
    """The statement that adds the sum of `once` to the only account of `last`."""
    counted = f"select sum(count) from {schema}.ledger where task = 'once'"
    return f"update {schema}.ledger set count = count + ({counted}) where task = 'last'"


def counting_worker(dsn: str, schema: str, **options: Any) -> Worker:
    """The worker."""

    @task(transactional=True, **FOR_EVER)
    async def once(ctx: JobContext, account: int) -> None:
        await asyncio.sleep(random.uniform(0, 0.005))
        await ctx.query(adds_one(schema), "once", account)

    @task(**FOR_EVER)
    async def at_least_once(ctx: JobContext, account: int) -> None:
        async with ctx.connection() as db, db.transaction():
            await db.execute(adds_one(schema), "at_least_once", account)
        await asyncio.sleep(random.uniform(0, 0.005))

    @task(**FOR_EVER)
    async def stepped(ctx: JobContext, account: int) -> None:
        async def add(db: Connection) -> None:
            await db.execute(adds_one(schema), "stepped", account)

        await ctx.tx_step("add", add)
        await asyncio.sleep(random.uniform(0, 0.005))

    @task(transactional=True, **FOR_EVER)
    async def last(ctx: JobContext) -> None:
        await ctx.query(adds_sum(schema))

    return Worker(
        dsn,
        [once, at_least_once, stepped, last],
        schema=schema,
        concurrency=8,
        pool_size=8,
        lease=LEASE_S,
        poll=0.5,
        grace=1,
        **options,
    )


async def main() -> None:
    """Work, also if the server is away when this begins; any other error ends the process with code 1."""
    while True:
        try:
            return await counting_worker(*sys.argv[1:]).run()
        except StoreUnavailable:
            await asyncio.sleep(0.05)


if __name__ == "__main__":
    asyncio.run(main())
