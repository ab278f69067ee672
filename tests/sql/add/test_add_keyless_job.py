"""`_add_keyless_job` and `insert_job`: one add, as `_add_jobs` does it."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.sql.claim.test_wake_for import TIMES
from tests.support.handoffs import CHECKS, FIRST, holders, open_slot
from tests.support.keyed import ROWS
from tests.support.session import Session, session
from tests.support.waiting import wait_until

Way = Callable[..., Awaitable[int | None]]
OPTIONS = '{"max_attempts": 3, "priority": -7, "flags": {"f": true}, "meta": {"m": 1}}'
FULL = ("t", '{"p": 1}', "q", "2040-01-01T00:00:00+00:00", OPTIONS)
PLAIN = ("t", '{"p": 1}', None, None, '{"max_attempts": 3, "priority": -7}')
BARE = ("t", "[]", None, None, None)
TWIN = """
select id from asyncq._add_jobs(array[asyncq._new_job($1, $2::text::json, $3, $4::text::timestamptz, $5::text::jsonb)])
"""


async def call(sql: Session, *values: Any) -> int | None:
    """Add a job as the client does on its callers' connections."""
    ((job_id,),) = await sql.run("add_keyless_job", *values)
    return job_id


async def insert(sql: Session, *values: Any) -> int | None:
    """Add a job as the client does on its own connections."""
    task, payload, queue, run_at, extra = values
    options = json.loads(extra or "{}")
    assert (None, None) == (queue, run_at)
    rows = await sql.run("insert_job", task, payload, options.get("max_attempts"), options.get("priority"), CHECKS)
    return rows[0]["id"] if rows else None


both_ways = pytest.mark.parametrize("add", [call, insert])


@pytest.mark.parametrize(
    ("add", "values"),
    [(call, FULL), (call, BARE), (insert, PLAIN), (insert, BARE)],
    ids=["call full", "call bare", "insert plain", "insert bare"],
)
async def test_the_row_is_that_of_add_jobs(sql: Session, values: tuple[Any, ...], add: Way) -> None:
    """Every argument is stored in its column, and null means the default."""
    twin_id = await sql.value(TWIN, *values)
    job_id = await add(sql, *values)
    twin, row = (dict(row) for row in await sql.rows(ROWS))

    assert (twin_id, job_id) == (twin.pop("id"), row.pop("id"))
    assert twin == row


@both_ways
@pytest.mark.parametrize("retired", [False, True])
async def test_a_task_that_is_not_stored_or_is_about_to_be_removed_is_left_to_add_jobs(
    sql: Session, add: Way, *, retired: bool
) -> None:
    """Nothing is done."""
    if retired:
        await sql.execute("select asyncq._store_tasks('{t}'); update asyncq._tasks set retired_in = '1'")

    assert await add(sql, *BARE) is None
    assert [] == await sql.rows(ROWS)


@pytest.mark.parametrize("time", TIMES)
async def test_a_job_that_is_due_soon_notifies_a_worker(dsn: str, own: Session, time: str) -> None:
    """Workers find later jobs by themselves in time."""
    await own.execute("select asyncq._store_tasks('{t}')")
    run_at = await own.value(f"select ({time})::text")
    told = await notifications_of(dsn, own, call, "t", "{}", None, run_at, None)

    assert TIMES[time] == (told == ["jobs", "mark"])


async def test_a_plain_job_notifies_a_worker(dsn: str, own: Session) -> None:
    """It is due at once."""
    await own.execute("select asyncq._store_tasks('{t}')")

    assert ["jobs", "mark"] == await notifications_of(dsn, own, insert, *BARE)


@both_ways
async def test_a_job_that_was_not_added_notifies_nobody(dsn: str, own: Session, add: Way) -> None:
    """The client adds it again by another function, which notifies."""
    assert ["mark"] == await notifications_of(dsn, own, add, "new", "{}", None, None, None)


async def test_an_insert_that_checks_for_slots_does_nothing_while_a_worker_waits(own: Session, idle: Session) -> None:
    """An insert without a check, or of a job that fits no batch, adds the job for any worker."""
    large = ("t", json.dumps("x" * 1000), *BARE[2:])
    await open_slot(idle, FIRST)
    looked = await insert(own, *BARE)
    added = [await insert(own, *large)]
    ((job_id, *_),) = await own.run("insert_job", "t", "{}", None, None, not CHECKS)
    await idle.execute("select pg_advisory_unlock_shared(asyncq._lock_space(), -2147483648)")
    added += [job_id, await insert(own, *BARE)]

    assert looked is None
    assert added == await own.values("select id from asyncq._jobs order by id")
    assert [None] * 3 == await holders(own)


async def notifications_of(dsn: str, own: Session, add: Way, *values: Any) -> list[str]:
    """The notifications of an add that the on-call worker receives, with the mark that is sent afterwards."""
    told: list[str] = []
    async with session(dsn, own.schema) as listener:
        await listener.value("select pg_advisory_lock(asyncq._lock_space(), 0)")
        for channel in ("jobs", "mark"):
            await listener.connection.add_listener(
                f"{own.schema}:{channel}", lambda *about: told.append(about[2].rpartition(":")[2])
            )
        await add(own, *values)
        await own.rows("select pg_notify('asyncq:mark', '')")
        await wait_until(lambda: "mark" in told, description="the mark")
    return told


async def test_the_wakeup_of_a_job_is_that_of_an_add_of_many(sql: Session) -> None:
    """A job of a queue is found by its time, task, priority and flags; a job without a partition has no wakeup."""
    jobs = [await sql.value(TWIN, *FULL), await call(sql, *FULL), await call(sql, *PLAIN)]
    found = await sql.rows("select job_id, at, partition, task_id, priority, flags, freed from asyncq._wakeups")

    assert jobs[:2] == sorted(row["job_id"] for row in found)
    assert 1 == len({tuple(row)[1:] for row in found})
