"""Time limits of runs: a handler that runs too long has failed, and a limit never changes a run that has ended."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import asyncpg
import pytest
from anyio import CapacityLimiter

from asyncq import Call, Client, JobContext, JobState, RunInfo, Snooze, Task, Timeout, task
from asyncq.domain.errors import ConfigurationError
from asyncq.domain.events import (
    ErrorIgnored,
    HandlerStuck,
    JobCancelled,
    JobCompleted,
    JobDiscarded,
    JobEvent,
    JobInterrupted,
    JobRetried,
    JobSnoozed,
    JobStarted,
    JobTimedOut,
)
from asyncq.engine import parts
from asyncq.engine.run import stuck, transactions
from asyncq.engine.run.executor import Executor
from asyncq.engine.run.time_limit import TimeLimit
from tests.engine.conftest import MakeWorker
from tests.support.effects import Effects
from tests.support.seen import Seen
from tests.support.waiting import LIMIT_S, wait_until

HOUR_S = 3600
AT_ONCE_S = 0.001


class Timers:
    """The limits of the last run that started its timers. The test calls them, and no time passes."""

    def __init__(self) -> None:
        self.ask_to_end: Callable[[], None] | None = None
        self.time_out: Callable[[], None] | None = None

    def fire(self) -> None:
        """Let the hard limit be over."""
        assert self.time_out is not None
        self.time_out()


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> Timers:
    """The limits of runs, without their timers."""
    made = Timers()

    def start(_: TimeLimit, ask_to_end: Callable[[], None], time_out: Callable[[], None]) -> None:
        made.ask_to_end, made.time_out = ask_to_end, time_out

    monkeypatch.setattr(TimeLimit, "start", start)
    return made


class Hanging:
    """A task whose handler waits until it is cancelled; `begun` is set when it waits."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def wait(self) -> None:
        """Wait for the cancellation; tracebacks show this line."""
        self.begun.set()
        await asyncio.Event().wait()

    @property
    def task(self) -> Task[[]]:
        """The task, called `hang`."""

        @task(timeout=HOUR_S)
        async def hang() -> None:
            await self.wait()

        return hang


def ends(seen: Seen) -> list[str]:
    """The names of the events of jobs after the start, in their order."""
    return [type(event).__name__ for event in seen.of(JobEvent) if not isinstance(event, JobStarted)]


# The hard limit


async def test_a_run_that_takes_too_long_has_failed(
    client: Client, make_worker: MakeWorker, seen: Seen, timers: Timers
) -> None:
    """It is retried as after any failure; the error has the traceback of the place at which it was."""
    hanging = Hanging()
    async with make_worker(hanging.task).start():
        added = await client.add_job(hanging.task)
        await hanging.begun.wait()
        timers.fire()
        await seen.wait_for(JobRetried)
    job = await client.get_job(added.id)

    assert ["JobTimedOut", "JobRetried"] == ends(seen)
    assert HOUR_S == seen.of(JobTimedOut)[0].timeout_s
    assert (JobState.RETRYABLE, 1) == (job.state, job.attempts)
    assert job.last_error is not None
    assert job.last_error.startswith("TimedOut: ran longer than 3600 s\n\nTraceback")
    assert "await asyncio.Event().wait()" in job.last_error


