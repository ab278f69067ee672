"""The mover: jobs that wait when their task is paused or gets a limit are moved into partitions by any worker."""

import asyncpg
import pytest

from asyncq import Client, Limit, MaintenanceFailed, Paused, StoreUnavailable, Task, task
from asyncq.engine.maintenance import mover
from asyncq.testing import run_due
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen
from tests.support.waiting import wait_until

STORE = """
insert into {schema}._jobs (run_at, created_at, updated_at, task_id, payload)
select now(), now(), now(), task.id, '{{}}' from {schema}._tasks as task, generate_series(1, {count})
where identifier = '{task}'
"""
UNMOVED = "select count(*) from {schema}._jobs where partition is null"
MARKED = "select count(*) from {schema}._tasks where unmoved_since is not null"


@task
async def nothing() -> None:
    """The least job."""


async def store(db: asyncpg.Connection, schema: str, client: Client, of: Task, count: int) -> None:
    """Store jobs of a task without a limit."""
    await client.add_job(of.name)
    await db.execute(STORE.format(schema=schema, count=count - 1, task=of.name))


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk has many pages."""
    monkeypatch.setattr(mover, "PAGE", 100)


async def test_a_worker_that_hears_of_a_pause_moves_all_waiting_jobs(
    small_pages: None, client: Client, make_worker: MakeWorker, db: asyncpg.Connection, schema: str, seen: Seen
) -> None:
    """The pause itself has moved the first thousand. At the end nothing is marked as unmoved."""
    async with make_worker().start():
        await store(db, schema, client, nothing, 1250)
        await client.admin.pause(task="nothing")
        await seen.wait_for(Paused)

        async def is_done() -> bool:
            return not await db.fetchval(MARKED.format(schema=schema))

        await wait_until(is_done, description="the worker to move the jobs")

        assert 0 == await db.fetchval(UNMOVED.format(schema=schema))


async def test_a_short_lived_worker_moves_jobs_before_it_fetches(
    client: Client, dsn: str, schema: str, db: asyncpg.Connection
) -> None:
    """Their task has got a limit since they were added, and no other worker may be there."""
    await store(db, schema, client, nothing, 1010)

    @task(name="nothing", concurrency=Limit(500))
    async def limited() -> None:
        """The same task."""

    ran = await run_due(dsn, [limited], schema=schema)

    assert 1010 == len(ran.completed)


async def test_a_walk_that_fails_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
    client: Client,
    make_worker: MakeWorker,
    db: asyncpg.Connection,
    schema: str,
    seen: Seen,
) -> None:
    """The database may be away. The failure is reported, and the next pause makes the worker look at once."""
    real, calls = mover.move_jobs, 0

    async def fail_once(*args: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise StoreUnavailable("the server is away")
        return await real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(mover, "move_jobs", fail_once)
    async with make_worker().start():
        failed = await seen.wait_for(MaintenanceFailed)
        await client.admin.pause(task="nothing")
        await wait_until(lambda: calls > 1, description="the next walk")

    assert "the server is away" in failed.error
