"""Pruning blocks nobody: adds may need the key locks that are being removed, and no request is lost or doubled."""

import time

import anyio
import asyncpg
import pytest

from asyncq.store.database import ReconnectingConnection
from asyncq.store.pruning import FIRST_KEY_LOCK, prune, prune_key_locks
from tests.support.gate import Gate
from tests.support.jobs import add
from tests.support.session import Session, session
from tests.support.waiting import wait_until

ADD = "select id from asyncq.add_job('t', job_key := $1)"
LONG_AGO = "update asyncq._key_locks set used_at = now() - interval '2 days'"
PRUNE = f"select key_locks from asyncq._prune_key_locks({FIRST_KEY_LOCK}, 500)"
LOCKS = 100_000
BATCH = 500


async def is_waiting(sql: Session, other: Session) -> bool:
    """Whether another session waits for one."""
    return await sql.value("select pg_blocking_pids($1) <> '{}'", other.connection.get_server_pid())


@pytest.mark.parametrize("ends", ["commit", "rollback"])
@pytest.mark.parametrize("level", ["read_committed", "repeatable_read", "serializable"])
async def test_an_add_that_meets_the_removal_of_its_key_lock_creates_it_again(
    sql: Session, other: Session, level: str, ends: str
) -> None:
    """It waits for the removal, then works as for a new key. At the other levels it may get 40001."""
    await sql.rows(ADD, "k")
    await sql.execute("delete from asyncq._jobs")
    await sql.execute(LONG_AGO)
    refusals: list[str | None] = []

    async def come() -> None:
        try:
            async with other.connection.transaction(isolation=level):
                await other.rows(ADD, "k")
        except asyncpg.PostgresError as error:
            refusals.append(error.sqlstate)

    transaction = sql.connection.transaction()
    await transaction.start()
    removed = await sql.value(PRUNE)
    async with anyio.create_task_group() as group:
        group.start_soon(come)
        await wait_until(lambda: is_waiting(sql, other), description="the add to wait")
        await getattr(transaction, ends)()
    added = await sql.value("select count(*) from asyncq._jobs where key = 'k'")

    assert (1, 1) == (removed, added + len(refusals))
    assert refusals in ([[]] if level == "read_committed" or ends == "rollback" else [[], ["40001"]])


async def test_of_two_adds_that_meet_a_removed_key_lock_one_is_added(sql: Session, other: Session, dsn: str) -> None:
    """Both wait for the removal, then for each other as with any key. They become one job."""
    await sql.rows(ADD, "k")
    await sql.execute("delete from asyncq._jobs")
    await sql.execute(LONG_AGO)
    ids: list[int] = []

    async def come(who: Session) -> None:
        ids.append(await who.value(ADD, "k"))

    async with session(dsn, sql.schema) as third, anyio.create_task_group() as group:
        transaction = sql.connection.transaction()
        await transaction.start()
        await sql.rows(PRUNE)
        for who in (other, third):
            group.start_soon(come, who)
        await wait_until(lambda: is_waiting(sql, other), description="one to wait")
        await wait_until(lambda: is_waiting(sql, third), description="the other to wait")
        await transaction.commit()
        await wait_until(lambda: len(ids) == 2, description="both adds")

    assert 1 == len(set(ids))


async def test_pruning_does_not_wait_for_an_add_and_leaves_its_key_lock(
    line: ReconnectingConnection, sql: Session, other: Session
) -> None:
    """The transaction of the add may stay open for long."""
    await sql.rows(ADD, "k")
    await sql.execute(LONG_AGO)
    async with other.connection.transaction():
        await other.rows(ADD, "k")
        with anyio.fail_after(5):
            during = await prune_key_locks(line, FIRST_KEY_LOCK, 10)

    assert (0, 0) == (during[0], (await prune_key_locks(line, FIRST_KEY_LOCK, 10))[0])
    assert 1 == await sql.value("select count(*) from asyncq._key_locks")


async def test_a_hundred_thousand_key_locks_are_removed_while_adds_use_these_very_keys(
    line: ReconnectingConnection, sql: Session, other: Session
) -> None:
    """No add waits for more than one batch, which takes far less time than all of them."""
    await sql.execute(f"""
        insert into asyncq._key_locks (key, used_at)
          select hashtextextended('key:k' || i, 0), now() - interval '2 days' from generate_series(1, {LOCKS}) as i""")
    keys = await sql.values(f"""
        select 'k' || i from generate_series(1, {LOCKS}) as i order by hashtextextended('key:k' || i, 0)""")
    waits: list[float] = []
    walked = removed = 0
    at: int | None = FIRST_KEY_LOCK

    async def keep_coming() -> None:
        # Always to a key lock of the batch that is being removed at this moment: the next one may be behind it already.
        while at is not None:
            number = min(walked + len(waits) % BATCH, LOCKS - 1)
            began = time.perf_counter()
            await other.rows(ADD, keys[number])
            waits.append(time.perf_counter() - began)

    began = time.perf_counter()
    async with anyio.create_task_group() as group:
        group.start_soon(keep_coming)
        while at is not None:
            count, at = await prune_key_locks(line, at, BATCH)
            removed, walked = removed + count, walked + BATCH
        walked_s = time.perf_counter() - began
    left = await sql.value("select count(*) from asyncq._key_locks")

    assert LOCKS <= removed + left <= LOCKS + len(waits)
    assert left <= len(waits)
    assert 0 < await sql.value("select count(*) from asyncq._jobs") <= len(waits)
    assert max(waits) < walked_s / 3


@pytest.mark.parametrize("change", ["attempts = 0", "updated_at = now()"])
async def test_a_discarded_job_that_is_changed_during_the_check_stays(
    gate: Gate, guarded: Session, other: Session, change: str
) -> None:
    """An administrator retries it between the check and the lock, so its current row decides."""
    await add(other)
    await other.rows("update asyncq._jobs set attempts = max_attempts, updated_at = now() - interval '2 days'")
    await guarded.run("prune", 1e9, 1e9, 10)
    pruning = guarded.run("prune", 86400.0, 1e9, 10)
    (pruned,) = await gate.during(pruning, other.execute(f"update asyncq._jobs set {change}"))

    assert (0, 1) == (pruned["discarded"], await other.value("select count(*) from asyncq._jobs"))


async def test_the_store_returns_the_numbers_of_pruned_rows(line: ReconnectingConnection, sql: Session) -> None:
    """The caller learns from it whether more rows remain."""
    await add(sql)
    await sql.execute("""
        update asyncq._jobs set attempts = max_attempts, updated_at = now() - interval '2 days';
        insert into asyncq._ended_jobs (id, created_at, ended_at, keep_until, task_id, state)
          select i, now(), now(), now(), 1, 'completed' from generate_series(1, 3) as i;
        insert into asyncq._requests (keep_until, job_id, key, digest)
          select now(), i, i, '' from generate_series(1, 2) as i""")

    assert {"discarded": 0, "ended": 3, "requests": 2, "attempts": 0} == await prune(line, None, 86400.0, 10)
    assert {"discarded": 1, "ended": 0, "requests": 0, "attempts": 0} == await prune(line, 86400.0, 86400.0, 10)
    assert (0, None) == await prune_key_locks(line, FIRST_KEY_LOCK, 10)
