"""Events have their exception while observers are called, and keep no frame alive after that."""

import asyncio
import copy
import gc
import logging
import pickle
import traceback
import weakref
from datetime import timedelta

import anyio
import pytest

from asyncq import Client, CronItem, Discard, Event, JobContext, JobDiscarded, RetryAfter, TimeDigest, task
from asyncq.domain.events import CronItemFailed, ErrorIgnored, JobCancelled, JobEvent, JobRetried, ObserverFailed
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen
from tests.support.waiting import wait_until


class Work:
    """A value that a handler works on."""


class Exceptions:
    """An observer that notes the functions in the traceback of each exception."""

    def __init__(self) -> None:
        self.seen: list[tuple[type[Event], type[BaseException] | None, set[str]]] = []

    def __call__(self, event: Event) -> None:
        error = event.exception
        if error is not None:
            frames = {frame.name for frame in traceback.extract_tb(error.__traceback__)}
            self.seen.append((type(event), type(error), frames))

    def of(self, kind: type[Event]) -> list[tuple[type[BaseException] | None, set[str]]]:
        """Those of a type of events."""
        return [(error, frames) for event, error, frames in self.seen if event is kind]


async def test_the_events_of_failures_carry_the_exception(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """It includes the traceback, by whose frames error trackers group."""

    @task(max_attempts=1)
    async def fail() -> None:
        raise LookupError("x")

    @task
    async def retry() -> None:
        raise RetryAfter(60)

    @task(max_attempts=1)
    def fail_in_thread(number: int) -> None:
        raise OSError("x")

    @task
    async def discard() -> None:
        raise Discard("x")

    exceptions = Exceptions()
    for job in (fail.job(), retry.job(), fail_in_thread.job(1), discard.job()):
        await client.add_job(job)
    misfit = await client.add_job("fail_in_thread", {"number": "one"}, max_attempts=1)
    await make_worker(fail, retry, fail_in_thread, discard, observers=[exceptions]).run_once()
    failed = dict(exceptions.of(JobDiscarded))

    assert "fail" in failed[LookupError]
    assert "fail_in_thread" in failed[OSError]
    assert "discard" in failed[Discard]
    assert ["ValidationError"] == [kind.__name__ for kind in failed if kind not in {LookupError, OSError, Discard}]
    assert misfit.id in seen.ids(JobDiscarded)
    assert [RetryAfter] == [kind for kind, _ in exceptions.of(JobRetried)]
    assert {None} == {event.exception for event in seen.events}


async def test_an_event_that_is_kept_keeps_no_frame(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frames keep the values of a handler alive; they are freed at once, without the garbage collector."""
    monkeypatch.setattr(logging.getLogger("asyncq"), "disabled", True)  # Here, pytest keeps all records.
    kept: list[weakref.ref[Work]] = []

    @task(max_attempts=1)
    async def fail(ctx: JobContext) -> None:
        work = Work()
        kept.append(weakref.ref(work))
        raise LookupError("x")

    exceptions = Exceptions()
    await client.add_job(fail)
    gc.disable()
    try:
        await make_worker(fail, observers=[exceptions]).run_once()
        left = [ref() for ref in kept]
    finally:
        gc.enable()

    assert 1 == len(exceptions.of(JobDiscarded)) == len(seen.of(JobDiscarded))
    assert [None] == left


async def test_on_failed_has_the_exception_for_as_long_as_it_runs(client: Client, make_worker: MakeWorker) -> None:
    """A program can report it there."""
    events: list[JobDiscarded] = []
    reported: list[BaseException | None] = []

    async def report(event: JobDiscarded) -> None:
        await asyncio.sleep(0)
        events.append(event)
        reported.append(event.exception)

    @task(max_attempts=1, on_discarded=report)
    async def fail() -> None:
        raise LookupError("x")

    await client.add_job(fail)
    await make_worker(fail).run_once()

    assert [LookupError] == [type(error) for error in reported]
    assert [None] == [event.exception for event in events]


async def test_other_events_of_the_code_of_a_program_carry_the_exception(
    client: Client, make_worker: MakeWorker
) -> None:
    """It may be of a cancelled handler, an error after the commit, an observer, or a recurring item's function."""
    begun = anyio.Event()

    @task
    async def cancelled() -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            raise LookupError("x")

    @task
    async def late(ctx: JobContext) -> None:
        async with ctx.connection() as connection, connection.transaction():
            await ctx.complete(connection=connection)
        raise OSError("x")

    def due(digest: TimeDigest) -> bool:
        raise ArithmeticError("x")

    def observe(event: Event) -> None:
        if isinstance(event, ErrorIgnored):
            raise ValueError("x")

    exceptions = Exceptions()
    item = CronItem("late", due, fill=timedelta(minutes=5))
    worker = make_worker(cancelled, late, crontab=[item], observers=[exceptions, observe])
    async with worker.start():
        await client.add_job(late)
        added = await client.add_job(cancelled)
        await begun.wait()
        await client.admin.cancel_jobs([added.id])
        kinds = (JobCancelled, ErrorIgnored, ObserverFailed, CronItemFailed)
        await wait_until(lambda: all(map(exceptions.of, kinds)), description="all happened")

    assert [LookupError, OSError, ValueError, ArithmeticError] == [exceptions.of(kind)[0][0] for kind in kinds]


async def test_an_event_with_an_exception_is_copied_without_it(client: Client, make_worker: MakeWorker) -> None:
    """Copies, pickles and comparisons use only the fields."""
    copies: list[JobEvent] = []

    def observe(event: Event) -> None:
        if isinstance(event, JobDiscarded):
            assert event.exception is not None
            copies.extend([pickle.loads(pickle.dumps(event)), copy.deepcopy(event), copy.copy(event), event])

    @task(max_attempts=1)
    async def fail() -> None:
        raise LookupError("x")

    await client.add_job(fail)
    await make_worker(fail, observers=[observe]).run_once()

    assert 4 == len(copies)
    assert [copies[-1]] * 4 == copies
    assert {None} == {event.exception for event in copies}
