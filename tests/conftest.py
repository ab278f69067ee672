"""Fixtures of all tests: one real server for the run, a schema of its own for each test, leak checks around each."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from asyncq import Client
from asyncq.server import start
from asyncq.testing import temporary_schema


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """Asyncio's own loop, with blocked-loop warnings off: speed is no test."""
    return ("asyncio", {"use_uvloop": False})


@pytest.fixture(scope="session")
def dsn() -> Iterator[str]:
    """The DSN of a real server: ASYNCQ_TEST_DATABASE_URL, else one of our own; never DATABASE_URL."""
    if given := os.environ.get("ASYNCQ_TEST_DATABASE_URL"):
        yield given
        return
    with start(fsync=False) as server:
        yield server.dsn


@pytest.fixture
async def schema(dsn: str, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """The name of an installed schema that only this test uses; at its end no claim and no connection is left."""
    async with temporary_schema(dsn) as name:
        yield name
        if not _may_leave(request):
            await _nothing_left(dsn, name)


async def _nothing_left(dsn: str, schema: str) -> None:
    """A connection that was closed is gone from the server's list a moment later: so it is asked a few times."""
    connection = await asyncpg.connect(dsn, server_settings={"application_name": "leak check"})
    try:
        left: list[str] = []
        for _ in range(100):
            rows = await connection.fetch(LEFT.replace("asyncq", schema))
            left = [row["what"] for row in rows]
            if not left:
                break
            await asyncio.sleep(0.02)
    finally:
        await connection.close(timeout=5)

    assert left == []


@pytest.fixture
async def db(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """A plain connection, to look at the tables and to play the caller."""
    connection = await asyncpg.connect(dsn, server_settings={"application_name": "test"})
    yield connection
    await connection.close(timeout=5)


@pytest.fixture
async def client(dsn: str, schema: str) -> AsyncIterator[Client]:
    """An open client on the test's schema."""
    async with Client(dsn, schema=schema) as opened:
        yield opened


@pytest.fixture(autouse=True)
def leak_check(request: pytest.FixtureRequest) -> None:
    """Around each async test: nothing runs on in this process."""
    if inspect.iscoroutinefunction(getattr(request, "function", None)):
        request.getfixturevalue("no_leaks")


@pytest.fixture
async def no_leaks(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """After the test no asyncio task and no heartbeat thread is left.

    A test that leaves something on purpose (a killed worker, say) is marked `leaves_something`.
    """
    before = asyncio.all_tasks()
    yield
    if _may_leave(request):
        return
    left = [task for task in asyncio.all_tasks() - before if not task.done() and not _is_runner(task)]
    beating = [thread.name for thread in threading.enumerate() if thread.name == "asyncq heartbeat"]

    assert (left, beating) == ([], [])


def _is_runner(task: asyncio.Task[object]) -> bool:
    """Whether it is the task in which anyio's plugin runs the fixtures themselves."""
    return getattr(task.get_coro(), "__qualname__", "").startswith("TestRunner.")


def _may_leave(request: pytest.FixtureRequest) -> bool:
    return request.node.get_closest_marker("leaves_something") is not None


LEFT = """
select 'claim of job ' || id as what from asyncq._jobs where locked_by is not null
union all
select 'queue ' || name from asyncq._queues
union all
select 'worker ' || id from asyncq._workers
union all
select 'connection ' || application_name from pg_catalog.pg_stat_activity where application_name like 'asyncq %'
"""
