"""The executor: any end of a handler becomes an outcome, and the worker goes on."""

import asyncio
import contextvars
import functools
import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import anyio
import asyncpg
import msgspec
import pytest

from asyncq import Client, Discard, JobContext, JobState, RetryAfter, Snooze, task
from asyncq.domain.events import (
    Event,
    GraceExceeded,
    JobCompleted,
    JobDiscarded,
    JobInterrupted,
    JobRetried,
    JobSnoozed,
    JobStarted,
    ResultIgnored,
    TasksLeftBehind,
)
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen
from tests.support.waiting import wait_until


class Mute(Exception):
    """Its text cannot be had."""

    def __str__(self) -> str:
        raise ValueError("no words")


def recurse() -> None:
    """Never ends by itself."""
    recurse()


def cancel_myself() -> None:
    """Ask for the cancellation of the task that runs now."""
    current = asyncio.current_task()
    assert current is not None
    current.cancel()


def throw(error: BaseException) -> Callable[[], None]:
    """A function that raises."""

    def raise_it() -> None:
        raise error

    return raise_it


class NoDelay(RetryAfter):
    """A subclass that forgot its base."""

    def __init__(self) -> None:
        pass


class Delayed(RetryAfter):
    """A subclass that sets its own delay, without its base."""

    def __init__(self, delay_s: Any) -> None:
        self.delay_s = delay_s
        self.reason = "later"


class Napping(Snooze):
    """A subclass of Snooze with an unchecked delay."""

    def __init__(self, delay_s: Any) -> None:
        self.delay_s = delay_s


class Unspeakable(Exception):
    """Its text is a task that was cancelled."""

    def __str__(self) -> str:
        raise asyncio.CancelledError


OFFENDERS: dict[str, Callable[[], None]] = {
    "SystemExit": throw(SystemExit(3)),
    "GeneratorExit": throw(GeneratorExit()),
    "StopAsyncIteration": throw(StopAsyncIteration()),
    "CancelledError": throw(asyncio.CancelledError()),
    "RecursionError": recurse,
    "Mute": throw(Mute()),
    "BaseExceptionGroup": throw(BaseExceptionGroup("both", [SystemExit(1), ValueError("x")])),
    "ExceptionGroup": throw(ExceptionGroup("both", [OSError(1), ValueError("x")])),
    "Discard": throw(Discard(Mute())),  # type: ignore[arg-type]
    "RetryAfter": throw(RetryAfter(60, Mute())),  # type: ignore[arg-type]
    "AttributeError": throw(NoDelay()),
    "Unspeakable": throw(Unspeakable()),
    "ConfigurationError": throw(Delayed("soon")),
    "ConfigurationError: ": throw(Delayed(float("inf"))),
    "ConfigurationError: a": throw(Napping(float("nan"))),
    "ConfigurationError: a delay": throw(Napping(-1)),
}


@pytest.mark.parametrize("name", OFFENDERS)
async def test_any_exception_of_a_handler_fails_its_job_and_not_the_worker(
    client: Client, make_worker: MakeWorker, seen: Seen, name: str
) -> None:
    """One bad handler must never take the other jobs of the process with it."""

    @task(max_attempts=1)
    async def offend() -> None:
        OFFENDERS[name]()

    @task
    async def behave() -> None:
        pass

    bad = await client.add_job(offend)
    good = await client.add_job(behave, priority=1)
    await make_worker(offend, behave, concurrency=1).run_once()
    last_error = (await client.get_job(bad.id)).last_error or ""

    assert [good.id] == seen.ids(JobCompleted)
    assert [bad.id] == seen.ids(JobDiscarded) or [bad.id] == seen.ids(JobRetried)
    assert last_error.startswith(name)


