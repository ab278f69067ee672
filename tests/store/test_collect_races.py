"""A name is never collected while it is about to be used, whichever comes first; adds do not wait for that."""

import random
from collections.abc import Awaitable, Callable

import anyio
import asyncpg
import pytest

from tests.store.test_isolation import waits
from tests.support.jobs import add, complete, fetch
from tests.support.session import Session, session
from tests.support.snapshots import young_snapshot
from tests.support.waiting import wait_until

COLLECT = "select asyncq._collect_tasks(null, '30 ms')"
PATIENCE_S = 30.0  # other tests on the same server have snapshots too
ORPHANS = "select count(*) from asyncq._jobs where task_id not in (select id from asyncq._tasks)"
Way = Callable[[Session], Awaitable[int | None]]
LEVELS = ("read_committed", "repeatable_read", "serializable")


async def add_keyless(sql: Session) -> int | None:
    """Add a job of task t by the short way."""
    ((job_id,),) = await sql.run("add_keyless_job", "t", "{}", *[None] * 3)
    return job_id


async def insert(sql: Session) -> int | None:
    """Add one by the shortest way."""
    rows = await sql.run("insert_job", "t", "{}", *[None] * 3)
    return rows[0]["id"] if rows else None


WAYS = (add, add_keyless, insert)


async def task_id(sql: Session) -> int | None:
    """The number of task t."""
    return await sql.value("select max(id) from asyncq._tasks where identifier = 't'")


@pytest.fixture
async def known(sql: Session) -> int:
    """Task t was used once, and is not any more. Its number."""
    await add(sql)
    await complete(sql, await fetch(sql))
    known = await task_id(sql)
    assert known is not None
    return known


async def collected(sql: Session) -> None:
    """Collect until the name is removed."""

    async def is_gone() -> bool:
        await sql.rows(COLLECT)
        return await task_id(sql) is None

    await wait_until(is_gone, description="the name to be collected", limit_s=PATIENCE_S)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("level", LEVELS)
