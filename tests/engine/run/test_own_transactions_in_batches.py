"""`ctx.complete(connection=...)` where the job was claimed in a batch, which other jobs share."""

import asyncio

import asyncpg
import pytest

from asyncq import ClaimLost, Client, JobContext, TransactionUnusable, task
from asyncq.domain.events import JobCancelled, JobCompleted, JobDiscarded, JobStarted
from asyncq.engine.run import transactions
from asyncq.store import claim
from tests.engine.conftest import MakeWorker
from tests.support.effects import Effects
from tests.support.seen import Seen

MANY = 6
FRESH = ["repeatable_read", "serializable"]


@pytest.fixture(autouse=True)
def packs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs are a batch."""
    monkeypatch.setattr(claim, "BATCH_FROM", 2)


async def batches(db: asyncpg.Connection, schema: str) -> int:
    """How many there are."""
    return await db.fetchval(f"select count(*) from {schema}._batches")


async def test_all_of_a_batch_complete_their_jobs_at_once(
    db: asyncpg.Connection, schema: str, client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects
) -> None:
    """The first one splits the batch, and holds no claim but its own: none waits for the commit of another."""
    batched: list[int] = []
    together = asyncio.Barrier(MANY)

    @task
    async def write(ctx: JobContext) -> None:
        async with ctx.connection() as own:
            batched.append(await batches(own, schema))
            await together.wait()
            async with own.transaction():
                await own.execute(effects.insert, ctx.job.id)
                await ctx.complete(connection=own)
                await together.wait()

    added = await client.add_jobs([write.job()] * MANY)
    async with make_worker(write, concurrency=MANY, pool_size=MANY).start():
        await seen.wait_for(JobCompleted, MANY)

    ids = [job.id for job in added]
    assert ([1] * MANY, ids, ids) == (batched, sorted(await effects.kept()), sorted(seen.ids(JobCompleted)))
    assert ([], 0) == ((await client.admin.find_jobs(newest=False)).jobs, await batches(db, schema))


async def test_a_handler_that_has_cancelled_a_sibling_in_the_same_transaction_completes_its_job(
    schema: str, client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects
) -> None:
    """Its transaction has split and locked the batch, so the worker's connection would wait for ever.

    PostgreSQL detects no deadlock, since the handler's connection waits for nothing in the server.
    """
    ids: list[int] = []

    @task
    async def write(ctx: JobContext) -> None:
        if ctx.job.id != ids[0]:
            await asyncio.Event().wait()
        async with ctx.connection() as own, own.transaction():
            await own.execute(effects.insert, ctx.job.id)
            await own.fetch(f"select from {schema}.cancel_jobs($1)", ids[1:2])
            assert not await batches(own, schema)
            await ctx.complete(connection=own)

    ids += [job.id for job in await client.add_jobs([write.job()] * 3)]
    async with make_worker(write, concurrency=3, grace=0).start():
        await seen.wait_for(JobCompleted)
        await seen.wait_for(JobCancelled)

    assert (ids[:1], ids[:1], ids[1:2]) == (await effects.kept(), seen.ids(JobCompleted), seen.ids(JobCancelled))
    assert ids[2:] == [job.id for job in (await client.admin.find_jobs(newest=False)).jobs]


async def test_a_handler_that_cancels_its_own_job_in_the_same_transaction_gets_an_error_at_once(
    schema: str, client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects
) -> None:
    """The transaction cannot complete a cancelled job. A job that was claimed in its row gets the same error."""
    refused: list[ClaimLost] = []

    @task
    async def write(ctx: JobContext) -> None:
        async with ctx.connection() as own, own.transaction():
            await own.execute(effects.insert, ctx.job.id)
            await own.fetch(f"select from {schema}.cancel_jobs($1)", [ctx.job.id])
            try:
                await ctx.complete(connection=own)
            except ClaimLost as error:
                refused.append(error)
                raise

    added = await client.add_jobs([write.job(), write.job()])
    await make_worker(write).run_once()

    assert ({job.id for job in added}, []) == ({error.job_id for error in refused}, await effects.kept())


@pytest.mark.parametrize("isolation", FRESH)
async def test_a_transaction_with_an_older_snapshot_gets_an_error_that_asks_for_a_new_one(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects, isolation: str
) -> None:
    """Its snapshot never includes the row that the worker inserts. The claim exists, so ClaimLost would be wrong."""
    refused: list[TransactionUnusable] = []

    @task
    async def write(ctx: JobContext) -> None:
        async with ctx.connection() as own:
            try:
                async with own.transaction(isolation=isolation):
                    await own.execute(effects.insert, ctx.job.id)
                    await ctx.complete(connection=own)
            except TransactionUnusable as error:
                refused.append(error)
                async with own.transaction(isolation=isolation):
                    await own.execute(effects.insert, ctx.job.id)
                    await ctx.complete(connection=own)

    added = await client.add_jobs([write.job(), write.job()])
    async with make_worker(write, concurrency=2).start():
        await seen.wait_for(JobCompleted, 2)

    assert [job.id for job in added] == sorted(await effects.kept())
    assert {True} == {"completes=True" in str(error) for error in refused}


@pytest.mark.parametrize("completes", [False, True])
async def test_a_snapshot_that_is_older_than_the_claim_is_no_lost_claim(
    dsn: str, client: Client, make_worker: MakeWorker, seen: Seen, completes: bool
) -> None:
    """A connection of the program's own, whose transaction began before the job was fetched."""
    own = await asyncpg.connect(dsn)
    await own.execute("begin isolation level repeatable read; select")
    await own.fetch("select 1 from pg_catalog.pg_class limit 1")

    @task(max_attempts=1, completes=completes)
    async def write(ctx: JobContext) -> None:
        await ctx.complete(connection=own)

    await client.add_job(write)
    async with make_worker(write).start():
        failed = await seen.wait_for(JobDiscarded)
    await own.close(timeout=5)

    assert failed.error.startswith(f"{TransactionUnusable.__name__}: ")
    assert "completes=True" in failed.error


