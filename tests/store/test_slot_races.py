"""An add takes a slot while its worker is removed: the job is not claimed, or its claim is returned."""

import asyncio
from collections.abc import AsyncIterator, Awaitable

import asyncpg
import pytest

from asyncq.store.arrays import array_text
from asyncq.store.handoff import handed_over
from tests.support import handoffs
from tests.support.handoffs import SLOT, add_plain, fill_awaited
from tests.support.jobs import claimed
from tests.support.session import Session, session
from tests.support.waiting import LIMIT_S, wait_until

HOLD = True
TOKENS = [1]
WAITS = "select exists (select from pg_stat_activity where $1 = any(pg_blocking_pids(pid)))"


@pytest.fixture(autouse=True, params=["plain", "awaited"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job of each add is plain, or its client awaits it."""
    if request.param == "awaited":
        monkeypatch.setattr(handoffs, "fill", fill_awaited)


@pytest.fixture
async def adder(dsn: str, schema: str) -> AsyncIterator[Session]:
    """A session whose adds are in transactions that stay open for a while, as behind a pooler."""
    async with session(dsn, schema) as opened:
        yield opened


@pytest.fixture
async def ear(dsn: str, schema: str) -> AsyncIterator[Session]:
    """The LISTEN connection of the worker; a rescue ends it."""
    async with session(dsn, schema) as opened:
        yield opened


@pytest.fixture
async def worker(sql: Session, ear: Session) -> int:
    """A worker with an open slot."""
    await sql.execute("select asyncq._store_tasks('{t}')")
    (row,) = await sql.run("register_worker", 30.0, 1, 1, "h", ["t"], 0, None, [])
    tasks = array_text([await sql.value("select id from asyncq._tasks")])
    await ear.run("open_slot", row["id"], 1, 0, tasks, tasks, "c", HOLD)
    return row["id"]


async def add(sql: Session) -> int:
    """Add a job as a client does that commits at once."""
    job_id = await add_plain(sql)
    assert job_id is not None
    return job_id


async def begun_during(adder: Session, sql: Session, act: Awaitable[object]) -> int:
    """Begin to do something while an add that has taken a slot is open, and finish it when that is committed."""
    async with asyncio.TaskGroup() as group, adder.connection.transaction():
        job_id = await add(adder)
        doing = group.create_task(_until_done(act))

        async def ended_or_waits() -> bool:
            return doing.done() or await sql.value(WAITS, adder.connection.get_server_pid())

        await wait_until(ended_or_waits, description="the act to end, or to wait for the add")
    return job_id


async def _until_done(act: Awaitable[object]) -> None:
    await act


async def die(sql: Session) -> None:
    """The worker is dead: it was silent for longer than its lease."""
    await sql.execute("update asyncq._workers set last_seen = last_seen - interval '1 min'")


async def die_and_be_rescued(sql: Session) -> None:
    """Let the worker miss beats after the add has taken the slot, and rescue it."""
    await die(sql)
    await sql.rows("select from asyncq._rescue_jobs(false)")


async def test_a_rescue_beside_an_add_leaves_the_worker_to_the_next_one(
    sql: Session, other: Session, adder: Session, worker: int
) -> None:
    """It waits for nobody. Without the worker's row, the claim would be orphaned, and found only minutes later."""
    job_id = await begun_during(adder, sql, die_and_be_rescued(other))
    kept = await sql.values("select id from asyncq._workers")
    found = await claimed(sql)
    rescued = await sql.values("select job_id from asyncq._rescue_jobs(false)")

    assert ([worker], [job_id], [job_id]) == (kept, found, rescued)
    assert ([], []) == (await claimed(sql), await sql.values("select id from asyncq._workers"))


async def test_a_worker_that_comes_back_after_a_rescue_beside_an_add_learns_that_its_slot_was_taken(
    sql: Session, other: Session, adder: Session, worker: int
) -> None:
    """It keeps its id, so no rescue would return the claim."""
    await begun_during(adder, sql, die_and_be_rescued(other))
    await sql.execute("update asyncq._workers set last_seen = now()")

    assert TOKENS == [row["token"] for row in await other.run("close_slot", worker)]


async def test_after_a_rescue_nothing_is_claimed_for_the_dead(sql: Session, other: Session, worker: int) -> None:
    """Its connection may look healthy to the server, for example if its process is paused."""
    await die(sql)
    await sql.rows("select from asyncq._rescue_jobs(false)")
    await add(other)

    assert [] == await claimed(sql)
    assert [] == await sql.rows(SLOT)


async def test_workers_that_are_declared_dead_lose_the_claims_that_an_add_makes_at_this_moment(
    sql: Session, other: Session, adder: Session, worker: int
) -> None:
    """The open add is waited for."""
    forced = other.rows("select from asyncq.force_unlock_workers($1)", [str(worker)])
    job_id = await begun_during(adder, sql, forced)

    assert [job_id] == await sql.values("select id from asyncq._all_jobs()")
    assert ([], []) == (await claimed(sql), await sql.rows(SLOT))


async def test_a_worker_is_not_removed_while_an_add_takes_its_slot(
    sql: Session, other: Session, adder: Session, worker: int
) -> None:
    """It did not withdraw it, so it does not know of the claim."""
    job_id = await begun_during(adder, sql, other.run("remove_worker", worker))

    assert ([worker], [job_id]) == (await sql.values("select id from asyncq._workers"), await claimed(sql))


async def test_a_slot_that_an_add_is_about_to_take_cannot_be_closed(
    sql: Session, other: Session, adder: Session, worker: int
) -> None:
    """The close does not wait for it either. The next try returns the claim."""
    async with adder.connection.transaction():
        await add(adder)
        with pytest.raises(asyncpg.LockNotAvailableError):
            await other.run("close_slot", worker)

    assert TOKENS == [row["token"] for row in await other.run("close_slot", worker)]
    assert [None] == [row["token"] for row in await other.run("close_slot", worker)]


async def test_an_add_that_fails_after_it_has_taken_a_slot_leaves_it_as_it_was(
    sql: Session, adder: Session, worker: int
) -> None:
    """The next one takes it."""
    failing = adder.connection.transaction()
    await failing.start()
    await add(adder)
    await adder.refusal("select 1 / 0")
    await failing.rollback()
    before = await sql.rows(SLOT)
    job_id = await add(adder)

    assert ([(1, False)], [(1, True)]) == ([tuple(row) for row in before], [tuple(await sql.row(SLOT))])
    assert [job_id] == await claimed(sql)


async def test_of_two_adds_at_once_one_takes_the_slot_and_none_waits(
    sql: Session, other: Session, adder: Session, worker: int
) -> None:
    """The other add notifies the on-call worker."""
    async with adder.connection.transaction():
        first = await add(adder)
        async with asyncio.timeout(LIMIT_S):
            await add(other)

    assert [first] == await claimed(sql)
    assert 2 == await sql.value("select count(*) from asyncq._all_jobs()")


@pytest.mark.parametrize("late", [False, True])
async def test_a_worker_that_does_not_listen_is_given_nothing(
    dsn: str, schema: str, sql: Session, other: Session, *, late: bool
) -> None:
    """Its lock ends with the connection, and the slot, which is still there, counts no more."""
    async with session(dsn, schema) as ear:
        await ear.execute("select asyncq._store_tasks('{t}')")
        (row,) = await ear.run("register_worker", 30.0, 1, 1, "h", ["t"], 0, None, [])
        tasks = [array_text([await ear.value("select id from asyncq._tasks")])] * 2
        await ear.run("open_slot", row["id"], 1, 0, *tasks, "c", HOLD)
        if late:
            # The next connection of the worker holds nothing while the server believes that the first one lives.
            ((is_made,),) = await sql.run("open_slot", row["id"], 2, 0, *tasks, "d", HOLD)
            assert not is_made
    await wait_until(
        lambda: other.value(f"select not asyncq._is_listening({row['id']})"), description="the connection to end"
    )
    await add(other)

    assert [] == await claimed(sql)


@pytest.mark.parametrize("payload", [r'"\ud800"', "[" * 3400 + "]" * 3400], ids=["half a character", "deep"])
async def test_a_payload_that_the_driver_cannot_read_is_no_error(payload: str) -> None:
    """The next poll finds that the slot is taken, and a fetch gets the job."""
    assert handed_over(f"[1, 2, 3, 25, 0, 1700000000000000, {payload}, null]") is None


LOOKED_AT = """
create or replace function asyncq._is_listening(worker int) returns boolean language plpgsql volatile as $$
begin
  perform pg_catalog.pg_advisory_xact_lock_shared(4242);
  return true;
end $$
"""


@pytest.mark.parametrize("token", [None, 2])
async def test_a_slot_that_changes_while_an_add_checks_it_is_skipped(
    sql: Session, other: Session, adder: Session, worker: int, token: int | None
) -> None:
    """A closed slot is gone, and an opened one is a new batch. The job is inserted, and notifies the on-call worker."""
    tasks = array_text([await sql.value("select id from asyncq._tasks")])
    await sql.execute(LOOKED_AT + "; select pg_advisory_lock(4242)")
    async with asyncio.TaskGroup() as group:
        group.create_task(add(adder))
        await wait_until(
            lambda: sql.value("select exists (select from pg_locks where objid = 4242 and not granted)"),
            description="the add to look",
        )
        await other.run("close_slot", worker)
        if token:
            await sql.run("open_slot", worker, token, 0, tasks, tasks, "c", HOLD)
        await sql.execute("select pg_advisory_unlock(4242)")

    assert [None] == await sql.values("select lock_token from asyncq._all_jobs()")
