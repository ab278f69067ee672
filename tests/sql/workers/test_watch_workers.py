"""`_watch_workers`: a free lock is seen, recorded and reported, unless it means nothing."""

from collections.abc import AsyncIterator

import anyio
import pytest

from tests.store.test_isolation import waits
from tests.support.locks import be_up_for_long, doubted_at, end_the_grace, let_go, register
from tests.support.session import Session, session
from tests.support.waiting import wait_until


@pytest.fixture
async def sql(own: Session) -> Session:
    """A session that checks workers, on a server that has been up for long."""
    await be_up_for_long(own.connection, own.schema)
    return own


@pytest.fixture
async def other(dsn: str, schema: str) -> AsyncIterator[Session]:
    """The session of the checked worker; at the end its row is deleted."""
    async with session(dsn, schema) as opened:
        yield opened
        await opened.execute("delete from asyncq._workers")


NO_LOCK = False


async def watch(sql: Session, worker_id: int = 0) -> tuple[int, int, bool, bool]:
    """Check the workers. Returns their number, the rank, whether one is dead, whether one has some grace left."""
    (row,) = await sql.run("watch_workers", worker_id)
    return row["workers"], row["rank"], row["dead"], (row["grace_left_s"] or 0) > 0


async def test_a_lock_that_is_held_proves_that_its_worker_lives(sql: Session, other: Session) -> None:
    """The check leaves the worker alone."""
    worker = await register(other)

    assert (1, 0, False, False) == await watch(sql)
    assert (None, True) == (
        await doubted_at(sql, worker),
        await other.value("select pg_advisory_unlock(asyncq._lock_space(), $1)", worker),
    )


async def test_a_free_lock_is_recorded_and_its_worker_has_the_grace_to_come_back(sql: Session, other: Session) -> None:
    """It may only have lost a connection. A second check does not restart the grace."""
    worker = await register(other)
    await let_go(other, worker)
    first = await watch(sql)
    noted = await doubted_at(sql, worker)
    await watch(sql)

    assert ((1, 0, False, True), True) == (first, noted is not None)
    assert noted == await doubted_at(sql, worker)


async def test_a_worker_that_does_not_come_back_within_the_grace_is_dead(sql: Session, other: Session) -> None:
    """The next check reports it, so that a rescue follows."""
    worker = await register(other)
    await let_go(other, worker)
    await watch(sql)
    await end_the_grace(sql, worker)

    assert (1, 0, True, False) == await watch(sql)


@pytest.mark.parametrize("holds", [True, False])
async def test_a_beat_ends_the_doubt(sql: Session, other: Session, holds: bool) -> None:
    """It may come over any connection. Without the lock only the lease counts afterwards."""
    worker = await register(other)
    await let_go(other, worker)
    await watch(sql)
    if holds:
        await other.run("lock_worker", worker, await other.value("select pg_backend_pid()"))
    await other.run("beat", worker, holds, [], "{}")
    found = await watch(sql)

    assert ((1, 0, False, False), None) == (found, await doubted_at(sql, worker))


async def test_the_worker_is_notified_that_it_is_in_doubt(sql: Session, other: Session) -> None:
    """Its end of the connection may look healthy. It beats at once."""
    heard: list[object] = []
    await other.connection.add_listener(f"{sql.schema}:cancel", lambda *said: heard.append(said[3]))
    worker = await register(other)
    await let_go(other, worker)
    await watch(sql)
    await other.rows("select")

    assert [f"{worker} 0 0"] == heard


async def test_a_worker_never_doubts_itself(sql: Session) -> None:
    """Its own lock can always be had again by the same connection."""
    worker = await register(sql)
    found = await watch(sql, worker)
    left = await doubted_at(sql, worker)
    await sql.execute("delete from asyncq._workers")

    assert ((1, 0, False, False), None) == (found, left)


async def test_a_worker_whose_own_lease_is_over_starts_no_rescue(sql: Session, other: Session) -> None:
    """It would rescue its own jobs. Its next beat proves that it lives."""
    worker = await register(other)
    await sql.execute("update asyncq._workers set last_seen = clock_timestamp() - interval '31 s'")

    assert (1, 0, False, False) == await watch(sql, worker)


async def test_two_checks_at_once_both_see_a_free_lock(dsn: str, sql: Session, other: Session) -> None:
    """A check that skips the lock would believe that the worker holds it."""
    worker = await register(other)
    await let_go(other, worker)
    async with session(dsn, sql.schema) as looks_too, looks_too.connection.transaction():
        await looks_too.value("select pg_try_advisory_xact_lock_shared(asyncq._lock_space(), $1)", worker)

        assert (1, 0, False, True) == await watch(sql)


