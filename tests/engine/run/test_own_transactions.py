"""`ctx.complete(connection=...)`: a handler that has a transaction of its own completes its job in it."""

import asyncio

import asyncpg

from asyncq import (
    ClaimLost,
    Client,
    ConfigurationError,
    JobContext,
    JobState,
    SchemaMissing,
    Task,
    TransactionUnusable,
    task,
)
from asyncq.domain.events import (
    CommitUncertain,
    ErrorIgnored,
    JobCancelled,
    JobCompleted,
    JobDiscarded,
    JobInterrupted,
    JobRetried,
    JobStarted,
)
from tests.engine.conftest import MakeWorker
from tests.support.effects import Effects
from tests.support.example_program import fresh_database
from tests.support.seen import Seen


async def test_a_job_is_completed_by_the_commit_of_its_handler_on_a_connection_of_its_own(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects, dsn: str
) -> None:
    """The work is invisible before. The next job of its queue starts without waiting for the handler's return."""
    left: list[int] = []

    @task(queue="line")
    async def write(ctx: JobContext) -> None:
        own = await asyncpg.connect(dsn)
        try:
            async with own.transaction():
                await own.execute(effects.insert, ctx.job.id)
                await ctx.complete(connection=own)
                left.append(len((await client.admin.find_jobs(newest=False)).jobs))
            left.append(len((await client.admin.find_jobs(newest=False)).jobs))
            await seen.wait_for(JobStarted, 2)
        finally:
            await own.close(timeout=5)

    added = await client.add_jobs([write.job(), write.job()])
    async with make_worker(write).start():
        await seen.wait_for(JobCompleted, 2)

    assert ([job.id for job in added], [2, 1, 1, 0]) == (await effects.kept(), left)


async def test_an_error_after_the_commit_of_a_handler_changes_nothing(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects
) -> None:
    """The job is done. The error is reported by an event of its own."""

    @task
    async def write(ctx: JobContext) -> None:
        async with ctx.connection() as db:
            async with db.transaction():
                await db.execute(effects.insert, ctx.job.id)
                await ctx.complete(connection=db)
            raise ValueError("too late")

    added = await client.add_job(write)
    await make_worker(write).run_once()

    assert ([added.id], [added.id], []) == (await effects.kept(), seen.ids(JobCompleted), seen.of(JobRetried))
    assert ["too late"] == [event.error for event in seen.of(ErrorIgnored)]


async def test_a_shutdown_after_the_commit_does_not_run_it_again(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects
) -> None:
    """Its handler is cancelled in its later work."""
    committed = asyncio.Event()

    @task
    async def write(ctx: JobContext) -> None:
        async with ctx.connection() as db:
            async with db.transaction():
                await db.execute(effects.insert, ctx.job.id)
                await ctx.complete(connection=db)
            committed.set()
            await asyncio.Event().wait()

    added = await client.add_job(write)
    async with make_worker(write, grace=0).start():
        await committed.wait()

    assert ([added.id], []) == (await effects.kept(), (await client.admin.find_jobs(newest=False)).jobs)
    assert ([added.id], []) == (seen.ids(JobCompleted), seen.of(JobInterrupted))


async def test_a_transaction_that_is_rolled_back_by_an_error_leaves_the_job_to_be_retried(
    client: Client, make_worker: MakeWorker, effects: Effects
) -> None:
    """The completion is rolled back too. The error is the handler's."""

    @task
    async def write(ctx: JobContext) -> None:
        async with ctx.connection() as db, db.transaction():
            await db.execute(effects.insert, ctx.job.id)
            await ctx.complete(connection=db)
            raise ValueError("not this time")

    added = await client.add_job(write)
    await make_worker(write).run_once()
    job = await client.get_job(added.id)

    assert ([], JobState.RETRYABLE, 1) == (await effects.kept(), job.state, job.attempts)
    assert (job.last_error or "").startswith("ValueError: not this time")


async def test_a_handler_that_returns_although_it_rolled_back_has_failed(
    client: Client, make_worker: MakeWorker, effects: Effects
) -> None:
    """The job was to end with its work, which is gone."""

    @task
    async def write(ctx: JobContext) -> None:
        async with ctx.connection() as db:
            block = db.transaction()
            await block.start()
            await db.execute(effects.insert, ctx.job.id)
            await ctx.complete(connection=db)
            await block.rollback()

    added = await client.add_job(write)
    await make_worker(write).run_once()
    job = await client.get_job(added.id)

    assert ([], 1) == (await effects.kept(), job.attempts)
    assert "TransactionRolledBack: ctx.complete was called, but its transaction was rolled back" == job.last_error


async def test_a_savepoint_that_is_rolled_back_takes_the_completion_with_it(
    client: Client, make_worker: MakeWorker, effects: Effects
) -> None:
    """The transaction commits without the completion. The existing claim shows that."""

    @task
    async def write(ctx: JobContext) -> None:
        async with ctx.connection() as db, db.transaction():
            await db.execute(effects.insert, ctx.job.id)
            inner = db.transaction()
            await inner.start()
            await ctx.complete(connection=db)
            await inner.rollback()

    added = await client.add_job(write)
    await make_worker(write).run_once()
    job = await client.get_job(added.id)

    assert ([added.id], 1) == (await effects.kept(), job.attempts)
    assert (job.last_error or "").startswith("CommitUnknown: ctx.complete was called, but the job was not completed")


