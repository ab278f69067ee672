"""Limits say how many jobs of a task run at once, over all workers."""

from collections import Counter
from functools import partial

import anyio

from asyncq import Client, JobContext, Limit, task
from asyncq.testing import run_due


class Together:
    """How many jobs of each key run at once, and how many did at most."""

    def __init__(self) -> None:
        self.now = Counter[str]()
        self.most = Counter[str]()

    async def work(self, ctx: JobContext, key: str) -> None:
        self.now[key] += 1
        self.most[key] = max(self.most[key], self.now[key])
        await ctx.query("select pg_sleep(0.01)")
        self.now[key] -= 1


async def test_a_limit_of_each_key_holds_over_all_workers(dsn: str, schema: str, client: Client) -> None:
    """A tenant has three jobs at once at most. The jobs of another one run beside them."""
    together = Together()

    @task(concurrency=Limit(3, by="tenant_id"))
    async def sync(ctx: JobContext, tenant_id: str) -> None:
        await together.work(ctx, tenant_id)

    # The first worker declares the limit.
    await run_due(dsn, [sync], schema=schema)
    await client.add_jobs([sync.job(tenant_id=tenant) for tenant in ["acme"] * 12 + ["zeta"] * 12])
    async with anyio.create_task_group() as workers:
        for _ in range(2):
            workers.start_soon(partial(run_due, dsn, [sync], schema=schema))

    assert together.most == {"acme": 3, "zeta": 3}
