"""Migrating while workers of the release before run: short locks, and all or nothing."""

import signal
from pathlib import Path

import anyio
import pytest

from asyncq.store import migrate as module
from asyncq.store.database import Database
from tests.support.session import Session, session
from tests.support.waiting import wait_until
from tests.upgrades.conftest import Later, StartWorker
from tests.upgrades.releases import NEWEST, Release, apply
from tests.upgrades.work import add, wait_for_runs, wait_until_settled

ADDITIVE = "alter table asyncq._jobs add column later_words text"
# It waits for a lock of the test when half is done, and for as long as it takes.
BLOCKED = f"""
{ADDITIVE};
set local lock_timeout = 0;
select pg_advisory_xact_lock(hashtext('asyncq'));
create table asyncq._later (id int constraint later_pkey primary key);
"""
HAS_COLUMN = """
select count(*) from information_schema.columns where table_schema = 'asyncq' and column_name = 'later_words'
"""


async def test_a_migration_that_waits_for_a_lock_does_not_keep_workers_waiting(
    database: Database,
    sql: Session,
    old: Release,
    later: Later,
    start_worker: StartWorker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A handler's transaction may hold a job for an hour. Between two tries jobs are added and run."""
    new = later(ADDITIVE)
    monkeypatch.setattr(module, "LOCK_TIMEOUT_S", 0.1)
    monkeypatch.setattr(module, "LOCK_TRIES", 1000)
    said: list[str] = []
    with start_worker(old, "old") as worker:
        await worker.says("takes jobs")
        await sql.execute("begin; select from asyncq._jobs for key share")
        async with anyio.create_task_group() as group:
            group.start_soon(apply, new, database, said.append)
            await wait_until(lambda: len(said) >= 2, description="two tries")
            async with session(database.dsn, database.schema) as other:
                await add(other, 5)
                await wait_for_runs(other, 5)
                await wait_until_settled(other)
                meanwhile = await other.value(HAS_COLUMN)
            await sql.execute("commit")

    assert (0, 1) == (meanwhile, await sql.value(HAS_COLUMN))
    assert f"held by pid {sql.connection.get_server_pid()} (" in said[0]


async def test_a_migration_that_is_killed_half_way_leaves_the_old_schema_and_the_next_one_succeeds(
    database: Database, sql: Session, old: Release, later: Later, start_worker: StartWorker, tmp_path: Path
) -> None:
    """It is one transaction: the server rolls it back when its client is gone, and the worker continues."""
    new = later(BLOCKED)
    before = await sql.value("select max(id) from asyncq._migrations")
    words = ("migrate", "--dsn", database.dsn, "--schema", database.schema)
    with start_worker(old, "old") as worker:
        await worker.says("takes jobs")
        await sql.rows("select pg_advisory_lock(hashtext($1))", database.schema)
        with new.started(tmp_path / "migrate.log", database.schema, *words) as migration:
            await wait_until(lambda: is_waiting(sql), description="the migration to be half done")
            migration.signal(signal.SIGKILL)
            await migration.end()
        await sql.rows("select pg_advisory_unlock(hashtext($1))", database.schema)
        await add(sql, 5)
        await wait_for_runs(sql, 5)
        half_way = await sql.value(HAS_COLUMN), await sql.value("select max(id) from asyncq._migrations")
        report = await apply(new, database)
        await add(sql, 5)
        await wait_for_runs(sql, 10)
        await wait_until_settled(sql)

    assert ((0, before), f"{NEWEST + 1:06}_later") == (half_way, report.applied[-1])
    assert 1 == await sql.value(HAS_COLUMN)


async def is_waiting(sql: Session) -> bool:
    """Whether somebody waits for the test's lock."""
    return await sql.value("""
        select exists (
          select from pg_catalog.pg_locks as held
          join pg_catalog.pg_locks as wanted using (locktype, database, classid, objid, objsubid)
          where held.pid = pg_backend_pid() and held.locktype = 'advisory' and held.granted and not wanted.granted)""")
