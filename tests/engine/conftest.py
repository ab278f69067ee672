"""Fixtures of the engine's tests: workers, and the events that they emit."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg
import pytest

from asyncq import Task, Worker, task
from asyncq.engine.settle import completer
from asyncq.testing import MovableClock
from tests.support.effects import Effects
from tests.support.seen import Seen
from tests.support.stage import START, Stage
from tests.support.write_gate import Gate

MakeWorker = Callable[..., Worker]


@pytest.fixture
async def effects(db: asyncpg.Connection, schema: str) -> AsyncIterator[Effects]:
    """The table in which handlers write what they did."""
    made = Effects(db, schema)
    await made.create()
    yield made
    await made.drop()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """A closed gate before every write."""
    made = Gate()
    monkeypatch.setattr(completer.store, "complete", made.before(completer.store.complete))
    monkeypatch.setattr(completer.store, "settle_rest", made.before(completer.store.settle_rest))
    return made


async def unused() -> None:
    """A worker needs a task."""


@pytest.fixture
def make_worker(dsn: str, schema: str, seen: Seen) -> MakeWorker:
    """Make workers on the test's schema whose events go to `seen`.

    They poll once a minute: notifications must wake them.
    """

    def make(*tasks: Task[...], **options: Any) -> Worker:
        observers = [seen, *options.pop("observers", ())]
        return Worker(dsn, tasks or [task(unused)], schema=schema, observers=observers, **{"poll": 60, **options})

    return make


@pytest.fixture
async def stage(dsn: str, schema: str, db: asyncpg.Connection, seen: Seen) -> AsyncIterator[Stage]:
    """A stage whose clock shows `START`."""
    async with MovableClock(dsn, schema) as clock:
        await clock.set(START)
        yield Stage(dsn, schema, clock, db, seen)
