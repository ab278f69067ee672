"""Observers: told what they asked for, and harmless to everybody else."""

import asyncio
import logging
from typing import Any

import pytest

from asyncq.domain.events import (
    Event,
    JobsReturned,
    ListenConnected,
    ListenLost,
    ObserverFailed,
    WorkerLost,
    observer,
)
from asyncq.engine.observers import Observers

LOST = WorkerLost(worker_id=1, running=2)


async def test_an_observer_is_told_the_types_that_it_wants_and_those_below_them() -> None:
    """`wants = [JobEvent]` stands for all that happens to jobs."""
    told: list[Event] = []
    observers = Observers([observer(WorkerLost)(told.append)])
    observers.emit(LOST)
    observers.emit(ListenConnected(channel="x", attempt=1))

    assert [LOST] == told


async def test_a_plain_function_is_told_everything() -> None:
    """The least to write."""
    told: list[Event] = []
    Observers([told.append]).emit(LOST)

    assert [LOST] == told


@pytest.mark.parametrize("error", [ValueError("bad day"), asyncio.CancelledError("bad day")])
async def test_an_observer_that_fails_is_reported_and_the_others_are_told(error: BaseException) -> None:
    """A metrics library with a bad day must not cost a job; the result of a task that was cancelled cancels nobody."""
    told: list[Any] = []

    def fail(event: Event) -> None:
        if not isinstance(event, ObserverFailed):
            raise error

    Observers([fail, told.append]).emit(LOST)

    assert {LOST, "bad day"} == {str(event.error) if isinstance(event, ObserverFailed) else event for event in told}


async def test_an_observer_that_fails_on_the_report_of_a_failure_too_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The last resort; without it, it would be told of its own failures for ever."""

    def fail(event: Event) -> None:
        raise ValueError("always")

    Observers([fail]).emit(LOST)

    assert ["an observer failed on ObserverFailed"] == [record.message for record in caplog.records]
    assert logging.ERROR == caplog.records[0].levelno


async def test_what_nobody_wants_is_known_before_it_is_built() -> None:
    """Events of single jobs are only built when somebody asked."""
    observers = Observers([observer(ListenLost)(print)])

    assert (True, False) == (observers.wanted(ListenLost), observers.wanted(JobsReturned))