async def test_a_worker_whose_row_is_locked_is_not_waited_for(dsn: str, sql: Session, other: Session) -> None:
    """The worker is about to beat, or is being removed. The next check sees the result."""
    worker = await register(other)
    await let_go(other, worker)
    await sql.execute("set lock_timeout = '100ms'")
    async with session(dsn, sql.schema) as holder, holder.connection.transaction():
        await holder.rows("select from asyncq._workers for update")
        found = await watch(sql)

    assert ((1, 0, False, False), None) == (found, await doubted_at(sql, worker))
    assert (1, 0, False, True) == await watch(sql)


@pytest.mark.parametrize("happens", ["beat", "doubted"])
async def test_changes_of_a_worker_during_the_check_count(dsn: str, sql: Session, other: Session, happens: str) -> None:
    """Its row may have changed to count no lock, or another worker may have begun its grace."""
    worker = await register(other)
    await let_go(other, worker)
    # The look stops when it has seen the row, and before it asks for the lock.
    await sql.execute("""
        create or replace function asyncq._lock_space() returns int language plpgsql stable as $$
        begin
          if current_setting('application_name') = 'gated' then
            perform pg_advisory_xact_lock_shared(77);
          end if;
          return 77;
        end $$""")
    async with session(dsn, sql.schema, application_name="gated") as gated, anyio.create_task_group() as group:
        await sql.rows("select pg_advisory_lock(77)")
        group.start_soon(watch, gated)
        await wait_until(lambda: waits(sql, gated.connection.get_server_pid()), description="the look to stop")
        if happens == "beat":
            await other.run("beat", worker, NO_LOCK, [], "{}")
        else:
            await other.rows("update asyncq._workers set doubted_at = '2000-01-01'")
        before = await doubted_at(sql, worker)
        await sql.rows("select pg_advisory_unlock(77)")

    assert before == await doubted_at(sql, worker)


async def test_a_worker_behind_a_pooler_has_its_lease_only(sql: Session, other: Session) -> None:
    """Another process answers than the one that the driver knows: a lock would be anybody's."""
    (row,) = await other.run("register_worker", 30.0, 1, 1, "h", [], 0, None, [])
    held = await other.run("lock_worker", row["id"], 0)
    found = await watch(sql)

    assert (None, [None], (1, 0, False, False)) == (row["holds"], [taken["holds"] for taken in held], found)
    assert not await sql.value("select locks from asyncq._workers")


@pytest.mark.parametrize("lease_s", [30.0, 3600.0])
async def test_while_the_server_is_younger_than_the_lease_a_free_lock_proves_nothing(
    sql: Session, other: Session, lease_s: float
) -> None:
    """After a crash all workers have lost their locks, and return a little later."""
    await sql.execute("""
        create or replace function asyncq._locks_since() returns timestamptz language sql volatile
        as $$ select clock_timestamp() - interval '5 minutes' $$""")
    worker = await register(other, lease_s=lease_s)
    await let_go(other, worker)
    await watch(sql)

    assert (lease_s < 300) == (await doubted_at(sql, worker) is not None)


async def test_a_doubt_from_before_a_crash_of_the_server_is_void(sql: Session, other: Session) -> None:
    """The worker had no chance to answer."""
    worker = await register(other)
    await let_go(other, worker)
    await watch(sql)
    await end_the_grace(sql, worker)
    await sql.execute("""
        create or replace function asyncq._locks_since() returns timestamptz language sql volatile
        as $$ select clock_timestamp() $$""")

    assert (1, 0, False) == (await watch(sql))[:3]


async def test_a_worker_whose_lease_is_over_is_dead_although_its_lock_is_held(sql: Session, other: Session) -> None:
    """It is stalled, or its connection is half open, which the server cannot know."""
    await register(other)
    await sql.execute("update asyncq._workers set last_seen = clock_timestamp() - interval '31 s'")

    assert (1, 0, True, False) == await watch(sql)


async def test_the_first_check_records_the_run_of_the_server(sql: Session) -> None:
    """Later checks leave the record unchanged."""
    await watch(sql)
    noted = await sql.values("select since from asyncq._server_runs")
    await watch(sql)

    assert (1, noted) == (len(noted), await sql.values("select since from asyncq._server_runs"))


async def test_each_worker_learns_its_place(sql: Session, other: Session) -> None:
    """They check in turn by it."""
    ids = [await register(other) for _ in range(3)]

    assert [(3, 0), (3, 1), (3, 2)] == [(await watch(sql, worker))[:2] for worker in ids]
