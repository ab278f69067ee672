"""Claims whose answer was lost: asked for by their tokens, and again for a while."""

import asyncio

import asyncpg
import pytest

from asyncq import Client, task
from asyncq.domain.events import JobsReturned
from asyncq.engine.base.observers import Observers
from asyncq.engine.fetch import unconfirmed
from asyncq.engine.fetch.unconfirmed import UnconfirmedFetches
from asyncq.store import claim as claims
from asyncq.store.database import Database, ReconnectingConnection
from tests.support.seen import Seen

WORKER, TOKEN = 7, 3


@task
async def nothing() -> None:
    """The least job."""


async def claim(db: asyncpg.Connection, schema: str) -> None:
    """Claim all jobs, as a fetch does that the server ends late."""
    claimed = f"locked_by = {WORKER}, lock_token = {TOKEN}, locked_at = now()"
    await db.execute(f"update {schema}._jobs set {claimed} where locked_by is null")


@pytest.mark.parametrize("away_s", [0.0, 0.4])
async def test_a_fetch_that_commits_after_the_first_try_is_found_by_the_next_one(
    dsn: str,
    schema: str,
    client: Client,
    db: asyncpg.Connection,
    seen: Seen,
    monkeypatch: pytest.MonkeyPatch,
    away_s: float,
) -> None:
    """The server may have been unreachable for long before the first try."""
    monkeypatch.setattr(unconfirmed, "AGAIN_S", 0.0)
    monkeypatch.setattr(unconfirmed, "FORGET_S", 0.3)
    added = await client.add_job(nothing)
    line = ReconnectingConnection(Database(dsn, schema), "fetch")
    lost = UnconfirmedFetches(line, Observers([seen]))
    lost.note(WORKER, TOKEN)
    await asyncio.sleep(away_s)
    await lost.give_back()
    await claim(db, schema)
    is_time = lost.is_time
    await lost.give_back()
    await line.close()

    assert is_time
    assert [(added.id,)] == [event.job_ids for event in seen.of(JobsReturned)]


async def test_a_token_is_forgotten_after_a_while(
    dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    """No fetch takes that long."""
    monkeypatch.setattr(unconfirmed, "AGAIN_S", 0.0)
    monkeypatch.setattr(unconfirmed, "FORGET_S", 0.1)
    line = ReconnectingConnection(Database(dsn, schema), "fetch")
    lost = UnconfirmedFetches(line, Observers([seen]))
    lost.note(WORKER, TOKEN)
    await lost.give_back()
    asked_again = lost.is_time
    await asyncio.sleep(0.15)
    await lost.give_back()
    await line.close()

    assert (True, False) == (asked_again, lost.is_time)


@pytest.mark.parametrize("table", ["_jobs", "_batches"])
async def test_claims_that_are_locked_are_not_forgotten(
    dsn: str,
    schema: str,
    client: Client,
    db: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    seen: Seen,
    table: str,
) -> None:
    """A transaction may lock a row of them, or of their batch, for long. No other worker would return them."""
    monkeypatch.setattr(unconfirmed, "AGAIN_S", 0.0)
    monkeypatch.setattr(unconfirmed, "FORGET_S", 0.0)
    monkeypatch.setattr(claims, "BATCH_FROM", 1)
    added = await client.add_job(nothing)
    line = ReconnectingConnection(Database(dsn, schema), "fetch")
    if table == "_jobs":
        await claim(db, schema)
    else:
        (task_id,) = await db.fetchrow(f"select id from {schema}._tasks")
        await claims.fetch_jobs(line, WORKER, TOKEN, 10, [task_id], None, claims.START)
    lost = UnconfirmedFetches(line, Observers([seen]))
    lost.note(WORKER, TOKEN)
    async with db.transaction():
        await db.execute(f"select from {schema}.{table} for update")
        await lost.give_back()
    before = seen.of(JobsReturned)
    await lost.give_back()
    await line.close()

    assert ([], [(added.id,)]) == (before, [event.job_ids for event in seen.of(JobsReturned)])
