"""Fixtures of all tests: one real server for the run, a schema of its own for each test, leak checks around each."""

from __future__ import annotations

import asyncio
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
async def schema(dsn: str) -> AsyncIterator[str]:
    """The name of an installed schema that only this test uses."""
    async with temporary_schema(dsn) as name:
        yield name


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
async def no_leaks(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """After each async test: no asyncio task, no heartbeat thread, no connection and no claim is left.

    A test that leaves something on purpose (a killed worker, say) is marked `leaves_something`.
    """
    if not asyncio.iscoroutinefunction(getattr(request, "function", None)):
        yield
        return
    before = asyncio.all_tasks()
    yield
    if request.node.get_closest_marker("leaves_something"):
        return
    left = [task for task in asyncio.all_tasks() - before if not task.done()]
    beating = [thread.name for thread in threading.enumerate() if thread.name == "asyncq heartbeat"]

    assert (left, beating) == ([], [])
