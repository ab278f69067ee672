"""Fixtures of all tests: one real server for the run, a schema of its own for each test, leak checks around each."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import logging
import os
import tempfile
import threading
from collections.abc import AsyncIterator, Generator, Iterator

import anyio
import asyncpg
import pytest

from asyncq import Client
from asyncq.server import Server, ServerBinariesNotFound, start
from tests.support import time_limit
from tests.support.disk import roomy_folder
from tests.support.landlord import Landlord, grow_up, landlord_of
from tests.support.seen import Seen
from tests.support.session import KeptConnections
from tests.support.waiting import LIMIT_S

pytest_timeout_set_timer = time_limit.pytest_timeout_set_timer
pytest_runtest_teardown = time_limit.pytest_runtest_teardown

SERVER = pytest.StashKey[Server]()
# The files of the longest tests. They run first: else one of them may run alone at the end.
LONGEST = (
    "tests/engine/liveness/test_leases.py",
    "tests/engine/liveness/test_outages.py",
    "tests/engine/liveness/test_return_window.py",
    "tests/engine/test_shutdown_load.py",
    "tests/examples/test_demo.py",
    "tests/examples/test_fastapi.py",
    "tests/sql/test_life_model.py",
    "tests/store/test_partition_stress.py",
    "tests/typing/test_typing.py",
    "tests/upgrades/test_moved.py",
)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Start the server of an xdist worker before the collection, during which it becomes as old as `grow_up` wants."""
    if hasattr(session.config, "workerinput") and not os.environ.get("ASYNCQ_TEST_DATABASE_URL"):
        with contextlib.suppress(ServerBinariesNotFound):  # those that need none can run
            session.config.stash[SERVER] = _start()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop the server, which no test may have needed."""
    if server := session.config.stash.get(SERVER, None):
        server.stop()


def _start() -> Server:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", roomy_folder())
        return start(fsync=False, settings={"max_wal_size": "128MB"})


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spare the garbage collector the thousands of tests, which live as long as the process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest files first, and refuse parameter names that contain a memory address.

    Such names differ between processes, so nobody can select them.
    """
    if unstable := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"give these cases lasting names, with ids=written of tests/support/ids.py: {unstable}")
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """Asyncio's own loop, with blocked-loop warnings off: speed is no test."""
    return ("asyncio", {"use_uvloop": False})


@pytest.fixture(scope="session")
def dsn(request: pytest.FixtureRequest) -> Iterator[str]:
    """The DSN of a real server: ASYNCQ_TEST_DATABASE_URL, or one that is started; never DATABASE_URL."""
    if given := os.environ.get("ASYNCQ_TEST_DATABASE_URL"):
        yield given
        return
    with request.config.stash.get(SERVER, None) or _start() as server:
        asyncio.run(grow_up(server.dsn))
        yield server.dsn


@pytest.fixture(scope="session")
def landlord(dsn: str) -> Iterator[Landlord]:
    """The maker of the tests' schemas."""
    with landlord_of(dsn) as made:
        yield made


@pytest.fixture
async def schema(landlord: Landlord, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """The name of an installed schema that only this test uses; at its end it is whole, and nothing in it is held."""
    async with landlord.schema() as name:
        yield name
        if _may_leave(request):
            return
        left = ["not looked yet"]
        # A connection that was closed is gone from the server's list a moment later.
        with anyio.move_on_after(LIMIT_S):
            while left := await landlord.connections(name) or await landlord.claims(name):
                await asyncio.sleep(0.005)

        assert left == []


@pytest.fixture(scope="session")
async def kept_connections(dsn: str) -> AsyncIterator[KeptConnections]:
    """Connections for the tests themselves; they keep the event loop of all tests."""
    connections = KeptConnections(dsn)
    yield connections
    await connections.close()


@pytest.fixture
async def db(kept_connections: KeptConnections) -> AsyncIterator[asyncpg.Connection]:
    """A plain connection, to read the tables and to play the caller."""
    async with kept_connections.session("public") as opened:
        yield opened.connection


@pytest.fixture
async def client(dsn: str, schema: str) -> AsyncIterator[Client]:
    """An open client on the test's schema."""
    async with Client(dsn, schema=schema) as opened:
        yield opened


@pytest.fixture
def seen() -> Seen:
    """Keeps the events of the test's workers."""
    return Seen()


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """A command that ran in this process has sent all records to a stderr that is closed by the next test."""
    before, level = {*logging.root.handlers}, logging.root.level
    yield
    for handler in {*logging.root.handlers} - before:
        logging.root.removeHandler(handler)
    logging.root.setLevel(level)


@pytest.fixture(autouse=True)
def leak_check(request: pytest.FixtureRequest) -> None:
    """Around each async test: nothing runs on in this process."""
    if inspect.iscoroutinefunction(getattr(request, "function", None)):
        request.getfixturevalue("no_leaks")


@pytest.fixture
async def no_leaks(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """Check that no asyncio task and no heartbeat thread is left.

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
    """Whether it is the task in which anyio's plugin runs fixtures."""
    return getattr(task.get_coro(), "__qualname__", "").startswith("TestRunner.")


def _may_leave(request: pytest.FixtureRequest) -> bool:
    return request.node.get_closest_marker("leaves_something") is not None
