"""Tasks that are used for the first time while a worker starts."""

import anyio
import asyncpg
import pytest

from asyncq import task
from asyncq.domain.events import JobCompleted, MaintenanceFailed, UnknownTasks
from asyncq.engine.liveness import membership
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen
from tests.support.waiting import wait_until

END = pytest.mark.parametrize("end", ["commit", "rollback"])


@END
async def test_a_worker_starts_while_an_open_transaction_holds_the_name_of_a_task(
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
    end: str,
) -> None:
    """Its number is unknown until that transaction ends. The worker reports it, runs other jobs, and learns it then."""

    @task
    async def fresh() -> None:
        pass

    @task
    async def old() -> None:
        pass

    monkeypatch.setattr(membership, "LEARN_S", 0.01)
    await db.execute(f"select {schema}.add_job('old')")
    await db.execute(f"begin; select {schema}.add_job('fresh')")
    async with make_worker(fresh, old).start():
        await seen.wait_for(JobCompleted)
        await db.execute(end)
        await db.execute(f"select {schema}.add_job('fresh')")
        await seen.wait_for(JobCompleted, 3 if end == "commit" else 2)
    said = [event.error for event in seen.of(MaintenanceFailed)]

    assert ["tasks fresh are not taken yet: an open transaction has just stored or locked their names"] == said
    assert "old" == seen.of(JobCompleted)[0].task
    assert [] == seen.of(UnknownTasks)


async def test_a_worker_that_starts_while_the_names_of_tasks_are_locked_waits_for_them(
    make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """A migration or `vacuum full` locks the table."""

    @task
    async def fresh() -> None:
        pass

    async def is_waited_for() -> bool:
        held = "select exists (select from pg_locks where relation = $1::regclass and not granted)"
        return await db.fetchval(held, f"{schema}._tasks")

    await db.execute(f"select {schema}.add_job('fresh')")
    async with anyio.create_task_group() as group, db.transaction():
        await db.execute(f"lock table {schema}._tasks in access exclusive mode")
        group.start_soon(make_worker(fresh).run_once)
        await wait_until(is_waited_for, description="the worker to wait")
        await db.execute("select pg_sleep(0.2)")

    assert ["fresh"] == [event.task for event in seen.of(JobCompleted)]


async def test_a_worker_stops_while_an_open_transaction_holds_the_name_of_a_task(
    make_worker: MakeWorker, db: asyncpg.Connection, schema: str
) -> None:
    """It stops in order, although it could not learn the name."""

    @task
    async def fresh() -> None:
        pass

    await db.execute(f"begin; select {schema}.add_job('fresh')")
    await make_worker(fresh).run_once()
    await db.execute("rollback")

    assert 0 == await db.fetchval(f"select count(*) from {schema}._workers")