async def test_a_last_attempt_that_takes_too_long_discards_the_job(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """A limit gives no further attempt."""
    hang = Hanging().task
    await client.add_job(hang, max_attempts=1, timeout=AT_ONCE_S)
    await make_worker(hang).run_once()

    assert ["JobTimedOut", "JobDiscarded"] == ends(seen)


@pytest.mark.parametrize("others", [1, 120], ids=["alone", "beside a batch"])
async def test_the_limit_of_a_job_replaces_that_of_its_task(
    client: Client, make_worker: MakeWorker, seen: Seen, others: int
) -> None:
    """The jobs of a batch have that of their task."""
    hang = Hanging().task

    @task(timeout=HOUR_S)
    async def end() -> None:
        """The least job."""

    slow = await client.add_job(hang, timeout="1 ms")
    await client.add_jobs([end.job() for _ in range(others)])
    await make_worker(hang, end, concurrency=200).run_once()

    assert [slow.id] == seen.ids(JobTimedOut)
    assert others == len(seen.of(JobCompleted))


async def test_a_handler_may_return_after_the_limit_and_its_job_has_completed(
    client: Client, make_worker: MakeWorker, seen: Seen, timers: Timers
) -> None:
    """It caught the cancellation, as with asyncio.timeout."""
    hanging = Hanging()

    @task(timeout=HOUR_S)
    async def finish() -> None:
        with suppress(asyncio.CancelledError):
            await hanging.wait()

    async with make_worker(finish).start():
        await client.add_job(finish)
        await hanging.begun.wait()
        timers.fire()
        await seen.wait_for(JobCompleted)

    assert ["JobCompleted"] == ends(seen)


async def test_a_handler_may_decide_about_its_job_after_the_limit(
    client: Client, make_worker: MakeWorker, seen: Seen, timers: Timers
) -> None:
    """A verdict is newer than the cancellation."""
    hanging = Hanging()

    @task(timeout=HOUR_S)
    async def later() -> None:
        try:
            await hanging.wait()
        except asyncio.CancelledError:
            raise Snooze(HOUR_S) from None

    async with make_worker(later).start():
        await client.add_job(later)
        await hanging.begun.wait()
        timers.fire()
        await seen.wait_for(JobSnoozed)

    assert ["JobSnoozed"] == ends(seen)


# More time


async def test_an_extended_limit_is_over_later() -> None:
    """An extension never makes the time shorter, and counts from the call."""
    limit, over = TimeLimit(None, 0.01), asyncio.Event()
    limit.extend(0.05)
    limit.extend(0.001)
    began_at = time.perf_counter()
    limit.start(over.set, over.set)
    await over.wait()

    assert 0.04 <= time.perf_counter() - began_at
    assert 0.05 <= limit.timed_out().timeout_s < HOUR_S


async def test_a_limit_that_is_extended_after_its_timer_began_is_over_later() -> None:
    """The handler calls it again and again."""
    limit, over = TimeLimit(None, 0.01), asyncio.Event()
    began_at = time.perf_counter()
    limit.start(over.set, over.set)
    limit.extend(0.05)
    await over.wait()

    assert 0.05 <= time.perf_counter() - began_at


async def test_a_handler_extends_its_run(client: Client, make_worker: MakeWorker) -> None:
    """Plain functions can do it in their threads, and a run without a limit ignores it."""
    limits: list[float | None] = []

    def extend(ctx: JobContext) -> None:
        with pytest.raises(ConfigurationError, match="an extension is 0, expected more than 0"):
            ctx.extend(0)
        ctx.extend("3 h")
        limit = ctx._limit  # pyright: ignore[reportPrivateUsage]
        limits.append(limit and limit.timed_out().timeout_s // HOUR_S)

    @task(timeout="2 h")
    async def here(ctx: JobContext) -> None:
        extend(ctx)

    @task(timeout="2 h")
    def in_thread(ctx: JobContext) -> None:
        extend(ctx)

    @task
    async def without(ctx: JobContext) -> None:
        extend(ctx)

    await client.add_jobs([here.job(), in_thread.job(), without.job()])
    await make_worker(here, in_thread, without).run_once()

    assert [3, 3] == [hours for hours in limits if hours is not None]
    assert 3 == len(limits)


# The soft limit, and threads


async def test_the_soft_limit_asks_the_handler_to_end(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """It can store what it has done so far, and it is not cancelled."""

    @task(timeout=Timeout(soft=AT_ONCE_S, hard=HOUR_S))
    async def work(ctx: JobContext) -> None:
        await ctx.cancelled.wait()

    await client.add_job(work)
    await make_worker(work).run_once()

    assert ["JobCompleted"] == ends(seen)


@pytest.mark.parametrize("kind", ["soft", "hard"])
@pytest.mark.parametrize("end", ["JobCompleted", "JobRetried"])
async def test_a_thread_is_only_asked_to_end(
    client: Client, make_worker: MakeWorker, seen: Seen, timers: Timers, kind: str, end: str
) -> None:
    """It cannot be cancelled, and while it runs its job runs. Its end counts as usual."""
    begun, loop = asyncio.Event(), asyncio.get_running_loop()

    @task(timeout=Timeout(soft=HOUR_S, hard=2 * HOUR_S))
    def work(ctx: JobContext) -> None:
        loop.call_soon_threadsafe(begun.set)
        pause = threading.Event()
        while not ctx.cancelled.is_set():
            pause.wait(0.001)
        if end == "JobRetried":
            raise OSError("broken")

    async with make_worker(work).start():
        await client.add_job(work)
        await begun.wait()
        assert timers.ask_to_end is not None
        timers.ask_to_end() if kind == "soft" else timers.fire()
        await wait_until(lambda: bool(ends(seen)), description="the end of the job")

    assert [end] == ends(seen)


@pytest.mark.parametrize(
    ("extends", "waits", "expected"),
    [
        (False, True, ["JobTimedOut", "JobRetried"]),
        (False, False, ["JobCompleted"]),
        (True, True, ["JobCompleted"]),
    ],
    ids=["waits", "ends", "extended"],
)
async def test_a_limit_that_passes_in_a_thread_ends_what_follows_it(
    client: Client, make_worker: MakeWorker, seen: Seen, extends: bool, waits: bool, expected: list[str]
) -> None:
    """Else middleware could go on for ever. A run that ends without another wait has done its work."""

    async def follow(run: RunInfo, call: Call) -> None:
        await call()
        if waits and extends:
            for _ in range(10):
                await asyncio.sleep(0)
        elif waits:
            await asyncio.Event().wait()

    @task(timeout=HOUR_S)
    def work(ctx: JobContext) -> None:
        limit: Any = ctx._limit  # pyright: ignore[reportPrivateUsage]
        limit._hard_s = 0.0
        if extends:
            ctx.extend(HOUR_S)

    await client.add_job(work)
    await make_worker(work, middleware=[follow]).run_once()

    assert expected == ends(seen)


# What it costs


async def test_a_run_without_limits_has_none(client: Client, make_worker: MakeWorker, timers: Timers) -> None:
    """It pays nothing."""

    @task
    async def work() -> None:
        await asyncio.sleep(0)

    await client.add_job(work)
    await make_worker(work).run_once()

    assert timers.time_out is None


@pytest.mark.skipif(sys.version_info < (3, 12), reason="this Python starts no task eagerly")
async def test_a_handler_that_ends_at_its_first_step_starts_no_timer(
    client: Client, make_worker: MakeWorker, timers: Timers
) -> None:
    """Most handlers that are fast never see the loop."""

    @task(timeout=HOUR_S)
    async def work() -> None:
        """The least job."""

    await client.add_job(work)
    await make_worker(work).run_once()

    assert timers.time_out is None


async def test_the_timers_end_with_the_run(client: Client, make_worker: MakeWorker) -> None:
    """A limit of an hour would otherwise keep each run for an hour."""
    stopped: list[list[bool]] = []
    limits: list[TimeLimit] = []

    @task(timeout=Timeout(soft=HOUR_S, hard=2 * HOUR_S))
    async def work(ctx: JobContext) -> None:
        await asyncio.sleep(0)
        limit: Any = ctx._limit  # pyright: ignore[reportPrivateUsage]
        limits.append(limit)
        stopped.append([timer.cancelled() for timer in limit._timers.values()])

    await client.add_job(work)
    await make_worker(work).run_once()

    assert [[False, False]] == stopped
    assert [{}] == [limit._timers for limit in limits]  # pyright: ignore[reportPrivateUsage]


# Races


@pytest.mark.parametrize("end", ["JobCompleted", "JobRetried"])
async def test_a_limit_at_the_moment_of_the_end_changes_nothing(
    client: Client, make_worker: MakeWorker, seen: Seen, timers: Timers, end: str
) -> None:
    """The handler has returned or raised, and the worker has not looked at it yet."""

    @task(timeout=HOUR_S)
    async def work() -> None:
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(timers.fire)
        if end == "JobRetried":
            raise OSError("broken")

    await client.add_job(work)
    await make_worker(work).run_once()

    assert [end] == ends(seen)


async def test_a_limit_one_step_before_the_return_is_a_timeout(
    client: Client, make_worker: MakeWorker, seen: Seen, timers: Timers
) -> None:
    """The cancellation reaches the handler where it waits, although that wait is over."""

    @task(timeout=HOUR_S)
    async def work() -> None:
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(timers.fire)
        await asyncio.sleep(0)

    await client.add_job(work)
    await make_worker(work).run_once()

    assert ["JobTimedOut", "JobRetried"] == ends(seen)


@pytest.mark.parametrize("first", ["limit", "cancel"])
async def test_a_cancellation_beside_a_limit_cancels_the_handler_once(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    timers: Timers,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
    first: str,
) -> None:
    """Whatever came first, the job ends as cancelled, and the handler's clean-up is not disturbed."""
    hanging = Hanging()
    cleaning, leave = asyncio.Event(), asyncio.Event()
    times: list[int] = []

    @task(timeout=HOUR_S)
    async def work() -> None:
        current = asyncio.current_task()
        assert current is not None
        try:
            await hanging.wait()
        finally:
            cleaning.set()
            await leave.wait()
            times.append(current.cancelling())

    async def cancel() -> None:
        await db.execute(f"select from {schema}.cancel_jobs(array[$1::bigint])", added.id)
        await heard.wait()

    def hear(self: Executor, jobs: Collection[tuple[int, int]]) -> set[tuple[int, int]]:
        found = real(self, jobs)
        heard.set()
        return found

    real, heard = Executor.cancel_jobs, asyncio.Event()
    monkeypatch.setattr(Executor, "cancel_jobs", hear)

    async with make_worker(work, lease=1).start():
        added = await client.add_job(work)
        await hanging.begun.wait()
        await cancel() if first == "cancel" else timers.fire()
        await cleaning.wait()
        await cancel() if first == "limit" else timers.fire()
        leave.set()
        await seen.wait_for(JobCancelled)

    assert (["JobCancelled"], [1]) == (ends(seen), times)


async def test_a_shutdown_during_a_timeout_counts_the_attempt(
    client: Client, make_worker: MakeWorker, seen: Seen, timers: Timers
) -> None:
    """The handler had its time. It is cancelled once, and it is no interruption."""
    hanging = Hanging()
    cleaning, leave = asyncio.Event(), asyncio.Event()

    @task(timeout=HOUR_S)
    async def work(ctx: JobContext) -> None:
        try:
            await hanging.wait()
        finally:
            cleaning.set()
            await leave.wait()

    worker = make_worker(work, grace=0.01)
    async with worker.start():
        await client.add_job(work)
        await hanging.begun.wait()
        timers.fire()
        await cleaning.wait()
        asyncio.get_running_loop().call_later(0.05, leave.set)

    assert [] == seen.ids(JobInterrupted)
    assert ["JobTimedOut", "JobRetried"] == ends(seen)


async def test_a_limit_after_a_shutdown_cut_the_handler_off_changes_nothing(
    client: Client, make_worker: MakeWorker, seen: Seen, timers: Timers
) -> None:
    """The interruption came first, and costs no attempt."""
    hanging = Hanging()

    @task(timeout=HOUR_S)
    async def work() -> None:
        try:
            await hanging.wait()
        finally:
            timers.fire()

    async with make_worker(work, grace=0.01).start():
        await client.add_job(work)
        await hanging.begun.wait()

    assert ["JobInterrupted"] == ends(seen)


async def test_a_handler_that_ignores_its_limit_is_reported_as_stuck(
    client: Client, make_worker: MakeWorker, seen: Seen, timers: Timers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is cancelled, as at a cancellation, and its claim is held until it ends."""
    hanging = Hanging()
    monkeypatch.setattr(stuck, "STUCK_S", 0.01)
    leave = asyncio.Event()

    @task(timeout=HOUR_S)
    async def ignore() -> None:
        while not leave.is_set():
            try:
                hanging.begun.set()
                await leave.wait()
            except asyncio.CancelledError:
                continue

    async with make_worker(ignore).start():
        added = await client.add_job(ignore)
        await hanging.begun.wait()
        timers.fire()
        await seen.wait_for(HandlerStuck)
        state = (await client.get_job(added.id)).state
        leave.set()
        await seen.wait_for(JobCompleted)

    assert JobState.ACTIVE == state


# Transactions


async def test_a_transactional_run_is_rolled_back(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects
) -> None:
    """Its attempt has failed like any other, and nothing of its work is kept."""

    @task(transactional=True, timeout=0.2)
    async def write(ctx: JobContext) -> None:
        await ctx.query(effects.insert, ctx.job.id)
        await ctx.query("select pg_sleep($1)", LIMIT_S)

    added = await client.add_job(write)
    await make_worker(write).run_once()

    assert (["JobTimedOut", "JobRetried"], []) == (ends(seen), await effects.kept())
    assert 1 == (await client.get_job(added.id)).attempts


async def test_a_limit_during_the_commit_of_a_transactional_run_changes_nothing(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    effects: Effects,
    timers: Timers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The handler has ended; a COMMIT that was sent is not taken back."""
    complete, commit = transactions.store.complete_claim, transactions.store.Transaction.commit
    fired: list[str] = []

    async def complete_claim(*args: Any, **values: Any) -> Any:
        timers.fire()
        fired.append("complete")
        return await complete(*args, **values)

    async def committing(self: Any) -> None:
        timers.fire()
        fired.append("commit")
        await commit(self)

    monkeypatch.setattr(transactions.store, "complete_claim", complete_claim)
    monkeypatch.setattr(transactions.store.Transaction, "commit", committing)

    @task(transactional=True, timeout=HOUR_S)
    async def write(ctx: JobContext) -> None:
        await ctx.query(effects.insert, ctx.job.id)

    added = await client.add_job(write)
    await make_worker(write).run_once()

    assert (["complete", "commit"], ["JobCompleted"], [added.id]) == (fired, ends(seen), await effects.kept())


async def test_a_job_that_the_handler_completed_stays_completed_after_a_timeout(
    client: Client, make_worker: MakeWorker, seen: Seen, timers: Timers
) -> None:
    """Its own transaction was committed before the limit was over."""
    hanging = Hanging()

    @task(timeout=HOUR_S)
    async def finish(ctx: JobContext) -> None:
        async with ctx.connection() as connection, connection.transaction():
            await ctx.complete(connection=connection)
        await hanging.wait()

    async with make_worker(finish).start():
        await client.add_job(finish)
        await hanging.begun.wait()
        timers.fire()
        await seen.wait_for(JobCompleted)

    assert ["ErrorIgnored", "JobCompleted"] == ends(seen)
    assert seen.of(ErrorIgnored)[0].error.startswith("TimedOut: ran longer than 3600 s")


async def test_a_thread_that_has_not_begun_is_cancelled(
    client: Client, make_worker: MakeWorker, seen: Seen, timers: Timers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for a thread, and would begin after its time."""
    one = CapacityLimiter(1)

    def limiter(_: float) -> CapacityLimiter:
        return one

    monkeypatch.setattr(parts, "CapacityLimiter", limiter)
    begun, leave = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    runs: list[int] = []

    @task(timeout=HOUR_S)
    def work(ctx: JobContext) -> None:
        runs.append(ctx.job.id)
        loop.call_soon_threadsafe(begun.set)
        assert leave.wait(LIMIT_S)

    async with make_worker(work, concurrency=2).start():
        first = await client.add_job(work)
        await begun.wait()
        second = await client.add_job(work)
        await seen.wait_for(JobStarted, 2)
        timers.fire()
        await seen.wait_for(JobRetried)
        leave.set()
        await seen.wait_for(JobCompleted)

    assert ([first.id], [second.id]) == (runs, seen.ids(JobTimedOut))
    assert [] == seen.ids(JobDiscarded)
