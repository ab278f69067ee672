"""Fixtures of the engine's tests: a worker with its events, faults to provoke, and nothing left behind afterwards."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg
import pytest

from asyncq import Task, Worker
from tests.engine.seen import Seen
from tests.waiting import wait_until

MakeWorker = Callable[..., Worker]


@pytest.fixture
def seen() -> Seen:
    """Keeps the events of the test's workers."""
    return Seen()


@pytest.fixture
def make_worker(dsn: str, schema: str, seen: Seen) -> MakeWorker:
    """Makes workers on the test's schema that tell `seen` everything. They hardly ever poll: events must wake them."""

    def make(*tasks: Task[...], **options: Any) -> Worker:
        observers = [seen, *options.pop("observers", ())]
        return Worker(dsn, tasks, schema=schema, observers=observers, **{"poll": 60, **options})

    return make


@pytest.fixture(autouse=True)
async def no_leaks(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """After each test: no asyncio task and no heartbeat thread is left."""
    before = asyncio.all_tasks()
    yield
    if request.node.get_closest_marker("leaves_something"):
        return
    left = [task for task in asyncio.all_tasks() - before if not (task.done() or _is_of_the_runner(task))]
    beating = [thread.name for thread in threading.enumerate() if thread.name == "asyncq heartbeat"]

    assert ([], []) == (left, beating)


def _is_of_the_runner(task: asyncio.Task[Any]) -> bool:
    return getattr(task.get_coro(), "__qualname__", "").startswith("TestRunner.")


@pytest.fixture(autouse=True)
async def nothing_is_left(request: pytest.FixtureRequest, db: asyncpg.Connection, schema: str) -> AsyncIterator[None]:
    """After each test: no claim, no locked queue, no worker and no connection is left in its schema."""
    yield
    if request.node.get_closest_marker("leaves_something"):
        return
    tables = f"""
        select
          (select count(*) from {schema}._jobs where locked_by is not null) as claims,
          (select count(*) from {schema}._queues where locked_by is not null) as locked_queues,
          (select count(*) from {schema}._workers) as workers"""
    others = "select application_name from pg_stat_activity where application_name like $1"

    async def none_is_open() -> bool:
        return not await db.fetch(others, rf"{schema}\ %")

    left = dict(await db.fetchrow(tables) or {})
    await wait_until(none_is_open, description="the workers' connections to be closed")

    assert {"claims": 0, "locked_queues": 0, "workers": 0} == left
