"""Middleware: functions around runs, from the worker's first one to the handler."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import asyncpg
import pytest

from asyncq import (
    Call,
    Client,
    ConfigurationError,
    Discard,
    JobContext,
    JobState,
    Middleware,
    RunInfo,
    Snooze,
    TaskError,
    TransactionUnusable,
    Worker,
    resource,
    task,
    use,
)
from asyncq.domain.events import JobCancelled, JobCompleted, JobDiscarded, JobRetried, JobSnoozed
from asyncq.engine.base.observers import Observers
from asyncq.engine.run import transactions
from asyncq.engine.run.around import Around
from asyncq.store.database import HandlerPool
from tests.engine.conftest import MakeWorker
from tests.support.effects import Effects
from tests.support.seen import Seen
from tests.support.waiting import wait_until

steps: list[Any] = []


@pytest.fixture(autouse=True)
def no_steps() -> None:
    """No test sees the steps of another one."""
    steps.clear()


def noting(name: str) -> Middleware:
    """A middleware that notes when it begins and ends."""

    async def note(run: RunInfo, call: Call) -> Any:
        steps.append(f"{name} begins")
        answer = await call()
        steps.append(f"{name} got {answer}")
        return f"{answer}, {name}"

    return note


@resource(scope="job")
async def open_session() -> AsyncGenerator[str]:
    """A resource of the job."""
    steps.append("open")
    yield "session"
    steps.append("close")


@task(middleware=[noting("c"), noting("d")])
async def with_everything(session: str = use(open_session)) -> str:
    """Has middleware of its own, and a resource."""
    steps.append(session)
    return "x"


@task
def in_a_thread() -> str:
    """A plain function."""
    steps.append("thread")
    return "x"


async def test_the_first_one_of_the_worker_is_the_outermost(client: Client, make_worker: MakeWorker) -> None:
    """Then the others, those of the task, its resources, and the handler."""
    await client.add_job(with_everything)
    await make_worker(with_everything, middleware=[noting("a"), noting("b")]).run_once()

    begins = [f"{name} begins" for name in "abcd"]
    ends = ["d got x", "c got x, d", "b got x, d, c", "a got x, d, c, b"]
    assert [*begins, "open", "session", "close", *ends] == steps


async def test_it_runs_around_plain_functions(client: Client, make_worker: MakeWorker) -> None:
    """It stays in the event loop, and the handler in its thread."""
    await client.add_job(in_a_thread)
    await make_worker(in_a_thread, middleware=[noting("a")]).run_once()

    assert ["a begins", "thread", "a got x"] == steps


async def test_it_knows_the_run_and_the_value_of_the_lifespan(client: Client, make_worker: MakeWorker) -> None:
    """A tracer names its spans by them."""

    @asynccontextmanager
    async def lifespan(_: Worker) -> AsyncGenerator[str]:
        yield "tracer"

    async def look(run: RunInfo, call: Call) -> Any:
        steps.extend([run.task, run.attempt, run.lifespan, run.job.id, run.job.queue, repr(run)])
        return await call()

    added = await client.add_job(in_a_thread, queue="q")
    await make_worker(in_a_thread, middleware=[look], lifespan=lifespan).run_once()

    said = f"<RunInfo of job {added.id}, in_a_thread, attempt 1>"
    assert ["in_a_thread", 1, "tracer", added.id, "q", said, "thread"] == steps


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("error", "kind"), [(OSError("no"), JobRetried), (Snooze(60), JobSnoozed), (Discard("no"), JobDiscarded)]
)
async def test_what_it_raises_is_what_the_handler_raised(
    client: Client, make_worker: MakeWorker, seen: Seen, when: str, error: Exception, kind: Any
) -> None:
    """A rate limit may snooze a job, a check may discard it."""

    async def refuse(run: RunInfo, call: Call) -> Any:
        if when == "after":
            await call()
        raise error

    added = await client.add_job(in_a_thread)
    await make_worker(in_a_thread, middleware=[refuse]).run_once()

    assert ([added.id], ["thread"] if when == "after" else []) == (seen.ids(kind), steps)


async def test_it_sees_the_exception_of_the_handler_and_may_answer_it(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The job completes then."""

    async def answer(run: RunInfo, call: Call) -> None:
        try:
            await call()
        except OSError as error:
            steps.append(str(error))

    @task(middleware=[answer])
    async def failing() -> None:
        raise OSError("no")

    added = await client.add_job(failing)
    await make_worker(failing).run_once()

    assert (["no"], [added.id]) == (steps, seen.ids(JobCompleted))


