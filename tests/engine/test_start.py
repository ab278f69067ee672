"""`Worker.start()` runs a worker for the duration of a block, however the block ends."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import anyio
import asyncpg
import pytest

from asyncq import Client, task
from asyncq.domain.events import JobCompleted, WorkerStarted, WorkerStopped
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen
from tests.support.waiting import wait_until


@task
async def nothing() -> None:
    """Nothing."""


async def test_the_block_may_be_left_in_another_asyncio_task(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Fixtures of some test runners do so, and each test with one would end in an error."""
    block = make_worker(nothing).start()
    loop = asyncio.get_running_loop()
    await loop.create_task(block.__aenter__())
    added = await client.add_job(nothing)
    await seen.wait_for(JobCompleted)
    await loop.create_task(block.__aexit__(None, None, None))

    assert ([added.id], 1) == (seen.ids(JobCompleted), len(seen.of(WorkerStopped)))


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), ValueError("mine")])
async def test_an_exception_of_the_block_is_raised_unchanged(
    make_worker: MakeWorker, seen: Seen, error: BaseException
) -> None:
    """A program that exits with a code in it ends with that code."""
    raised: BaseException | None = None
    try:
        async with make_worker(nothing).start():
            raise error
    except BaseException as caught:  # noqa: BLE001 - what a test runner would take for its own
        raised = caught

    assert (error, 1) == (raised, len(seen.of(WorkerStopped)))


@pytest.mark.leaves_something  # the row of a worker that was cancelled as it became known: others remove it
async def test_a_start_that_is_cancelled_leaves_nothing_behind_in_its_process(make_worker: MakeWorker) -> None:
    """A service may give up starting at any step: no worker may remain in the background."""
    before = asyncio.all_tasks()
    for steps in range(0, 60, 3):
        entering = asyncio.get_running_loop().create_task(make_worker(nothing).start().__aenter__())
        for _ in range(steps):
            await asyncio.sleep(0)
        entering.cancel()
        with suppress(asyncio.CancelledError):
            await entering
        assert entering.cancelled()

    await wait_until(lambda: asyncio.all_tasks() == before, description="the last task to end")
    assert "asyncq heartbeat" not in [thread.name for thread in threading.enumerate()]


# The locks that a start needs, by their holder.
LOCKS = {
    "migration": "select pg_advisory_xact_lock(hashtextextended('{schema}:migrate', 0))",
    "table": "lock table {schema}._migrations in access exclusive mode",
    "tasks": "lock table {schema}._tasks in access exclusive mode",
}


@asynccontextmanager
async def held(db: asyncpg.Connection, schema: str, holder: str) -> AsyncGenerator[Callable[[], Awaitable[None]]]:
    """Hold the lock for the duration of the block; yields a function that waits until another session waits for it."""
    waiting = "select exists (select from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid)))"

    async def waits() -> bool:
        return await db.fetchval(waiting) is True

    async def until_it_waits() -> None:
        await wait_until(waits, description="the start to wait")

    async with db.transaction():
        await db.execute(LOCKS[holder].format(schema=schema))
        yield until_it_waits


@pytest.mark.parametrize("holder", LOCKS)
async def test_stopping_a_worker_does_not_wait_for_its_start(
    db: asyncpg.Connection, schema: str, make_worker: MakeWorker, holder: str
) -> None:
    """A lock may be held for long, and a supervisor sends SIGKILL if the signal has no effect."""
    worker = make_worker(nothing, migrate=holder == "migration")
    async with held(db, schema, holder) as until_it_waits, asyncio.TaskGroup() as group:
        running = group.create_task(worker.run())
        await until_it_waits()
        with anyio.fail_after(5):
            await worker.stop()

    assert running.result() is None


async def test_a_worker_that_is_stopped_when_it_has_just_registered_leaves_no_row(
    db: asyncpg.Connection, schema: str, make_worker: MakeWorker
) -> None:
    """Otherwise a dead worker would be listed until the next worker starts."""
    worker = make_worker(nothing)
    async with held(db, schema, "tasks") as until_it_waits, asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        await until_it_waits()
        before = await db.fetchval(f"select count(*) from {schema}._workers")
        await worker.stop()

    assert (1, 0) == (before, await db.fetchval(f"select count(*) from {schema}._workers"))


@pytest.mark.parametrize("holder", LOCKS)
async def test_a_block_is_entered_although_its_worker_was_stopped_before(
    db: asyncpg.Connection, schema: str, make_worker: MakeWorker, seen: Seen, holder: str
) -> None:
    """It was asked to stop and did; a service that shuts down while it starts sees no error."""
    worker = make_worker(nothing, migrate=holder == "migration")
    block = worker.start()
    async with held(db, schema, holder) as until_it_waits, asyncio.TaskGroup() as group:
        entering = group.create_task(block.__aenter__())
        await until_it_waits()
        with anyio.fail_after(5):
            await worker.stop()
    await block.__aexit__(None, None, None)

    assert (worker, []) == (entering.result(), seen.of(WorkerStarted))
