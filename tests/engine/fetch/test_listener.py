"""The listener reconnects for ever, and wakes the fetcher for missed notifications."""

import asyncio
from typing import Any

import asyncpg
import pytest

from asyncq import Client, Worker, task
from asyncq.domain.events import JobCompleted, ListenConnected, ListenLost
from asyncq.engine import supervisor
from asyncq.engine.fetch import listener
from tests.engine.conftest import MakeWorker
from tests.support.faults import link_to, terminate
from tests.support.seen import Seen
from tests.support.waiting import wait_until


@task
async def nothing() -> None:
    """The least job."""


async def test_a_listener_whose_connection_is_ended_again_and_again_reconnects(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """It never stops: otherwise a worker would silently fall back to its poll."""
    async with make_worker(nothing).start():
        for count in range(2, 6):
            await terminate(db, schema, "listen")
            await seen.wait_for(ListenConnected, count)
        added = await client.add_job(nothing)
        await seen.wait_for(JobCompleted)

    assert ([added.id], 4) == (seen.ids(JobCompleted), len(seen.of(ListenLost)))


async def test_a_job_that_was_added_without_a_listener_is_found_at_the_reconnect(
    dsn: str, schema: str, client: Client, seen: Seen
) -> None:
    """Its notification was lost. Without a wake-up at the reconnect it would wait for the poll, a minute."""
    async with link_to(dsn) as link, Worker(link.dsn, [nothing], schema=schema, observers=[seen], poll=60).start():
        link.refuse("listen")
        await seen.wait_for(ListenLost)
        added = await client.add_job(nothing)
        link.mend()
        await seen.wait_for(JobCompleted)

    assert [added.id] == seen.ids(JobCompleted)


async def test_a_half_open_connection_is_found_by_the_probe(
    dsn: str, schema: str, db: asyncpg.Connection, client: Client, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that only listens would never notice that its peer is gone.

    Nothing else is in flight: a worker with an open slot asks nothing.
    """
    monkeypatch.setattr(listener, "PROBE_S", 0.1)
    monkeypatch.setattr(listener, "PROBE_DEADLINE_S", 0.1)
    async with link_to(dsn) as link, Worker(link.dsn, [nothing], schema=schema, observers=[seen], poll=60).start():
        is_open = f"select count(*) = 1 from {schema}._handoff_slots where token is not null"
        await wait_until(lambda: db.fetchval(is_open), description="a slot")
        link.freeze_open("listen")
        await seen.wait_for(ListenLost)
        await seen.wait_for(ListenConnected, 2)
        added = await client.add_job(nothing)
        await seen.wait_for(JobCompleted)

    assert [added.id] == seen.ids(JobCompleted)


async def test_a_worker_that_cannot_listen_at_the_start_works_by_polling(
    dsn: str, schema: str, client: Client, seen: Seen
) -> None:
    """Listening is a convenience: its failure at the start must not keep the worker from working."""
    async with link_to(dsn) as link:
        link.refuse("listen")
        async with Worker(link.dsn, [nothing], schema=schema, observers=[seen], poll=0.1).start():
            added = await client.add_job(nothing)
            await seen.wait_for(JobCompleted)

    assert [added.id] == seen.ids(JobCompleted)
    assert 1 <= len(seen.of(ListenLost))


async def test_a_notification_of_another_schema_wakes_nobody(
    make_worker: MakeWorker, db: asyncpg.Connection, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two applications, or a test and another, may share a database."""
    wakes: list[str] = []
    came = asyncio.Event()
    real = supervisor.listen

    async def note(*given: Any, heard: Any, **more: Any) -> None:
        def noting(text: str) -> None:
            wakes.append(text)
            came.set()
            heard(text)

        await real(*given, heard=noting, **more)

    monkeypatch.setattr(supervisor, "listen", note)
    async with make_worker(nothing).start():
        for channel in ("asyncq:jobs", f"{schema}_:jobs", f"{schema}:jobs"):
            await db.execute("select pg_notify($1, $1)", channel)
        await came.wait()

    assert [f"{schema}:jobs"] == wakes
