"""The reporter calls `on_discarded` once a job is discarded, and survives each of its errors."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from asyncq import Client, Discard, Event, task
from asyncq.domain.events import JobCompleted, JobDiscarded, ObserverFailed, WorkerStopped
from asyncq.engine import supervisor
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen


@task
async def nothing() -> None:
    """The least job."""


async def test_on_failed_is_called_with_the_event_when_the_last_attempt_has_failed(
    client: Client, make_worker: MakeWorker
) -> None:
    """Attempts that are retried do not count."""
    told: list[Any] = []

    @task(max_attempts=2, retry=[0], on_discarded=told.append)
    async def fail() -> None:
        raise OSError("broken")

    added = await client.add_job(fail)
    await make_worker(fail).run_once()

    assert [(JobDiscarded, added.id, 2)] == [(type(event), event.job_id, event.attempt) for event in told]
    assert told[0].error.startswith("OSError: broken")


async def test_on_failed_is_called_after_a_discard(client: Client, make_worker: MakeWorker) -> None:
    """The job is discarded at once."""
    told: list[Any] = []

    @task(on_discarded=told.append)
    async def discard() -> None:
        raise Discard("no use")

    await client.add_job(discard)
    await make_worker(discard).run_once()

    assert 1 == len(told)


async def test_an_async_on_failed_is_waited_for_at_the_stop(client: Client, make_worker: MakeWorker) -> None:
    """It may be the last thing that `run_once` does: cut off, the alarm of the user would never be sent."""
    told: list[str] = []

    async def tell(event: Event) -> None:
        for _ in range(50):
            await asyncio.sleep(0.001)
        told.append(type(event).__name__)

    @task(max_attempts=1, on_discarded=tell)
    async def fail() -> None:
        raise OSError

    await client.add_job(fail)
    await make_worker(fail).run_once()

    assert ["JobDiscarded"] == told


async def test_an_on_discarded_that_hangs_does_not_keep_the_worker_from_stopping(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clean-up has a limit."""
    monkeypatch.setattr(supervisor, "CANCEL_S", 0.1)
    ends: list[str] = []

    async def hang(event: Event) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("cancelled")

    @task(max_attempts=1, on_discarded=hang)
    async def fail() -> None:
        raise OSError

    await client.add_job(fail)
    await make_worker(fail).run_once()

    assert (["cancelled"], 1) == (ends, len(seen.of(WorkerStopped)))


def throw(error: BaseException) -> Callable[[Event], None]:
    """A function that raises."""

    def raise_it(event: Event) -> None:
        raise error

    return raise_it


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), SystemExit(1), asyncio.CancelledError(), GeneratorExit()],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("is_async", [False, True])
async def test_an_exception_of_on_discarded_is_reported_and_ends_nothing(
    client: Client, make_worker: MakeWorker, seen: Seen, error: BaseException, is_async: bool
) -> None:
    """A CancelledError would otherwise look like a cancellation of the whole worker, and end it silently."""

    async def raise_later(event: Event) -> None:
        await asyncio.sleep(0)
        raise error

    @task(max_attempts=1, on_discarded=raise_later if is_async else throw(error))
    async def fail() -> None:
        raise OSError

    async with make_worker(fail, nothing).start():
        await client.add_job(fail)
        failed = await seen.wait_for(ObserverFailed)
        added = await client.add_job(nothing)
        await seen.wait_for(JobCompleted)

    assert ("on_discarded of fail", "JobDiscarded") == (failed.observer, failed.event)
    assert failed.error.startswith(f"{type(error).__name__}: ")
    assert [added.id] == seen.ids(JobCompleted)


async def test_the_last_line_counts_the_jobs(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """The line has completed jobs and failed attempts."""

    @task(max_attempts=2, retry=[0])
    async def fail() -> None:
        raise OSError

    await client.add_job(fail)
    for _ in range(3):
        await client.add_job(nothing)
    await make_worker(fail, nothing).run_once()
    last = seen.of(WorkerStopped)[0]

    assert (3, 2, 0, 0) == (last.completed, last.failed, last.returned, last.stuck)