@pytest.mark.parametrize(("kind", "told"), [(Delayed, JobRetried), (Napping, JobSnoozed)])
async def test_a_delay_that_a_subclass_sets_may_be_a_timedelta(
    client: Client, make_worker: MakeWorker, seen: Seen, kind: type[Delayed] | type[Napping], told: type[Event]
) -> None:
    """The base class accepts both.

    An unchecked one would be refused by the server, with its whole batch, again and again.
    """

    @task
    async def wait() -> None:
        raise kind(timedelta(minutes=5))

    added = await client.add_job(wait)
    async with make_worker(wait, grace=0).start():
        await seen.wait_for(told)
    job = await client.get_job(added.id)

    assert timedelta(minutes=4) < job.run_at - job.created_at < timedelta(minutes=6)


class Exploding(msgspec.Struct):
    """A payload whose making cancels itself."""

    number: int

    def __post_init__(self) -> None:
        raise asyncio.CancelledError


async def test_a_payload_that_raises_a_cancellation_fails_its_job_and_not_the_worker(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """No caller cancelled it."""

    @task
    async def explode(payload: Exploding) -> None:
        pass

    added = await client.add_job("explode", {"number": 1})
    await make_worker(explode).run_once()

    assert [added.id] == seen.ids(JobRetried)
    assert ((await client.get_job(added.id)).last_error or "").startswith("CancelledError")


async def test_a_keyboard_interrupt_that_is_no_ctrl_c_fails_the_job(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """While `run()` handles SIGINT, a KeyboardInterrupt is an error like any other."""

    @task(max_attempts=1)
    async def press() -> None:
        raise KeyboardInterrupt

    async def stop_after_it() -> None:
        await seen.wait_for(JobDiscarded)
        await worker.stop()

    added = await client.add_job(press)
    worker = make_worker(press)
    await asyncio.gather(worker.run(), stop_after_it())

    assert [added.id] == seen.ids(JobDiscarded)


async def test_a_keyboard_interrupt_in_a_worker_outside_the_main_thread_fails_the_job(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Ctrl-C interrupts the main thread only."""

    @task(max_attempts=1)
    async def press() -> None:
        raise KeyboardInterrupt

    added = await client.add_job(press)
    await anyio.to_thread.run_sync(lambda: asyncio.run(make_worker(press).run_once()))

    assert [added.id] == seen.ids(JobDiscarded)


async def test_a_handler_that_cancels_itself_as_its_last_step_fails_its_job(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Its asyncio task ends as cancelled although the coroutine has returned. That must not reach the job loop."""

    @task(max_attempts=1)
    async def end_cancelled() -> None:
        cancel_myself()

    @task
    async def behave() -> None:
        pass

    bad = await client.add_job(end_cancelled)
    good = await client.add_job(behave, priority=1)
    await make_worker(end_cancelled, behave, concurrency=1).run_once()

    assert ([bad.id], [good.id]) == (seen.ids(JobDiscarded), seen.ids(JobCompleted))


async def test_a_handler_that_cancels_itself_and_waits_fails_its_job(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """No shutdown asked for it: it is the handler's own doing, and counts as an attempt."""

    @task(max_attempts=1)
    async def cancel_and_wait() -> None:
        cancel_myself()
        await asyncio.Event().wait()

    added = await client.add_job(cancel_and_wait)
    await make_worker(cancel_and_wait).run_once()

    assert [added.id] == seen.ids(JobDiscarded)
    assert "cancelled itself" in seen.of(JobDiscarded)[0].error


async def test_a_handler_that_swallows_its_own_cancellation_completes(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Only the end of the handler counts."""

    @task
    async def swallow() -> None:
        cancel_myself()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    added = await client.add_job(swallow)
    await make_worker(swallow).run_once()

    assert [added.id] == seen.ids(JobCompleted)


async def test_a_result_is_ignored_and_reported_once_for_each_task(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Results are not kept, and a log line for each of a million jobs would not help."""

    @task
    async def answer() -> int:
        return 42

    for _ in range(3):
        await client.add_job(answer)
    await make_worker(answer).run_once()

    assert ["int"] == [event.type_name for event in seen.of(ResultIgnored)]
    assert 3 == len(seen.of(JobCompleted))


async def test_a_handler_that_returns_an_exception_has_completed(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Only a raised exception fails a job. A list from `gather(..., return_exceptions=True)` is a result."""

    @task
    async def hand_over() -> Exception:
        return ValueError("a result")

    added = await client.add_job(hand_over)
    await make_worker(hand_over).run_once()

    assert ([added.id], ["ValueError"]) == (
        seen.ids(JobCompleted),
        [event.type_name for event in seen.of(ResultIgnored)],
    )


async def test_a_context_variable_does_not_leak_into_the_next_job(client: Client, make_worker: MakeWorker) -> None:
    """Tenants, request ids and transactions live in context variables: another job's would be a security hole."""
    tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")
    found: list[str] = []

    @task
    async def serve(name: str) -> None:
        found.append(tenant.get())
        tenant.set(name)

    @task
    def serve_in_thread(name: str) -> None:
        found.append(tenant.get())
        tenant.set(name)

    for name in ("ada", "ben"):
        await client.add_job(serve, name)
        await client.add_job(serve_in_thread, name)
    await make_worker(serve, serve_in_thread, concurrency=1).run_once()

    assert ["nobody"] * 4 == found


async def test_each_job_has_an_asyncio_task_of_its_own(client: Client, make_worker: MakeWorker) -> None:
    """A handler that keeps `current_task()` and cancels it later must not hit the next job of the same slot."""
    tasks: list[asyncio.Task[Any] | None] = []

    @task
    async def note() -> None:
        tasks.append(asyncio.current_task())

    for _ in range(3):
        await client.add_job(note)
    await make_worker(note, concurrency=1).run_once()

    assert 3 == len(set(tasks))


async def test_a_late_cancel_of_an_ended_handler_does_not_reach_the_next_job(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """`loop.call_later(..., task.cancel)` is how timeouts are written by hand."""
    earlier: list[asyncio.Task[Any]] = []

    @task
    async def run_and_cancel_the_earlier() -> None:
        current = asyncio.current_task()
        assert current is not None
        for other in earlier:
            other.cancel()
        earlier.append(current)
        await asyncio.sleep(0)

    for _ in range(5):
        await client.add_job(run_and_cancel_the_earlier)
    await make_worker(run_and_cancel_the_earlier, concurrency=1).run_once()

    assert 5 == len(seen.of(JobCompleted))


async def test_sync_handlers_run_in_threads_side_by_side(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """A plain function may block: neither the event loop nor the other slots wait for it."""
    home = threading.get_ident()
    both_run = threading.Barrier(2, timeout=10)
    threads: list[int] = []

    @task
    def meet(ctx: JobContext) -> None:
        both_run.wait()
        threads.append(threading.get_ident())

    for _ in range(2):
        await client.add_job(meet)
    await make_worker(meet, concurrency=2).run_once()

    assert 2 == len(seen.of(JobCompleted))
    assert 2 == len(set(threads) - {home})


async def test_a_plain_wrapper_around_an_async_handler_is_run_to_its_end(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """It looks like a sync handler. If its coroutine did not run, the job would be lost silently."""
    ran: list[str] = []

    async def work(name: str) -> None:
        await asyncio.sleep(0)
        ran.append(name)

    @functools.wraps(work)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return work(*args, **kwargs)

    job = task(wrapped)
    await client.add_job(job, "a")
    await make_worker(job).run_once()

    assert (["a"], 1) == (ran, len(seen.of(JobCompleted)))


async def test_a_plain_wrapper_around_an_async_handler_is_cancelled_like_one(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The thread has ended; only the coroutine runs."""
    entered = asyncio.Event()

    async def hang() -> None:
        entered.set()
        await asyncio.Event().wait()

    @functools.wraps(hang)
    def wrapped() -> Any:
        return hang()

    job = task(wrapped)
    async with make_worker(job, grace=0).start():
        added = await client.add_job(job)
        await entered.wait()

    assert [added.id] == seen.ids(JobInterrupted)


async def test_a_plain_wrapper_that_was_to_be_cancelled_in_its_thread_is_cancelled_after_it(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The cancellation could not reach the thread; the coroutine that it returned must not miss it."""
    entered, leave = threading.Event(), threading.Event()

    async def hang() -> None:
        await asyncio.Event().wait()

    @functools.wraps(hang)
    def wrapped() -> Any:
        entered.set()
        leave.wait(20)
        return hang()

    job = task(wrapped)
    async with make_worker(job, grace=0).start() as worker, asyncio.TaskGroup() as group:
        added = await client.add_job(job)
        await wait_until(entered.is_set, description="the thread to run")
        group.create_task(worker.stop())
        await seen.wait_for(GraceExceeded)
        leave.set()

    assert [added.id] == seen.ids(JobInterrupted)


async def test_a_sync_handler_keeps_its_claim_until_its_thread_ends(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """A thread cannot be cancelled: returning the job while it still runs would run it twice at once."""
    entered, leave = threading.Event(), threading.Event()
    states: list[JobState] = []

    @task
    def work(ctx: JobContext) -> None:
        entered.set()
        leave.wait(10)

    async def watch() -> None:
        await wait_until(entered.is_set, description="the handler to start")
        await worker.stop()

    async def let_go() -> None:
        await wait_until(lambda: bool(seen.of(TasksLeftBehind) or worker_cancels()), description="the cancellation")
        states.append((await client.get_job(added.id)).state)
        leave.set()

    def worker_cancels() -> bool:
        return any(type(event).__name__ == "GraceExceeded" for event in seen.events)

    added = await client.add_job(work)
    worker = make_worker(work, grace=0)
    try:
        await asyncio.gather(worker.run(), watch(), let_go())
    finally:
        leave.set()

    assert [JobState.ACTIVE] == states
    assert ([added.id], []) == (seen.ids(JobCompleted), seen.ids(JobInterrupted))


async def test_a_sync_handler_can_see_that_it_should_finish(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """A thread cannot be cancelled, but it can ask."""
    entered = threading.Event()

    @task
    def work(ctx: JobContext) -> None:
        entered.set()
        while not ctx.cancelled.is_set():
            pass

    async with make_worker(work).start() as worker:
        added = await client.add_job(work)
        await wait_until(entered.is_set, description="the handler to start")
        await worker.stop()

    assert [added.id] == seen.ids(JobCompleted)


async def test_a_handler_that_starts_while_the_worker_stops_has_the_signal_from_the_start(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Its claim was admitted just before the stop, which would not reach it otherwise."""
    told: list[bool] = []

    @task
    async def look(ctx: JobContext) -> None:
        told.append(ctx.cancelled.is_set())

    async with make_worker(look).start() as worker:
        assert worker._running is not None
        worker._running.parts.executor.ask_all_to_end()
        await client.add_job(look)
        await seen.wait_for(JobCompleted)

    assert [True] == told


@dataclass
class Picky:
    """A payload that refuses some values with an error of its own."""

    value: int

    def __post_init__(self) -> None:
        if self.value < 0:
            raise KeyError("negative")


@pytest.mark.parametrize("payload", ["{}", '{"value": "x"}', "[]", '{"value": -1}', "[" * 5000 + "]" * 5000])
async def test_a_payload_that_does_not_decode_fails_the_job_and_not_the_worker(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str, payload: str
) -> None:
    """SQL and older releases add what they like; a deploy may mend it, so it is a failure like another."""

    @task
    async def take(picky: Picky) -> None:
        pass

    bad = await db.fetchval(f"select id from {schema}.add_job('take', $1::text::json)", payload)
    good = await client.add_job(take, Picky(1), priority=1)
    await make_worker(take, concurrency=1).run_once()

    assert [bad] == seen.ids(JobRetried)
    assert [good.id] == seen.ids(JobCompleted)


async def test_snooze_counts_no_attempt(client: Client, make_worker: MakeWorker) -> None:
    """It is no failure: the handler only asks for another time."""

    @task
    async def later() -> None:
        raise Snooze(3600)

    added = await client.add_job(later)
    await make_worker(later).run_once()
    job = await client.get_job(added.id)

    assert (0, JobState.SCHEDULED) == (job.attempts, job.state)


async def test_the_last_error_holds_type_message_and_traceback_of_the_handler_alone(
    client: Client, make_worker: MakeWorker
) -> None:
    """Frames of the engine do not help to fix the handler."""

    @task
    async def fail() -> None:
        raise LookupError("the shelf is empty")

    added = await client.add_job(fail)
    await make_worker(fail).run_once()
    last_error = (await client.get_job(added.id)).last_error or ""

    assert "LookupError: the shelf is empty" == last_error.partition("\n")[0]
    assert ("in fail" in last_error, "isolation.py" in last_error) == (True, False)


async def test_tasks_that_a_handler_left_behind_are_cancelled_and_reported_at_the_stop(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """They would use connections and state of a worker that has ended."""
    left: list[asyncio.Task[Any]] = []

    async def linger() -> None:
        await asyncio.Event().wait()

    @task
    async def spawn() -> None:
        left.append(asyncio.get_running_loop().create_task(linger(), name="lingering"))

    await client.add_job(spawn)
    await make_worker(spawn).run_once()

    assert [("spawn: lingering",)] == [event.names for event in seen.of(TasksLeftBehind)]
    assert left[0].cancelled()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="tasks start eagerly from Python 3.12 on")
async def test_a_handler_that_never_waits_starts_without_a_turn_of_the_loop(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Eager tasks save microseconds for each job, and must give the same results."""

    @task
    async def quick() -> None:
        pass

    for _ in range(100):
        await client.add_job(quick)
    await make_worker(quick, concurrency=1).run_once()

    assert 100 == len(seen.of(JobCompleted))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="as there: before, each slot runs one handler a round anyway")
async def test_handlers_that_hold_the_loop_leave_it_to_others_before_all_slots_have_run(
    client: Client, make_worker: MakeWorker
) -> None:
    """Otherwise ten slots with up to seven such jobs each would block everything else in the process."""
    ran = most = 0

    @task
    async def compute() -> None:
        nonlocal ran
        ran += 1
        until = time.perf_counter() + 0.006
        while time.perf_counter() < until:
            pass

    async def others() -> None:
        nonlocal ran, most
        while True:
            ran, most = 0, max(ran, most)
            await asyncio.sleep(0)

    await client.add_jobs([compute.job() for _ in range(30)])
    watching = asyncio.get_running_loop().create_task(others())
    await make_worker(compute, concurrency=10).run_once()
    watching.cancel()

    assert most == 2


async def test_an_ended_run_is_freed_without_the_garbage_collector(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Tens of thousands of runs a second that the collector has to find cost a fifth of the speed."""
    handlers: list[weakref.ref[asyncio.Task[None]]] = []

    @task
    async def remember(ctx: JobContext) -> None:
        current = asyncio.current_task()
        assert current is not None
        handlers.append(weakref.ref(current))

    gc.disable()
    try:
        async with make_worker(remember).start():
            await client.add_job(remember)
            await seen.wait_for(JobCompleted)
            await wait_until(lambda: handlers[0]() is None, description="the handler's task to be freed", limit_s=2.0)
    finally:
        gc.enable()

    assert 1 == len(handlers)


async def test_a_plain_function_that_was_cancelled_before_its_thread_began_does_not_begin(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Others may have taken the job over, and a running thread could not be stopped."""
    begun: list[bool] = []

    @task
    def plain() -> None:
        begun.append(True)

    def lose(event: Event) -> None:
        if isinstance(event, JobStarted) and 1 == len(seen.of(JobStarted)):
            running = worker._running
            assert running is not None
            asyncio.get_running_loop().call_soon(running.parts.executor.cancel_all)

    worker = make_worker(plain, observers=[lose])
    async with worker.start():
        await client.add_job(plain)
        await seen.wait_for(JobInterrupted)
        await seen.wait_for(JobCompleted)

    assert [True] == begun