async def test_a_second_try_in_a_new_transaction_counts(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects
) -> None:
    """A handler that repeats its transaction after a serialization failure; and twice in one is once."""

    @task
    async def write(ctx: JobContext) -> None:
        async with ctx.connection() as db:
            for turn in range(2):
                block = db.transaction(isolation="serializable")
                await block.start()
                await db.execute(effects.insert, ctx.job.id)
                await ctx.complete(connection=db)
                await ctx.complete(connection=db)
                await (block.commit() if turn else block.rollback())

    added = await client.add_job(write)
    await make_worker(write).run_once()

    assert ([added.id], [added.id]) == (await effects.kept(), seen.ids(JobCompleted))


async def test_a_job_that_was_cancelled_cannot_be_completed(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects
) -> None:
    """A confirmed cancellation must hold. The handler's work is rolled back if it raises the error."""

    @task
    async def write(ctx: JobContext) -> None:
        async with ctx.connection() as db, db.transaction():
            await db.execute(effects.insert, ctx.job.id)
            await client.admin.cancel_jobs([ctx.job.id])
            try:
                await ctx.complete(connection=db)
            except asyncio.CancelledError:
                await ctx.complete(connection=db)

    added = await client.add_job(write)
    async with make_worker(write).start():
        cancelled = await seen.wait_for(JobCancelled)

    assert ([], added.id) == (await effects.kept(), cancelled.job_id)
    assert [] == (await client.admin.find_jobs(newest=False)).jobs


async def test_it_needs_an_open_transaction(client: Client, make_worker: MakeWorker) -> None:
    """Without a transaction the job would be completed at once, even if the work fails."""
    refused: list[BaseException] = []

    @task
    async def write(ctx: JobContext) -> None:
        async with ctx.connection() as db:
            for connection in (db, "no connection"):
                try:
                    await ctx.complete(connection=connection)
                except (TransactionUnusable, TypeError) as error:
                    refused.append(error)

    await client.add_job(write)
    await make_worker(write).run_once()

    assert [TransactionUnusable, TypeError] == [type(error) for error in refused]


async def test_a_transactional_task_has_no_other_transaction(client: Client, make_worker: MakeWorker) -> None:
    """Its return completes the job."""

    @task(transactional=True)
    async def write(ctx: JobContext) -> None:
        async with ctx.connection() as db:
            await ctx.complete(connection=db)

    added = await client.add_job(write)
    await make_worker(write).run_once()
    job = await client.get_job(added.id)

    assert (job.last_error or "").startswith(f"{ConfigurationError.__name__}: task 'write' is transactional")


async def test_a_connection_to_another_database_completes_nothing(
    client: Client, make_worker: MakeWorker, seen: Seen, dsn: str
) -> None:
    """The error says what is missing there."""

    @task(max_attempts=1)
    async def write(ctx: JobContext) -> None:
        async with fresh_database(dsn) as other:
            own = await asyncpg.connect(other)
            try:
                async with own.transaction():
                    await ctx.complete(connection=own)
            finally:
                await own.close(timeout=5)

    await client.add_job(write)
    await make_worker(write).run_once()

    assert seen.of(JobDiscarded)[0].error.startswith(f"{SchemaMissing.__name__}: ")


def leaving_open(own: asyncpg.Connection, effects: Effects) -> Task[...]:
    """A task that completes its job in a transaction, and does not end that."""

    @task
    async def write(ctx: JobContext) -> None:
        await own.execute("begin")
        await own.execute(effects.insert, ctx.job.id)
        await ctx.complete(connection=own)

    return write


async def test_a_transaction_that_is_open_when_the_handler_returns_is_waited_for(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects, dsn: str
) -> None:
    """Somebody else may commit it, or the pool rolls it back. Its outcome decides."""
    own = await asyncpg.connect(dsn)
    write = leaving_open(own, effects)
    added = await client.add_job(write)
    async with make_worker(write).start():
        await seen.wait_for(CommitUncertain)
        early = seen.ids(JobCompleted)
        await own.execute("commit")
        await seen.wait_for(JobCompleted)
    await own.close(timeout=5)

    assert ([], [added.id], [added.id]) == (early, seen.ids(JobCompleted), await effects.kept())


async def test_a_transaction_that_is_never_ended_is_ended_after_the_lease(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects, dsn: str
) -> None:
    """Its handler lost the transaction, so nobody could ever run the job again."""
    own = await asyncpg.connect(dsn)
    write = leaving_open(own, effects)
    await client.add_job(write)
    async with make_worker(write, lease=1).start():
        retried = await seen.wait_for(JobRetried)
    own.terminate()

    assert ([], "TransactionRolledBack") == (await effects.kept(), retried.error.partition(":")[0])


async def test_a_lost_claim_is_an_error_in_the_handler(
    client: Client, make_worker: MakeWorker, db: asyncpg.Connection, schema: str
) -> None:
    """Its transaction is then rolled back."""
    refused: list[ClaimLost] = []

    @task
    async def write(ctx: JobContext) -> None:
        async with ctx.connection() as own, own.transaction():
            await db.execute(f"update {schema}._jobs set lock_token = lock_token + 1000")
            try:
                await ctx.complete(connection=own)
            except ClaimLost as error:
                refused.append(error)
            await db.execute(f"update {schema}._jobs set lock_token = lock_token - 1000")

    added = await client.add_job(write)
    await make_worker(write).run_once()

    assert [added.id] == [error.job_id for error in refused]
