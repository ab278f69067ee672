"""Jobs run side by side. Those of one named queue run one after the other, on any worker."""

import asyncio
from datetime import timedelta
from functools import partial

import anyio

from asyncq import Client, JobContext, task
from asyncq.testing import MovableClock, run_due


class Together:
    """How many jobs run at once, and how many did at most."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def work(self, ctx: JobContext) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        await ctx.query("select 'something that takes a moment'")
        self.now -= 1


async def test_jobs_without_a_queue_run_side_by_side(dsn: str, schema: str, client: Client) -> None:
    """A worker runs `concurrency` jobs at once, 10 by default. Here two jobs wait for each other."""
    both = asyncio.Barrier(2)

    @task
    async def meet() -> None:
        await both.wait()

    await client.add_job(meet)
    await client.add_job(meet)
    ran = await run_due(dsn, [meet], schema=schema)

    assert len(ran.completed) == 2


async def test_jobs_of_one_queue_run_one_after_the_other(dsn: str, schema: str, client: Client) -> None:
    """They run in order: the statements of one account, the pages of one printer."""
    together = Together()

    @task(queue="account/7")
    async def book(ctx: JobContext, amount: int) -> None:
        await together.work(ctx)

    added = await client.add_jobs([book.job(amount) for amount in range(5)])
    ran = await run_due(dsn, [book], schema=schema)

    assert together.most == 1
    assert ran.completed == [one.id for one in added]


async def test_a_queue_is_serial_across_workers(dsn: str, schema: str, client: Client) -> None:
    """PostgreSQL keeps the queue, no process does."""
    together = Together()

    @task(queue="account/7")
    async def book(ctx: JobContext, amount: int) -> None:
        await together.work(ctx)

    await client.add_jobs([book.job(amount) for amount in range(10)])
    async with anyio.create_task_group() as workers:
        for _ in range(3):
            workers.start_soon(partial(run_due, dsn, [book], schema=schema))

    assert together.most == 1


async def test_queues_do_not_wait_for_each_other(dsn: str, schema: str, client: Client) -> None:
    """Name a queue after what must not happen at the same time: there can be any number of them."""
    both = asyncio.Barrier(2)

    @task
    async def meet() -> None:
        await both.wait()

    await client.add_job(meet, queue="account/7")
    await client.add_job(meet, queue="account/8")
    ran = await run_due(dsn, [meet], schema=schema)

    assert len(ran.completed) == 2


async def test_a_job_that_waits_for_its_retry_does_not_block_its_queue(dsn: str, schema: str, client: Client) -> None:
    """The next job runs meanwhile. A task that needs strict order must check its predecessors itself."""

    @task(queue="account/7")
    async def book(amount: int) -> None:
        if amount < 0:
            raise ValueError("no money left")

    bad = await client.add_job(book, -1)
    good = await client.add_job(book, 1)
    ran = await run_due(dsn, [book], schema=schema)

    assert (ran.retried, ran.completed) == ([bad.id], [good.id])


async def test_a_job_of_tomorrow_does_not_block_its_queue(dsn: str, schema: str, client: Client) -> None:
    """Only due jobs are ordered."""

    @task(queue="account/7")
    async def book(amount: int) -> None:
        pass

    clock = MovableClock(dsn, schema)
    await client.add_job(book, 1, run_at=await clock.now() + timedelta(days=1), priority=-1)
    due = await client.add_job(book, 2)
    ran = await run_due(dsn, [book], schema=schema)

    assert ran.completed == [due.id]


async def test_an_urgent_job_of_a_queue_comes_before_other_jobs(dsn: str, schema: str, client: Client) -> None:
    """A worker that has just started knows nothing of the queue, and has one slot."""
    started: list[str] = []

    @task
    async def note(name: str) -> None:
        started.append(name)

    await client.add_job(note.job(name="plain"))
    await client.add_job(note.job(name="urgent"), queue="q", priority=-1)
    await run_due(dsn, [note], schema=schema, concurrency=1)

    assert started == ["urgent", "plain"]
