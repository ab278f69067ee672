"""A migration that breaks older releases: their running workers notice, stop in order, and say what to do."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from asyncq import Client, JobContext, JobState, SchemaTooNew, task
from asyncq.domain.events import (
    HeartbeatFailed,
    JobCompleted,
    JobsReturned,
    JobStarted,
    ListenConnected,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
)
from asyncq.engine.shutdown import StopRequest
from asyncq.store.database import Database
from asyncq.store.migrate import migrate
from tests.engine.conftest import MakeWorker
from tests.engine.fetch.test_fetcher import fetch_ahead
from tests.store.test_migrate import NEWEST, migration, release
from tests.support.seen import Seen
from tests.support.waiting import wait_until

SENTENCE = r"needs asyncq 7\.0\.0 or newer since its migration \d+_later, .* upgrade asyncq"
BREAKING = "-- breaking: needs 000099 of 7.0.0\nselect 1"


@task
async def wait(ctx: JobContext) -> None:
    """Run until the worker stops."""
    await ctx.cancelled.wait()


async def outgrow(dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch, text: str = BREAKING) -> None:
    """Migrate as a newer release would."""
    with monkeypatch.context() as newer:
        release(newer, migration(text))
        await migrate(Database(dsn, schema))


@asynccontextmanager
async def outgrown(run: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a worker that must end with the error before the block does."""

    async def end() -> None:
        with pytest.raises(SchemaTooNew, match=SENTENCE):
            await run

    async with asyncio.TaskGroup() as group:
        group.create_task(end())
        yield


async def test_a_worker_that_is_outgrown_stops_and_returns_unstarted_claims(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops on the notification. Running handlers may finish within the grace period, and no attempt is lost."""
    fetch_ahead(monkeypatch, 10)
    first, *others = [(await client.add_job(wait)).id for _ in range(3)]
    async with outgrown(make_worker(wait, concurrency=1).run()):
        await seen.wait_for(JobStarted)
        await outgrow(dsn, schema, monkeypatch)
        await seen.wait_for(WorkerStopped)
    (returned,) = seen.of(JobsReturned)
    (stopping,) = seen.of(WorkerStopping)
    left = [await client.get_job(id_) for id_ in others]

    assert ((*others,), [first], 1) == (returned.job_ids, seen.ids(JobCompleted), len(seen.ids(JobStarted)))
    assert "needs asyncq 7.0.0 or newer" in stopping.reason
    assert [(JobState.AVAILABLE, 0)] * 2 == [(job.state, job.attempts) for job in left]


async def test_a_worker_without_notifications_finds_out_by_its_next_beat(
    dsn: str, schema: str, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a transaction pooler a worker receives no notification."""
    async with outgrown(make_worker(wait, listen=False, lease=1).run()):
        await seen.wait_for(WorkerStarted)
        await outgrow(dsn, schema, monkeypatch)
        await seen.wait_for(WorkerStopped)


async def test_a_worker_whose_beat_fails_on_the_new_schema_reports_why(
    dsn: str, schema: str, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A breaking migration may remove columns that the beat writes."""
    text = "-- breaking: needs 000099 of 7.0.0\nalter table asyncq._workers rename column stuck to hung"
    async with outgrown(make_worker(wait).run()):
        await seen.wait_for(ListenConnected)
        await outgrow(dsn, schema, monkeypatch, text)
        await seen.wait_for(WorkerStopped)

    assert ["stuck" in event.error for event in seen.of(HeartbeatFailed)[:1]] == [True]


async def test_an_outgrown_worker_whose_row_is_gone_does_not_come_back(
    dsn: str, schema: str, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker asks for the version of the schema before it registers again."""
    async with outgrown(make_worker(wait).run()):
        await seen.wait_for(ListenConnected)
        await outgrow(dsn, schema, monkeypatch, "-- breaking: needs 000099 of 7.0.0\ndelete from asyncq._workers")
        await seen.wait_for(WorkerStopped, limit_s=15)

    assert 1 == len(seen.of(WorkerStarted))


async def test_a_run_until_nothing_is_runnable_ends_too(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may take hours, and does not listen."""
    await client.add_job(wait)
    async with outgrown(make_worker(wait, lease=1).run_once()):
        await seen.wait_for(JobStarted)
        await outgrow(dsn, schema, monkeypatch)


async def test_a_migration_that_breaks_nothing_stops_nobody(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old and new workers run side by side."""
    async with make_worker(wait, lease=1).start():
        await outgrow(dsn, schema, monkeypatch, "alter table asyncq._jobs add column later int")
        await client.add_job(wait)
        await seen.wait_for(JobStarted)
        stopping = seen.of(WorkerStopping)

    assert [] == stopping


async def test_a_worker_lives_on_while_a_migration_changes_the_table_that_it_asks(
    schema: str, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection
) -> None:
    """It may take an hour to build an index in the same transaction; the beat itself touches other tables."""
    last_seen = f"select last_seen from {schema}._workers"

    async def has_beaten() -> bool:
        return before < await db.fetchval(last_seen)

    async with make_worker(wait, lease=1).start():
        async with db.transaction():
            await db.execute(f"lock table {schema}._migrations in access exclusive mode")
            for _ in range(3):
                before = await db.fetchval(last_seen)
                await wait_until(has_beaten, description="a beat")
        failures = seen.of(HeartbeatFailed)

    assert [] == failures


def test_an_error_stops_a_worker_only_if_nothing_has_stopped_it_before() -> None:
    """A second request would end the grace period. A caller of stop() expects no error."""
    asked, failed = StopRequest(), StopRequest()
    asked.ask("stop() was called")
    asked.fail(SchemaTooNew("new"))
    failed.fail(SchemaTooNew("new"))

    assert (None, "stop() was called", "new") == (asked.error, asked.reason, failed.reason)
    assert isinstance(failed.error, SchemaTooNew)
    assert not asked.forced.is_set()


async def test_workers_are_notified_of_a_breaking_migration_and_of_no_other(
    dsn: str, schema: str, db: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notification is sent in the transaction of the migration, since workers see nothing before its commit."""
    heard: list[str] = []
    await db.add_listener(f"{schema}:cancel", lambda *said: heard.append(str(said[-1])))
    additive, breaking = migration("select 1"), migration(BREAKING, NEWEST + 2)
    release(monkeypatch, additive)
    await migrate(Database(dsn, schema))
    await db.execute("select")
    quiet = list(heard)
    release(monkeypatch, additive, breaking)
    await migrate(Database(dsn, schema))
    await db.execute("select")

    assert ([], ["0 0 0"]) == (quiet, heard)
