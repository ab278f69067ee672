"""Observers get the events that they asked for, and their errors affect nobody else."""

import asyncio
import functools
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from asyncq import ConfigurationError, Worker, task
from asyncq.domain.events import (
    Event,
    JobsReturned,
    ListenConnected,
    ListenLost,
    ObserverFailed,
    WorkerLost,
    observer,
)
from asyncq.engine.base.observers import Observers
from asyncq.log.observer import LogObserver
from asyncq.testing import run_due
from tests.support.ids import written

LOST = WorkerLost(worker_id=1, running=2)


@task
async def unused() -> None:
    """A worker needs a task."""


async def test_an_observer_gets_the_types_that_it_wants_and_their_subclasses() -> None:
    """`wants = [JobEvent]` includes all events of jobs."""
    told: list[Event] = []
    observers = Observers([observer(WorkerLost)(told.append)])
    observers.emit(LOST)
    observers.emit(ListenConnected(channel="x", attempt=1))

    assert [LOST] == told


async def test_a_plain_function_gets_every_event() -> None:
    """It is the simplest observer."""
    told: list[Event] = []
    Observers([told.append]).emit(LOST)

    assert [LOST] == told


@pytest.mark.parametrize("error", [ValueError("bad day"), asyncio.CancelledError("bad day")])
async def test_an_observer_that_fails_is_reported_and_the_others_get_the_event(error: BaseException) -> None:
    """A failing metrics library must not cost a job. A result of a cancelled task must not cancel others."""
    told: list[Any] = []

    def fail(event: Event) -> None:
        raise error

    Observers([fail, told.append]).emit(LOST)

    said = f"{type(error).__name__}: bad day"
    assert {LOST, said} == {event.error if isinstance(event, ObserverFailed) else event for event in told}


async def test_an_observer_does_not_get_the_report_of_its_own_failure(caplog: pytest.LogCaptureFixture) -> None:
    """One that fails always would fail on that too, and each event would be two errors in the log."""
    told: list[Event] = []

    def fail(event: Event) -> None:
        told.append(event)
        raise ValueError("always")

    Observers([LogObserver(), fail]).emit(LOST)

    assert [LOST] == told
    assert ["failed on WorkerLost"] == [
        written for record in caplog.records for written in re.findall("failed on [A-Za-z]+", record.message)
    ]


@pytest.mark.parametrize(("number", "failed_on"), [(1, ["WorkerLost"]), (2, ["ObserverFailed", "ObserverFailed"])])
async def test_a_failure_that_no_observer_can_report_is_logged(
    caplog: pytest.LogCaptureFixture, number: int, failed_on: list[str]
) -> None:
    """The log is the last resort if there is no other observer, or if the others fail on the report too."""

    def make() -> Callable[[Event], None]:
        def fail(event: Event) -> None:
            raise ValueError("always")

        return fail

    Observers([make() for _ in range(number)]).emit(LOST)

    assert [f"an observer failed on {kind}" for kind in failed_on] == [record.message for record in caplog.records]
    assert {logging.ERROR} == {record.levelno for record in caplog.records}


async def test_an_event_that_no_observer_wants_is_not_built() -> None:
    """Events of single jobs are built only if an observer wants them."""
    observers = Observers([observer(ListenLost)(print)])

    assert (True, False) == (observers.wanted(ListenLost), observers.wanted(JobsReturned))


async def awaited(event: Event) -> None:
    """Do nothing; nobody would await it."""


async def stepped(event: Event) -> AsyncIterator[None]:
    """Yield nothing; nobody would iterate it."""
    yield


def yielding(event: Event) -> Iterator[None]:
    """Yield nothing; nobody would iterate it."""
    yield


class Watch:
    """An observer of a user's, whose `wants` and whose call may be anything."""

    wants: Any = (Event,)

    def __call__(self, event: Any, /) -> None:
        """Take one event."""

    async def method(self, event: Event) -> None:
        """Do nothing; nobody would await it."""


class AsyncWatch(Watch):
    """An observer whose call nobody would await."""

    async def __call__(self, event: Any, /) -> None:  # type: ignore[override]
        """Take one event."""


def wanting(wants: Any) -> Watch:
    """An observer that wants something."""
    watch = Watch()
    watch.wants = wants
    return watch


@pytest.mark.parametrize(
    "given",
    [awaited, functools.partial(awaited), Watch().method, AsyncWatch(), stepped, yielding],
    ids=["function", "partial", "method", "call", "async generator", "generator"],
)
def test_an_observer_that_would_never_run_is_refused_early(given: Any) -> None:
    """It would be called, and do nothing but warn that it was never awaited."""
    with pytest.raises(ConfigurationError, match="is async, or a generator: it would not run"):
        Worker("postgresql://h", [], observers=[given])
    with pytest.raises(ConfigurationError, match="is async, or a generator: it would not run"):
        observer(WorkerLost)(given)


@pytest.mark.parametrize("given", [7, None, "note", Watch, dict], ids=written)
def test_an_object_that_cannot_be_called_is_no_observer(given: Any) -> None:
    """A class would make an object of each event."""
    with pytest.raises(ConfigurationError, match="an observer is a function, or a callable object, got "):
        Worker("postgresql://h", [], observers=[given])


@pytest.mark.parametrize("wants", [7, None, "WorkerLost", [int], WorkerLost], ids=written)
def test_an_observer_that_wants_no_events_is_refused(wants: Any) -> None:
    """The worker would otherwise fail at its first event."""
    with pytest.raises(ConfigurationError, match="types of events, got "):
        Worker("postgresql://h", [], observers=[wanting(wants)])


@pytest.mark.parametrize("given", [print, 7, "note", b"note", None], ids=written)
async def test_observers_are_a_list(given: Any) -> None:
    """A single function is an easy mistake, and the letters of a text are no observers."""
    with pytest.raises(ConfigurationError, match=r"observers must be a list of observers, got .*; write observers=\["):
        Worker("postgresql://h", [], observers=given)
    with pytest.raises(ConfigurationError, match="observers must be a list of observers"):
        await run_due("postgresql://h", [], observers=given)


def test_observers_of_any_usable_kind_may_be_in_any_collection() -> None:
    """Only unusable observers are refused."""
    told: list[Event] = []
    Worker("postgresql://h", [unused], observers=(item for item in (print, Watch())))  # type: ignore[arg-type]
    Observers([functools.partial(told.append), Watch(), wanting({WorkerLost})]).emit(LOST)

    assert [LOST] == told
