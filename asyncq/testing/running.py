"""Runs due jobs inside a test, until none is runnable, and reports their ends."""

import copy
import functools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import msgspec

from asyncq.domain.events import (
    Event,
    JobCompleted,
    JobDiscarded,
    JobEvent,
    JobRetried,
    JobSnoozed,
    JobStarted,
    Observer,
    WorkerStopping,
)
from asyncq.domain.job import is_awaitable
from asyncq.domain.limit import Queue
from asyncq.domain.outcome import Snoozed
from asyncq.domain.task import Task
from asyncq.engine.base.observers import listed
from asyncq.engine.run.verdict import outcome_of
from asyncq.store.statements import DEFAULT_SCHEMA
from asyncq.worker import Worker


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """The report of `run_due`: job ids in the order of events. A job that ran twice is listed twice.

    Attributes:
        started: All jobs whose run began.
        tasks: The names of their tasks, in the same order.
        completed: Jobs whose handler returned; their rows are deleted.
        retried: Jobs that failed and wait for another attempt.
        discarded: Discarded jobs: no attempt is left, or the handler raised `Discard`.
        snoozed: Jobs whose handler raised `Snooze`.
        held_back: Task -> how many of its due jobs may not start, because of a limit, a rate or a pause; to 1,000.
        errors: Job id -> the text of its last error in this run, with the traceback, as in `last_error`.
        events: The same as events, which also have the task, the attempt, the wait until the next one, the duration.
    """

    started: list[int]
    tasks: list[str]
    completed: list[int]
    retried: list[int]
    discarded: list[int]
    snoozed: list[int]
    held_back: dict[str, int]
    errors: dict[int, str]
    events: list[JobEvent]

    def __repr__(self) -> str:
        """Ids, and the first line of each error, as a failed assertion shows them."""
        groups = {name: getattr(self, name) for name in ("completed", "retried", "discarded", "snoozed")}
        shown = [f"{name}={ids}" for name, ids in groups.items() if ids]
        if self.held_back:
            shown.append(f"held_back={self.held_back}")
        if self.errors:
            shown.append(f"errors={ {job_id: text.partition(chr(10))[0] for job_id, text in self.errors.items()} }")
        return f"Ran({', '.join(shown) or 'nothing'})"


def make_worker(
    dsn: str, tasks: Iterable[Task[...] | Queue], *, schema: str = DEFAULT_SCHEMA, **options: Any
) -> Worker:
    """Make a worker that accepts a moved clock, with the arguments and errors of `Worker`; otherwise it is a real one.

    Returns:
        The worker, to run with `start()`, `run()` or `run_once()`.

    Beside a service under test, with anyio's plugin for pytest:

        async def test_a_job_runs_at_its_time(dsn: str, schema: str, client: Client) -> None:
            async with MovableClock(dsn, schema) as clock, make_worker(dsn, [ring], schema=schema).start():
                await client.add_job(ring, run_at=await clock.now() + timedelta(hours=8))
                await clock.move(timedelta(hours=8))
                await rung.wait()
    """
    worker = Worker(dsn, tasks, schema=schema, **options)
    worker._allow_test_clock = True  # pyright: ignore[reportPrivateUsage]
    return worker


async def run_due(
    dsn: str,
    tasks: Iterable[Task[...] | Queue],
    *,
    schema: str = DEFAULT_SCHEMA,
    raise_errors: bool = False,
    observers: Sequence[Observer | Callable[[Event], None]] = (),
    **options: Any,
) -> Ran:
    """Run due jobs inside a test, and jobs that become due meanwhile, until no job is runnable.

    It is a real worker: handlers run concurrently, and retries wait for their time. To run those, move the clock and
    call this again.

    Args:
        dsn: The database.
        tasks: The tasks; jobs of other tasks are not run.
        schema: The schema's name; `asyncq` by default.
        raise_errors: Whether to raise the first error of a handler after all jobs have run; False by default: errors
            are in the report.
        observers: Receive events, as for `Worker`.
        **options: As for `Worker`: `concurrency=1` runs one job after the other.

    Returns:
        The report.

    Raises:
        ConfigurationError: An option is not valid.
        StoreError: The database cannot be used.
        Exception: With `raise_errors`, the exception of the first failed handler, with a note that names its job.
            An AssertionError if a job failed before its handler was called (its payload did not decode).

    If cancelled, the worker stops in order first, as `Worker.run_once` does.

    In pytest, with anyio's plugin:

        async def test_a_report_is_sent(dsn: str, schema: str, client: Client) -> None:
            added = await client.add_job(send_report.job(day="2026-11-20"))

            ran = await run_due(dsn, [send_report], schema=schema)

            assert ran.completed == [added.id]
    """
    gathered = _Gathered()
    raised: list[Exception] = []
    # A task that is named twice is still one task.
    served = {id(item): _recording(item, raised) for item in tasks}.values() if raise_errors else tasks
    await make_worker(dsn, served, schema=schema, observers=[gathered, *listed(observers)], **options).run_once()
    ran = gathered.report()
    if raise_errors and (ran.retried or ran.discarded):
        raise _first_error(ran, raised)
    return ran


class _Gathered:
    """An observer that stores the events of jobs."""

    wants = (JobStarted, JobCompleted, JobRetried, JobDiscarded, JobSnoozed, WorkerStopping)

    def __init__(self) -> None:
        self._events: list[JobEvent] = []
        self._held_back: dict[str, int] = {}

    def __call__(self, event: JobEvent | WorkerStopping, /) -> None:
        if isinstance(event, WorkerStopping):
            self._held_back = event.held_back
        else:
            self._events.append(event)

    def report(self) -> Ran:
        return Ran(
            started=self._ids(JobStarted),
            tasks=[event.task for event in self._events if isinstance(event, JobStarted)],
            completed=self._ids(JobCompleted),
            retried=self._ids(JobRetried),
            discarded=self._ids(JobDiscarded),
            snoozed=self._ids(JobSnoozed),
            held_back=self._held_back,
            errors={
                event.job_id: event.error for event in self._events if isinstance(event, JobRetried | JobDiscarded)
            },
            events=self._events,
        )

    def _ids(self, kind: type[JobEvent]) -> list[int]:
        return [event.job_id for event in self._events if isinstance(event, kind)]


def _recording(task: Task[...] | Queue, raised: list[Exception]) -> Task[...] | Queue:
    """Copy a task with a handler that records its exceptions; the outcome of the job is the same."""
    if isinstance(task, Queue):
        return task
    handler = task.handler

    async def noted(answer: Awaitable[Any]) -> Any:
        try:
            return await answer
        except Exception as error:
            raised.append(error)
            raise

    @functools.wraps(handler)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            answer = handler(*args, **kwargs)
        except Exception as error:
            raised.append(error)
            raise
        return noted(answer) if is_awaitable(answer) else answer

    recording = copy.copy(task)
    recording.handler = call
    return recording


def _first_error(ran: Ran, raised: Sequence[Exception]) -> Exception:
    said = "; ".join(f"job {job_id} failed: {text.partition(chr(10))[0]}" for job_id, text in ran.errors.items())
    failures = (error for error in raised if not isinstance(outcome_of(error, interrupted=False), Snoozed))
    error = next(failures, None)
    if error is None:
        return AssertionError(said)
    error.add_note(said)
    return error
