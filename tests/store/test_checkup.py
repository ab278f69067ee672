"""The checks of `doctor`, and the faults that it may repair."""

import asyncpg
import pytest

from asyncq import Client, task
from asyncq.store.statements import render
from asyncq.testing import make_worker
from tests.support.session import session

COUNTED = "insert into asyncq._partitions (id, running) values (asyncq._partition(1::smallint, 'q'), 1)"
ORPHAN = "update asyncq._jobs set locked_by = 99, locked_at = now(), lock_token = 1 where id = $1"
OLD_KEY_LOCKS = "insert into asyncq._key_locks select i, now() - interval '3 days' from generate_series(1, 2500) as i"


@task
async def unused() -> None:
    """A worker needs a task."""


async def test_a_fresh_store_is_healthy(client: Client) -> None:
    """No worker yet is a warning at most."""
    checkup = await client.admin.checkup()

    assert (True, 0, 0, (), ()) == (
        checkup.is_healthy,
        checkup.live,
        checkup.gone,
        checkup.unknown_tasks,
        checkup.violations,
    )


async def test_workers_and_the_tasks_that_none_of_them_knows_are_reported(
    dsn: str, schema: str, client: Client
) -> None:
    """A deployment without one of its workers leaves jobs waiting, and nothing fails."""

    @task
    async def known() -> None: ...

    async with make_worker(dsn, [known], schema=schema).start():
        await client.add_job(known)
        await client.add_job("forgotten")
        checkup = await client.admin.checkup()

    assert (1, ("forgotten",)) == (checkup.live, checkup.unknown_tasks)


async def test_a_moved_clock_is_reported(client: Client, db: asyncpg.Connection, schema: str) -> None:
    """A test on the wrong database may leave it behind. Workers refuse to start."""
    move = "create or replace function asyncq.now() returns timestamptz language sql stable as 'select now() + ''1 h'''"
    await db.execute(render(move, schema))

    assert (await client.admin.checkup()).clock_moved


async def test_repair_returns_orphan_claims_and_removes_old_key_locks(dsn: str, schema: str, client: Client) -> None:
    """Live workers do so too. No beat named the job, so it loses no attempt."""
    job = (await client.add_job("t")).id
    async with session(dsn, schema) as sql:
        await sql.rows(ORPHAN, job)
        await sql.execute(OLD_KEY_LOCKS)
    broken = await client.admin.checkup()
    repaired = await client.admin.repair()
    again = await client.admin.repair()
    found = await client.get_job(job)

    assert {"orphan_claim", "stale_key_locks"} == {one.law for one in broken.violations}
    assert (((job,), 2500), ((), 0)) == ((repaired.job_ids, repaired.key_locks), (again.job_ids, again.key_locks))
    assert (True, 0, None) == ((await client.admin.checkup()).is_healthy, found.attempts, found.locked_by)


async def test_repair_frees_a_queue_without_a_running_job(dsn: str, schema: str, client: Client) -> None:
    """The job was deleted by hand. Its worker lives, and has nothing to settle."""
    async with session(dsn, schema) as sql, make_worker(dsn, [unused], schema=schema).start():
        await sql.execute(COUNTED)
        broken = await client.admin.checkup()
        await client.admin.repair()
        mended = await client.admin.checkup()

    assert (["wrong_count"], []) == ([one.law for one in broken.violations], [one.law for one in mended.violations])


@pytest.mark.parametrize("law", ["cron_ahead", "nameless_task"])
async def test_repair_leaves_unknown_violations_alone(dsn: str, schema: str, client: Client, law: str) -> None:
    """Such a violation is a defect that somebody has to examine."""
    await client.add_job("t", queue="q")
    plant = {
        "cron_ahead": "insert into asyncq.known_crontabs values ('i', now(), now() + interval '1 h')",
        "nameless_task": "delete from asyncq._tasks",
    }[law]
    async with session(dsn, schema) as sql, make_worker(dsn, [unused], schema=schema).start():
        await sql.execute(plant)
        await client.admin.repair()
        left = {one.law for one in (await client.admin.checkup()).violations}
        await sql.execute("delete from asyncq._jobs")

    assert {law} == left
