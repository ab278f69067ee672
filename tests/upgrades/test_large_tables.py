"""Migrating beside millions of waiting jobs: an add meanwhile never waits for longer than a second."""

import time

import anyio
import pytest

from asyncq.store.database import Database
from tests.support.session import Session, session
from tests.upgrades.conftest import Later
from tests.upgrades.releases import apply

MILLIONS = 4_000_000
LONGEST_ADD_S = 1.0
FILL = f"""
insert into asyncq._jobs (run_at, created_at, updated_at, task_id, payload)
select now(), now(), now(), task.id, '{{}}' from asyncq._tasks as task, generate_series(1, {MILLIONS})
"""
INDEX = "-- no transaction\ncreate index concurrently jobs_later on asyncq._jobs (created_at)"


async def add_until(sql: Session, done: anyio.Event) -> float:
    """Add jobs one after the other; returns how long the slowest took, in seconds."""
    longest_s = 0.0
    while not done.is_set():
        start = time.perf_counter()
        await sql.rows("select from asyncq.add_job('step')")
        longest_s = max(longest_s, time.perf_counter() - start)
    return longest_s


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_adds_wait_less_than_a_second_for_the_pending_migrations(
    database: Database, sql: Session, later: Later
) -> None:
    """They are those since the last release, and one more index as CONTRIBUTING prescribes."""
    new = later("alter table asyncq._jobs add column later_words text", INDEX)
    await sql.rows("select from asyncq.add_job('step')")
    await sql.connection.execute(FILL.replace("asyncq.", f"{sql.schema}."), timeout=500)
    done = anyio.Event()
    longest_s: list[float] = []

    async def add() -> None:
        async with session(database.dsn, database.schema) as other:
            longest_s.append(await add_until(other, done))

    async with anyio.create_task_group() as group:
        group.start_soon(add)
        await apply(new, database)
        done.set()

    assert await sql.value("select indisvalid from pg_index where indexrelid = 'asyncq.jobs_later'::regclass")
    assert longest_s[0] < LONGEST_ADD_S
