"""The connections that a worker needs, and its behaviour when handlers want more."""

import asyncio
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from asyncq import Client, JobContext, task
from asyncq.domain.events import JobCompleted, JobDiscarded, JobRetried, JobStarted, WorkerStarted
from asyncq.engine.settle import completer
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen
from tests.support.waiting import wait_until


@task
async def nothing() -> None:
    """The least job."""


async def connections(db: asyncpg.Connection, schema: str) -> Counter[str]:
    """How many connections the workers of a schema hold for each role, without that of a moment for claims."""
    rows = await db.fetch("select application_name as name from pg_stat_activity where application_name ^@ $1", schema)
    held = Counter(row["name"].removeprefix(f"{schema} ") for row in rows)
    del held["rescue"]
    return held


async def test_an_idle_worker_holds_three_connections(
    make_worker: MakeWorker, db: asyncpg.Connection, schema: str
) -> None:
    """Each has a name that shows its purpose."""

    async def three_are_open() -> bool:
        return sum((await connections(db, schema)).values()) >= 3

    async with make_worker(nothing).start():
        await wait_until(three_are_open, description="the heartbeat to connect")
        held = await connections(db, schema)

    assert Counter({"fetch": 1, "listen": 1, "heartbeat": 1}) == held


async def test_a_worker_that_does_not_listen_holds_one_less(
    make_worker: MakeWorker, db: asyncpg.Connection, schema: str
) -> None:
    """It is meant for use behind a pooler."""

    async def two_are_open() -> bool:
        return sum((await connections(db, schema)).values()) >= 2

    async with make_worker(nothing, listen=False).start():
        await wait_until(two_are_open, description="the heartbeat to connect")
        held = await connections(db, schema)

    assert Counter({"fetch": 1, "heartbeat": 1}) == held


async def test_neither_a_worker_nor_an_add_queries_the_catalog_for_types(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a connection would query the catalog before its first array of a type, which takes long."""
    asked: list[str] = []
    introspect = asyncpg.Connection._introspect_types  # pyright: ignore[reportPrivateUsage]

    async def note(connection: asyncpg.Connection, types: Any, timeout: Any) -> Any:
        asked.append(connection.get_settings().application_name)
        return await introspect(connection, types, timeout)

    @task(max_attempts=1)
    async def fail() -> None:
        raise ValueError

    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", note)
    async with make_worker(nothing, fail).start():
        for ended, queue in enumerate([None, "q", None], 1):
            await client.add_job(nothing, queue=queue)
            await seen.wait_for(JobCompleted, ended)
        await client.add_jobs([nothing.job()] * 2)
        for _ in range(2):
            await client.add_job(nothing, job_key="k", run_at=datetime(2100, 1, 1, tzinfo=UTC))
        await client.add_job(fail)
        await seen.wait_for(JobDiscarded)

    assert [] == asked


async def test_a_busy_worker_holds_four_and_the_pool_on_demand(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """Only handlers that request a connection use one, up to `pool_size`."""
    leave = asyncio.Event()

    @task
    async def wait() -> None:
        await leave.wait()

    @task
    async def ask(ctx: JobContext) -> None:
        async with ctx.connection() as connection:
            await connection.execute("select")

    async with make_worker(nothing, wait, ask, concurrency=20, pool_size=3).start():
        await client.add_jobs([wait.job()] * 8)
        await seen.wait_for(JobStarted, 8)
        await client.add_job(nothing)
        await seen.wait_for(JobCompleted)
        without_pool = await connections(db, schema)
        await client.add_jobs([ask.job()] * 12)
        await seen.wait_for(JobCompleted, 13)
        with_pool = await connections(db, schema)
        leave.set()

    assert (
        Counter({"fetch": 1, "listen": 1, "heartbeat": 1, "settle": 1, "client": without_pool["client"]})
        == without_pool
    )
    assert 1 <= with_pool["handlers"] <= 3


async def test_a_worker_that_becomes_idle_again_holds_three(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fourth one, for settling, is closed."""
    monkeypatch.setattr(completer, "IDLE_S", 0.05)

    async def three_are_left() -> bool:
        held = await connections(db, schema)
        del held["client"]
        return Counter({"fetch": 1, "listen": 1, "heartbeat": 1}) == held

    async with make_worker(nothing).start():
        await client.add_job(nothing)
        await seen.wait_for(JobCompleted)
        await wait_until(three_are_left, description="the connection for settling to be closed")


async def test_the_start_line_names_the_sum(make_worker: MakeWorker, seen: Seen) -> None:
    """Administrators size `max_connections` by it."""
    async with make_worker(nothing, pool_size=7).start(), make_worker(nothing, listen=False).start():
        pass

    assert [(4, 7), (3, 5)] == [(event.connections, event.pool_size) for event in seen.of(WorkerStarted)]


async def test_handlers_that_wait_for_more_connections_than_there_are_end_in_an_error_and_not_in_a_deadlock(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Each has one and waits for another. Without a limit all of them would wait for ever."""
    both_hold_one = asyncio.Barrier(2)

    @task
    async def want_two(ctx: JobContext) -> None:
        async with ctx.connection():
            await both_hold_one.wait()
            async with ctx.connection():
                pass

    await client.add_jobs([want_two.job()] * 2)
    await make_worker(want_two, concurrency=2, pool_size=2, pool_wait=0.1).run_once()
    errors = [event.error.partition(":")[0] for event in seen.of(JobRetried)]

    assert "PoolExhausted" in errors


async def test_more_handlers_than_connections_take_turns(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """Waiting for a connection is the normal case; only waiting for too long is an error."""

    @task
    async def ask(ctx: JobContext) -> None:
        await ctx.query("select pg_sleep(0.002)")

    await client.add_jobs([ask.job()] * 30)
    await make_worker(ask, concurrency=30, pool_size=2).run_once()

    assert 30 == len(seen.of(JobCompleted))