@pytest.mark.parametrize("isolation", FRESH)
async def test_a_task_that_declares_that_it_completes_its_jobs_needs_no_second_transaction(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects, isolation: str
) -> None:
    """Its jobs have rows from the start."""

    @task(max_attempts=1, completes=True)
    async def write(ctx: JobContext) -> None:
        async with ctx.connection() as own, own.transaction(isolation=isolation):
            await own.execute(effects.insert, ctx.job.id)
            await ctx.complete(connection=own)

    added = await client.add_jobs([write.job(), write.job()])
    async with make_worker(write, concurrency=1).start():
        await seen.wait_for(JobCompleted, 2)

    assert [job.id for job in added] == sorted(await effects.kept())


async def test_a_batch_that_is_locked_is_waited_for(
    db: asyncpg.Connection, schema: str, client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects
) -> None:
    """The row of a job is waited for too."""
    asked = asyncio.Event()

    @task
    async def write(ctx: JobContext) -> None:
        async with ctx.connection() as own:
            await asked.wait()
            async with own.transaction():
                await own.execute(effects.insert, ctx.job.id)
                await ctx.complete(connection=own)

    added = await client.add_jobs([write.job(), write.job()])
    async with make_worker(write, concurrency=2).start():
        await seen.wait_for(JobStarted, 2)
        async with db.transaction():
            await db.fetch(f"select from {schema}._batches for update")
            asked.set()
            await asyncio.sleep(0.1)
            early = seen.ids(JobCompleted)
        await seen.wait_for(JobCompleted, 2)

    assert ([], [job.id for job in added]) == (early, sorted(await effects.kept()))


async def test_a_batch_that_is_locked_for_too_long_is_an_error(
    db: asyncpg.Connection,
    schema: str,
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another transaction of the handler may hold it, and PostgreSQL would detect no deadlock."""
    monkeypatch.setattr(transactions, "SPLIT_S", 0.0)
    refused: list[TransactionUnusable] = []

    @task
    async def write(ctx: JobContext) -> None:
        if ctx.job.id != ids[0]:
            return
        async with ctx.connection() as own:
            block = db.transaction()
            await block.start()
            await db.fetch(f"select from {schema}._batches for update")
            try:
                async with own.transaction():
                    await ctx.complete(connection=own)
            except TransactionUnusable as error:
                refused.append(error)
            await block.rollback()

    ids = [job.id for job in await client.add_jobs([write.job(), write.job()])]
    async with make_worker(write, concurrency=2).start():
        await seen.wait_for(JobCompleted, 2)

    assert [True] == ["completes=True" in str(error) for error in refused]
