"""A worker stores what its tasks declare when it registers, before it takes their jobs."""

import asyncpg
import pytest

from asyncq import Client, task
from asyncq.domain.events import JobCompleted, MaintenanceFailed
from asyncq.engine.liveness import membership
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen


async def test_a_task_is_not_taken_before_its_limit_is_stored(
    make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row is locked by another transaction, for which the worker does not wait. Other jobs run meanwhile."""

    @task(concurrency=1)
    async def limited() -> None:
        limits.append(await db.fetchval(f"select limit_id from {schema}._tasks where identifier = 'limited'"))

    @task
    async def other() -> None: ...

    limits: list[int | None] = []
    monkeypatch.setattr(membership, "LEARN_S", 0.01)
    await db.execute(f"select {schema}.add_job('limited'), {schema}.add_job('other')")
    await db.execute(f"begin; select from {schema}._tasks where identifier = 'limited' for update")
    async with make_worker(limited, other).start():
        await seen.wait_for(JobCompleted)
        assert [] == limits
        await db.execute("commit")
        await seen.wait_for(JobCompleted, 2)

    said = [event.error for event in seen.of(MaintenanceFailed)]
    assert ["tasks limited are not taken yet: an open transaction has just stored or locked their names"] == said
    assert ["other", "limited"] == [event.task for event in seen.of(JobCompleted)]
    assert [3] == limits


async def test_a_task_is_not_taken_before_it_is_stored_how_long_its_jobs_are_kept(
    make_worker: MakeWorker,
    client: Client,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its row is locked by another transaction, such as a pause. A job that ended meanwhile would not be kept."""

    @task(keep="1 day")
    async def kept() -> int:
        return 1

    @task
    async def other() -> None: ...

    monkeypatch.setattr(membership, "LEARN_S", 0.01)
    await client.add_jobs([kept.job(), other.job()])
    await db.execute(f"begin; select from {schema}._tasks where identifier = 'kept' for update")
    async with make_worker(kept, other).start():
        await seen.wait_for(JobCompleted)
        await db.execute("commit")
        await seen.wait_for(JobCompleted, 2)

    assert ["other", "kept"] == [event.task for event in seen.of(JobCompleted)]
    assert [("kept", "completed")] == [
        tuple(row) for row in await db.fetch(f"select task_identifier, state from {schema}.history")
    ]