async def test_an_add_that_has_not_seen_the_mark_keeps_the_name(
    sql: Session, other: Session, known: int, level: str, way: Way
) -> None:
    """It has the number already, and its job is invisible yet."""
    async with other.connection.transaction(isolation=level):
        job = await way(other)
        removed = [await sql.value(COLLECT) for _ in range(3)]
    removed.append(await sql.value(COLLECT))

    assert ([0] * 4, known, 0) == (removed, await task_id(sql), await sql.value(ORPHANS))
    assert [job] == [claim["id"] for claim in await fetch(sql)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("level", LEVELS[1:])
async def test_an_add_with_a_snapshot_from_before_the_mark_keeps_the_name(
    sql: Session, other: Session, known: int, level: str, way: Way
) -> None:
    """It will read the number, and not see the mark."""
    async with other.connection.transaction(isolation=level):
        await other.rows("select 1")
        removed = [await sql.value(COLLECT) for _ in range(3)]
        job = await way(other)
        removed.append(await sql.value(COLLECT))

    assert ([0] * 4, known, 0) == (removed, await task_id(sql), await sql.value(ORPHANS))
    assert [job] == [claim["id"] for claim in await fetch(sql)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("ends", ["commit", "rollback"])
async def test_an_add_that_has_seen_the_mark_removes_it(
    sql: Session, other: Session, known: int, level: str, ends: str
) -> None:
    """It locks the row, which is then skipped. If the add rolls back, the mark is there again."""
    await sql.rows(COLLECT)
    transaction = other.connection.transaction(isolation=level)
    await transaction.start()
    await add(other)
    during = await sql.value(COLLECT)
    await getattr(transaction, ends)()
    if ends == "rollback":
        await collected(sql)
    else:
        await sql.rows(COLLECT)

    assert (0, 0) == (during, await sql.value(ORPHANS))
    assert (known if ends == "commit" else None) == await task_id(sql)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("ends", ["commit", "rollback"])
async def test_an_add_waits_for_the_removal_of_its_name(
    sql: Session, other: Session, known: int, level: str, ends: str
) -> None:
    """If that commits, the name is stored again. At the other levels the add gets 40001. It is never lost silently."""
    await sql.rows(COLLECT)
    refusals: list[str] = []
    jobs: list[int] = []

    async def add_too() -> None:
        try:
            async with other.connection.transaction(isolation=level):
                jobs.append(await add(other))
        except asyncpg.PostgresError as error:
            refusals.append(error.sqlstate)

    async def has_removed() -> bool:
        return bool(await sql.value(COLLECT))

    transaction = sql.connection.transaction()
    await transaction.start()
    await wait_until(has_removed, description="the name to be removed")
    async with anyio.create_task_group() as group:
        group.start_soon(add_too)
        await wait_until(lambda: waits(sql, other.connection.get_server_pid()), description="the add to wait")
        await getattr(transaction, ends)()
    is_refused = ends == "commit" and level != "read_committed"

    assert (["40001"] if is_refused else []) == refusals
    assert jobs == [claim["id"] for claim in await fetch(sql)]
    assert (ends == "rollback", 0) == (await task_id(sql) == known, await sql.value(ORPHANS))


@pytest.mark.parametrize("level", LEVELS[1:])
async def test_a_snapshot_that_shows_the_mark_does_not_bring_a_removed_name_back(
    sql: Session, other: Session, known: int, level: str
) -> None:
    """The old row is visible beside the new one: the add gets 40001, not a job with an unused number."""
    await sql.rows(COLLECT)
    async with young_snapshot(other, level):
        await collected(sql)
        refusal = await other.refusal("select asyncq.add_job('t')")

    assert ("40001", 0) == (refusal.sqlstate, await sql.value("select count(*) from asyncq._jobs"))
    assert known


async def test_a_worker_that_registers_while_its_name_is_removed_learns_the_new_number(
    sql: Session, other: Session, known: int
) -> None:
    """Its row claims the name before it reads the number, but the removal may not have seen the row."""
    await sql.rows(COLLECT)
    learnt: list[int] = []

    async def learn() -> None:
        learnt.extend(row["id"] for row in await other.run("task_ids", ["t"]))

    async def has_removed() -> bool:
        return bool(await sql.value(COLLECT))

    transaction = sql.connection.transaction()
    await transaction.start()
    await wait_until(has_removed, description="the name to be removed")
    await other.run("register_worker", 30.0, 1, 1, "h", ["t"], 0, None, [])
    async with anyio.create_task_group() as group:
        group.start_soon(learn)
        await wait_until(lambda: waits(sql, other.connection.get_server_pid()), description="the worker to wait")
        await transaction.commit()
    removed = [await sql.value(COLLECT) for _ in range(3)]

    assert ([0] * 3, learnt) == (removed, [await task_id(sql)])
    assert known < learnt[0]


async def test_a_worker_that_has_registered_keeps_its_names(sql: Session, other: Session, known: int) -> None:
    """It may not have read their numbers yet, or they may be marked."""
    await sql.rows(COLLECT)
    await other.run("register_worker", 30.0, 1, 1, "h", ["t"], 0, None, [])
    removed = [await sql.value(COLLECT) for _ in range(3)]

    assert ([0] * 3, known) == (removed, await task_id(sql))


async def sleeps(sql: Session, other: Session) -> bool:
    """Whether a session is in `pg_sleep`."""
    return await sql.value(
        "select wait_event = 'PgSleep' from pg_catalog.pg_stat_activity where pid = $1",
        other.connection.get_server_pid(),
    )


async def test_a_collection_does_not_stop_adds(dsn: str, sql: Session, other: Session, known: int) -> None:
    """While it waits for an open transaction it has no locks. Adds do not wait for marks, either."""
    await sql.rows(COLLECT)
    await sql.execute("set lock_timeout = '100ms'")
    async with session(dsn, sql.schema) as third, anyio.create_task_group() as group:
        transaction = third.connection.transaction()
        await transaction.start()
        await third.rows("select from asyncq._tasks")
        removed: list[int] = []

        async def collect() -> None:
            removed.append(await other.value("select asyncq._collect_tasks(null, '20 s')"))

        group.start_soon(collect)
        await wait_until(lambda: sleeps(sql, other), description="the collection to wait")
        await add(sql)
        still = not removed
        await transaction.rollback()

    assert (True, [0], known) == (still, removed, await task_id(sql))


async def test_no_job_is_ever_without_a_task(dsn: str, sql: Session) -> None:
    """Adds, workers and cleanups run at once for a second. Every added job can be fetched by its task's name."""
    names = [f"n{number}" for number in range(6)]
    added: list[int] = []

    async def adds(seed: int) -> None:
        chance = random.Random(seed)
        async with session(dsn, sql.schema) as mine:
            for _ in range(60):
                async with mine.connection.transaction():
                    added.append(await add(mine, chance.choice(names)))
                    await anyio.sleep(chance.random() * 0.01)

    async def works() -> None:
        async with session(dsn, sql.schema) as mine:
            for _ in range(60):
                await complete(mine, await fetch(mine, 3))

    async def cleans() -> None:
        async with session(dsn, sql.schema) as mine:
            for _ in range(40):
                await mine.rows(COLLECT)

    async with anyio.create_task_group() as group:
        for seed in range(3):
            group.start_soon(adds, seed)
        for _ in range(2):
            group.start_soon(cleans)
        group.start_soon(works)

    assert (180, 0) == (len(added), await sql.value(ORPHANS))
