"""Concurrent adds at every isolation level: no job is lost silently, and no single call deadlocks."""

import anyio
import asyncpg
import pytest

from asyncq.domain.errors import StoreError
from asyncq.domain.job import JobSpec
from asyncq.store import add
from asyncq.store.database import Database
from asyncq.store.failures import is_transient
from tests.support.session import Session, session
from tests.support.waiting import wait_until

LEVELS = ("read_committed", "repeatable_read", "serializable")
NEW = [JobSpec(task="new", queue="new")]


async def waits(sql: Session, pid: int) -> bool:
    """Whether a session waits for another one."""
    return await sql.value("select pg_blocking_pids($1) <> '{}'", pid)


@pytest.mark.parametrize("level", LEVELS)
async def test_an_add_of_a_name_that_was_stored_meanwhile_is_kept_or_refused(
    database: Database, sql: Session, other: Session, level: str
) -> None:
    """An old snapshot does not show the new name, and it cannot be stored again: 40001, never silence."""
    refused = None
    try:
        async with sql.connection.transaction(isolation=level):
            await sql.rows("select from asyncq._tasks")
            await add.add_jobs(database, other.connection, NEW)
            await add.add_jobs(database, sql.connection, NEW)
    except StoreError as error:
        refused = error
    kept = await sql.value("select count(*) from asyncq._jobs")

    assert (2, None) == (kept, refused) if level == "read_committed" else (1, "40001") == (kept, refused.sqlstate)
    assert refused is None or is_transient(refused)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("ends", ["commit", "rollback"])
async def test_an_add_waits_for_another_add_of_the_same_new_name(
    database: Database, sql: Session, other: Session, level: str, ends: str
) -> None:
    """When the other transaction has ended, the job is stored or refused."""
    refused: list[StoreError] = []
    pid = sql.connection.get_server_pid()

    async def add_too() -> None:
        try:
            async with sql.connection.transaction(isolation=level):
                await add.add_jobs(database, sql.connection, NEW)
        except StoreError as error:
            refused.append(error)

    async with session(database.dsn, database.schema) as watcher:
        transaction = other.connection.transaction()
        await transaction.start()
        await add.add_jobs(database, other.connection, NEW)
        async with anyio.create_task_group() as group:
            group.start_soon(add_too)
            await wait_until(lambda: waits(watcher, pid), description="the second add to wait for the first one")
            await getattr(transaction, ends)()
    kept = await sql.value("select count(*) from asyncq._jobs")

    assert [error.sqlstate for error in refused] in ([], ["40001"])
    assert (ends == "commit") + (not refused) == kept
    assert level != "read_committed" or not refused


async def test_adds_of_the_same_new_names_in_opposite_orders_do_not_deadlock(dsn: str, database: Database) -> None:
    """Names are stored in alphabetical order, tasks before queues, not in the order of the specs."""
    names = [f"name{number}" for number in range(40)]
    forwards = [JobSpec(task=name, queue=name) for name in names]
    added: list[int] = []

    async def add_all(specs: list[JobSpec]) -> None:
        connection = await asyncpg.connect(dsn)
        try:
            added.append(len(await add.add_jobs(database, connection, specs)))
        finally:
            await connection.close(timeout=5)

    async with anyio.create_task_group() as group:
        for turn in range(8):
            group.start_soon(add_all, forwards if turn % 2 else forwards[::-1])

    assert [40] * 8 == added


async def test_adds_of_known_names_do_not_wait_for_each_other(database: Database, sql: Session, other: Session) -> None:
    """Names are stored once; after that an add writes nothing but its job."""
    await add.add_jobs(database, sql.connection, NEW)
    await sql.execute("set lock_timeout = '100ms'")
    async with other.connection.transaction():
        await add.add_jobs(database, other.connection, NEW)
        (added,) = await add.add_jobs(database, sql.connection, NEW)

    assert "added" == added.outcome


async def test_an_add_does_not_wait_for_a_fetch_or_a_settlement_of_its_queue(
    database: Database, sql: Session, other: Session
) -> None:
    """A queue's row is written when its jobs start and end; an add only reads it."""
    from tests.support.jobs import complete, fetch

    await add.add_jobs(database, sql.connection, NEW)
    await sql.execute("set lock_timeout = '100ms'")
    async with other.connection.transaction():
        claims = await fetch(other)
        await add.add_jobs(database, sql.connection, NEW)
        await complete(other, claims)
        await add.add_jobs(database, sql.connection, NEW)

    assert 2 == await sql.value("select count(*) from asyncq._jobs")
