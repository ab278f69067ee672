"""A request with a key is never lost, even if the job that has the key is changed at the same time.

Each change holds the row or the key lock when the add arrives, then commits or rolls back. At READ COMMITTED the result
is that of one after the other. At the other levels a loser may get 40001: it has changed nothing, and the same call
works afterwards. Nobody ever gets an empty row.
"""

import itertools
from collections.abc import Awaitable, Callable

import anyio
import asyncpg
import pytest

from tests.support.acts import BY_WORKERS, LEVELS, Act, Adder, is_waiting
from tests.support.gate import Gate
from tests.support.jobs import change, complete, fetch
from tests.support.keyed import KEY, MODES, add_one, stored
from tests.support.session import Session, session
from tests.support.waiting import wait_until

ADD = "select * from asyncq.add_job('t', $1::text::json, job_key := 'k', job_key_mode := $2)"
EMPTY = "delete from asyncq._jobs; delete from asyncq._key_locks"
OLD = '{"old": 1}'
NEW = '{"new": 1}'


async def _remove(sql: Session, _claims: list[asyncpg.Record]) -> None:
    assert await sql.value("select id from asyncq.remove_job('k')")


async def _replace(sql: Session, _claims: list[asyncpg.Record]) -> None:
    await add_one(sql, payload=OLD)


async def _dedupe(sql: Session, _claims: list[asyncpg.Record]) -> None:
    await add_one(sql, payload=OLD, mode="unsafe_dedupe")


# The act -> the state of the holder before it, after it has committed.
ACTS: dict[str, tuple[Act, str | None, str | None]] = {
    **BY_WORKERS,
    "a removal": (_remove, "available", None),
    "a removal of a job that runs": (_remove, "active", None),
    "an add": (_replace, "available", "available"),
    "an add beside a job that runs": (_replace, "active", "available"),
    "a first add": (_replace, None, "available"),
    "a refused add": (_dedupe, "available", "available"),
    "a refused add beside a job that runs": (_dedupe, "active", "active"),
}


async def prepare(sql: Session, state: str | None) -> list[asyncpg.Record]:
    """Store a job that has the key, or none. Returns its claim if it runs."""
    if state is None:
        await sql.execute("select asyncq._lock_keys('{key:k}')")
        return []
    await add_one(sql, payload=OLD)
    return await fetch(sql) if state == "active" else []


@pytest.fixture(autouse=True)
async def known_task(sql: Session) -> None:
    """Make the task known: adds of one that is new wait for each other."""
    await sql.execute("insert into asyncq._tasks (identifier) values ('t')")


async def race(sql: Session, other: Session, act: str, mode: str, ends: str, level: str) -> tuple[list[str], str]:
    """Run an add during an open change. Returns the refusals of the add, and the result of the request."""
    do, before, _ = ACTS[act]
    await sql.execute(EMPTY)
    claims = await prepare(sql, before)
    adder = Adder(other, level, lambda mine: mine.row(ADD, NEW, mode))
    await adder.add_during(sql, do(sql, claims), ends)
    refusals = [*adder.refusals]
    await adder.add_again_if_refused()
    (holder,) = [row for row in (await stored(sql)).values() if row["key"] == KEY]
    if adder.done is None or holder["id"] != adder.done["id"]:
        return refusals, "lost"
    if holder["payload"] == OLD:
        return refusals, "refused"
    return refusals, "runs" if holder["locked_by"] else "waits"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("act", ACTS)
async def test_an_add_waits_for_the_change_of_the_job_that_has_its_key(
    sql: Session, other: Session, act: str, level: str
) -> None:
    """In each mode and for each end of the act, the request waits afterwards, or a job rejects it."""
    _, before, after = ACTS[act]
    for mode, ends in itertools.product(MODES, ("commit", "rollback")):
        refusals, became = await race(sql, other, act, mode, ends, level)
        is_refused = mode == "unsafe_dedupe" and (after if ends == "commit" else before)

        assert ("refused" if is_refused else "waits", mode, ends) == (became, mode, ends)
        assert refusals in ([[]] if level == "read_committed" or ends == "rollback" else [[], ["40001"]])


OLD_SNAPSHOT_CALLS = [
    "select asyncq.remove_job('k')",
    *(f"select asyncq.add_job('t', job_key := 'k', job_key_mode := '{mode}')" for mode in MODES),
]


@pytest.mark.parametrize("level", LEVELS[1:])
@pytest.mark.parametrize("act", [name for name, (_, before, _) in ACTS.items() if before])
async def test_an_old_snapshot_decides_nothing(sql: Session, other: Session, act: str, level: str) -> None:
    """It shows a job that waits where one runs, one that runs where none is: 40001, and nothing is changed."""
    do, before, _ = ACTS[act]
    for call in OLD_SNAPSHOT_CALLS:
        await sql.execute(EMPTY)
        claims = await prepare(sql, before)
        async with other.connection.transaction(isolation=level):
            await other.rows("select from asyncq._jobs")
            await do(sql, claims)
            done = await stored(sql)
            refusal = await other.refusal(call)

        assert ("40001", call) == (refusal.sqlstate, call)
        assert done == await stored(sql)


async def test_a_fetch_that_saw_the_old_request_runs_the_new_one(gate: Gate, fetcher: Session, other: Session) -> None:
    """Its snapshot is older than the add; its lock shows the row as it is."""
    await add_one(fetcher, payload="[1]")
    (claim,) = await gate.during(fetch(fetcher), add_one(other, payload="[2]", mode="preserve_run_at"))

    assert ("[1, 2]", 1) == (claim["payload"], claim["revision"])


@pytest.mark.parametrize("settle", [complete, change])
async def test_a_settlement_does_not_wait_for_an_add(
    sql: Session, other: Session, settle: Callable[..., Awaitable[list[int]]]
) -> None:
    """The row is held: it is skipped, and settled in the next try."""
    await add_one(sql)
    claims = await fetch(sql)
    await sql.execute("set lock_timeout = '100ms'")
    async with other.connection.transaction():
        await add_one(other)
        during = await settle(sql, claims)

    assert [] == during
    assert [claim["id"] for claim in claims] == await settle(sql, claims)


async def test_a_job_that_became_due_during_the_wait_notifies(dsn: str, sql: Session, other: Session) -> None:
    """An add may wait for a key lock for minutes. The time afterwards decides whether it notifies a worker."""
    await sql.execute("""
        create table asyncq.moved (by interval not null);
        insert into asyncq.moved values ('0');
        create or replace function asyncq.clock() returns timestamptz language sql volatile
        as $$ select pg_catalog.clock_timestamp() + (select by from asyncq.moved) $$;""")
    heard: list[str] = []
    async with session(dsn, sql.schema) as watcher, anyio.create_task_group() as group:
        await watcher.value("select pg_advisory_lock(asyncq._lock_space(), 0)")
        await watcher.connection.add_listener(f"{sql.schema}:jobs", lambda *told: heard.append(told[3]))
        transaction = sql.connection.transaction()
        await transaction.start()
        await sql.rows("select asyncq._lock_keys('{key:k}')")
        group.start_soon(other.rows, "select asyncq.add_job('t', run_at := now() + interval '70 s', job_key := 'k')")
        await wait_until(lambda: is_waiting(watcher, other), description="the add to wait for the key lock")
        await watcher.execute("update asyncq.moved set by = '30 s'")
        await transaction.commit()
        await wait_until(lambda: bool(heard), description="the add to be heard")

    assert [""] == heard