async def test_it_need_not_call_the_handler(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """A job whose work is done already completes; also in the transaction of a task."""

    async def skip(run: RunInfo, call: Call) -> None:
        steps.append(f"skipped {run.task}")

    @task(transactional=True)
    async def in_a_transaction(ctx: JobContext) -> None:
        steps.append("ran")

    await client.add_jobs([in_a_transaction.job(), in_a_thread.job()])
    await make_worker(in_a_transaction, in_a_thread, middleware=[skip], concurrency=1).run_once()

    assert (["skipped in_a_transaction", "skipped in_a_thread"], 2) == (steps, len(seen.of(JobCompleted)))


async def test_a_second_call_of_the_handler_is_refused(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """A retry within the run would meet the closed transaction of the first call."""

    async def twice(run: RunInfo, call: Call) -> Any:
        await call()
        return await call()

    await client.add_job(in_a_thread)
    await make_worker(in_a_thread, middleware=[twice]).run_once()

    (event,) = seen.of(JobRetried)
    assert "twice called its handler a second time" in event.error
    assert ["thread"] == steps


async def test_the_transaction_of_a_task_begins_inside_of_it_and_is_committed_after_it(
    client: Client, make_worker: MakeWorker, db: asyncpg.Connection, schema: str, effects: Effects, seen: Seen
) -> None:
    """It may wait without a connection, and its exception rolls back what the handler did."""

    async def free_rows() -> int:
        rows = await db.fetch(f"select id from {schema}._jobs for update skip locked")
        return len(rows)

    async def fail_once(run: RunInfo, call: Call) -> Any:
        steps.append(("before", await free_rows()))
        await call()
        steps.append(("after", await free_rows(), await effects.kept()))
        if run.attempt == 1:
            raise OSError("no")

    @task(transactional=True, middleware=[fail_once], retry=[0.0])
    async def write(ctx: JobContext) -> None:
        await ctx.query(effects.insert, ctx.attempt)

    await client.add_job(write)
    async with make_worker(write).start():
        await seen.wait_for(JobCompleted)

    assert [("before", 1), ("after", 0, [])] * 2 == steps
    assert [2] == await effects.kept()


async def test_a_cancellation_of_the_job_reaches_it(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """It ends its span, as the handler ends its work."""

    async def note(run: RunInfo, call: Call) -> Any:
        try:
            return await call()
        except asyncio.CancelledError:
            steps.append("cancelled")
            raise

    @task(middleware=[note])
    async def waiting() -> None:
        steps.append("waits")
        await asyncio.Event().wait()

    added = await client.add_job(waiting)
    async with make_worker(waiting).start():
        await wait_until(lambda: steps == ["waits"], description="the run")
        await client.admin.cancel_jobs([added.id])
        await seen.wait_for(JobCancelled)

    assert ["waits", "cancelled"] == steps


@pytest.mark.parametrize("when", ["before", "take", "start", "lock"])
async def test_a_transaction_does_not_begin_after_the_end_of_its_run(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """A middleware that does not wait for its handler would leak a connection of the pool."""
    reached, ended, go = asyncio.Event(), asyncio.Event(), asyncio.Event()
    end_transaction = transactions.JobTransaction.end

    async def end(self: transactions.JobTransaction, *args: Any) -> Any:
        ended.set()
        return await end_transaction(self, *args)

    async def gate() -> None:
        reached.set()
        await go.wait()

    def gated(name: str, original: Any) -> Any:
        async def wait(*args: Any) -> Any:
            answer = await original(*args)
            if name == when and not go.is_set():
                await gate()
            return answer

        return wait

    monkeypatch.setattr(transactions.store.Transaction, "begin", gated("start", transactions.store.Transaction.begin))
    monkeypatch.setattr(transactions.store, "lock_claim", gated("lock", transactions.store.lock_claim))
    monkeypatch.setattr(transactions.JobTransaction, "end", end)
    monkeypatch.setattr(HandlerPool, "take", gated("take", HandlerPool.take))

    @resource(scope="job")
    async def open_late() -> AsyncGenerator[str]:
        if when == "before":
            await gate()
        yield "late"

    @task(transactional=True)
    async def write(ctx: JobContext, late: str = use(open_late)) -> None:
        steps.append("ran")

    async with asyncio.TaskGroup() as group:

        async def run_handler(call: Call) -> None:
            try:
                await call()
            except TransactionUnusable as error:
                steps.append(str(error))

        async def leave_running(run: RunInfo, call: Call) -> None:
            if go.is_set():
                await call()
            else:
                group.create_task(run_handler(call))
                await reached.wait()

        async with make_worker(write, middleware=[leave_running], pool_size=1, pool_wait=1).start():
            await client.add_job(write)
            await ended.wait()
            go.set()
            await wait_until(lambda: bool(steps), description="the refusal")
            await seen.wait_for(JobCompleted)
            await client.add_job(write)
            await seen.wait_for(JobCompleted, 2)

    assert ["the run of this job has ended before its handler began", "ran"] == steps


@pytest.mark.parametrize("tries", [1, 2])
async def test_a_run_lasts_as_long_as_its_thread_although_a_timeout_of_its_middleware_is_over(
    client: Client, make_worker: MakeWorker, seen: Seen, tries: int
) -> None:
    """Otherwise the job would be retried, and its queue continue, while the thread still runs."""
    entered, leave = threading.Event(), threading.Event()

    async def run_handler(call: Call) -> None:
        await call()

    async def for_a_moment(run: RunInfo, call: Call) -> None:
        async with asyncio.TaskGroup() as group:
            calling = group.create_task(run_handler(call))
            await wait_until(entered.is_set, description="the thread to run")
            for _ in range(tries):
                calling.cancel()
                for _ in range(10):
                    await anyio.lowlevel.checkpoint()
            steps.append("has ended" if calling.done() else "still runs")
        if calling.cancelled():
            raise TimeoutError

    @task(middleware=[for_a_moment])
    def slow() -> None:
        steps.append("begins")
        entered.set()
        leave.wait(20)
        steps.append("ends")

    first = await client.add_job(slow, queue="q")
    second = await client.add_job(in_a_thread, queue="q")
    try:
        async with make_worker(slow, in_a_thread, concurrency=2).start():
            await wait_until(lambda: len(steps) == 2, description="the timeout")
            assert ["begins", "still runs"] == steps
            assert JobState.ACTIVE == (await client.get_job(first.id)).state
            leave.set()
            await seen.wait_for(JobCompleted)
            await seen.wait_for(JobRetried)
    finally:
        leave.set()

    assert (["begins", "still runs", "ends", "thread"], [second.id]) == (steps, seen.ids(JobCompleted))


async def test_a_cancellation_that_arrives_while_the_thread_runs_reaches_it_after_the_thread(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The thread cannot be cancelled, but what the middleware waits for after it can."""
    entered, leave = threading.Event(), threading.Event()

    async def wait_after(run: RunInfo, call: Call) -> None:
        await call()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            steps.append("cancelled")
            raise

    @task(middleware=[wait_after])
    def slow() -> None:
        entered.set()
        leave.wait(20)
        steps.append("ends")

    added = await client.add_job(slow)
    try:
        async with make_worker(slow).start() as worker:
            await wait_until(entered.is_set, description="the thread to run")
            running = worker._running
            assert running is not None
            await client.admin.cancel_jobs([added.id])
            (run,) = running.parts.executor.running
            await wait_until(lambda: run.interrupted, description="the cancellation")
            leave.set()
            await seen.wait_for(JobCancelled)
    finally:
        leave.set()

    assert ["ends", "cancelled"] == steps


async def test_resources_are_closed_although_its_scope_is_cancelled(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """A cancelled scope of anyio cancels each await, also those of a resource that closes."""

    async def for_a_moment(run: RunInfo, call: Call) -> None:
        with anyio.move_on_after(0.01):
            await call()
        steps.append("moved on")

    @resource(scope="job")
    async def open_careful() -> AsyncGenerator[str]:
        try:
            yield "careful"
        finally:
            await asyncio.sleep(0)
            steps.append("closed")

    @task(middleware=[for_a_moment])
    async def waiting(careful: str = use(open_careful)) -> None:
        await anyio.sleep_forever()

    await client.add_job(waiting)
    await make_worker(waiting).run_once()

    assert (["closed", "moved on"], 1) == (steps, len(seen.of(JobCompleted)))


def test_tasks_with_nothing_around_them_are_called_directly() -> None:
    """A worker without middleware and resources makes one check for each job."""

    async def handle(*_: Any) -> None:
        """Nothing."""

    around = Around((), {}, None, Observers([]))

    assert around.wrapped({"thread": in_a_thread}, handle) is None
    wrapped = around.wrapped({"thread": in_a_thread, "everything": with_everything}, handle)
    assert wrapped is not None
    assert ["everything"] == [*wrapped]


def plain(run: RunInfo, call: Call) -> Any:
    """Not a coroutine function."""


async def of_one(run: RunInfo) -> None:
    """Takes too little."""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (noting("a"), "middleware must be a list of coroutine functions, got <function"),
        ([5], "a middleware is a coroutine function of two arguments, got 5"),
        ([plain], "a middleware is a coroutine function of two arguments, got <function plain"),
        ([of_one], "a middleware is called with two arguments, which of_one does not take: too many positional"),
    ],
    ids=["alone", "number", "plain", "one argument"],
)
def test_a_function_that_cannot_be_called_around_a_run_is_refused(given: Any, expected: str) -> None:
    """When the worker, the client or the task is made."""
    with pytest.raises(ConfigurationError) as of_worker:
        Worker("postgresql:///none", [in_a_thread], middleware=given)
    with pytest.raises(ConfigurationError) as of_client:
        Client("postgresql:///none", middleware=given)
    with pytest.raises(TaskError) as of_task:
        task(middleware=given)(in_a_thread.handler)

    assert all(str(each.value).startswith(expected) for each in (of_worker, of_client))
    assert str(of_task.value).startswith(f"task 'in_a_thread': {expected}")
