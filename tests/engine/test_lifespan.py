"""The lifespan of a worker: entered before the first fetch, left after the last settlement."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import asyncpg
import pytest

from asyncq import Client, ConfigurationError, JobNotFound, LifespanFailed, Worker, resource, task, use
from asyncq.domain.events import JobCompleted, ResourceFailed, WorkerStarted, WorkerStopped
from asyncq.engine.base import held
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen
from tests.support.waiting import LIMIT_S, wait_until

Lifespan = Callable[[Worker], AbstractAsyncContextManager[Any]]

steps: list[object] = []


@pytest.fixture(autouse=True)
def no_steps() -> None:
    """No test sees the steps of another one."""
    steps.clear()


@task
async def step(name: str) -> None:
    """Note that it ran."""
    steps.append(name)


async def exists(client: Client, job_id: int) -> bool:
    """Whether a job has not been settled yet."""
    try:
        await client.get_job(job_id)
    except JobNotFound:
        return False
    return True


@pytest.mark.parametrize("once", [False, True])
async def test_it_is_entered_before_the_first_fetch_and_left_after_the_last_settlement(
    client: Client, make_worker: MakeWorker, seen: Seen, *, once: bool
) -> None:
    """A handler may use what it opens, and its end sees every job settled."""
    added = await client.add_job(step.job("job"))

    @asynccontextmanager
    async def lifespan(worker: Worker) -> AsyncGenerator[None]:
        steps.extend(["opened", worker, seen.of(WorkerStarted)])
        yield
        steps.extend(["closed", await exists(client, added.id)])

    worker = make_worker(step, lifespan=lifespan)
    if once:
        await worker.run_once()
    else:
        async with worker.start():
            await seen.wait_for(JobCompleted)

    assert ["opened", worker, [], "job", "closed", False] == steps


async def test_a_worker_may_run_again_with_its_lifespan(client: Client, make_worker: MakeWorker) -> None:
    """Each run opens it, and closes it."""

    @asynccontextmanager
    async def lifespan(_: Worker) -> AsyncGenerator[None]:
        steps.append("opened")
        yield
        steps.append("closed")

    worker = make_worker(step, lifespan=lifespan)
    await worker.run_once()
    await worker.run_once()

    assert ["opened", "closed"] * 2 == steps


async def test_an_error_at_its_start_is_the_error_of_the_worker(
    db: asyncpg.Connection, schema: str, make_worker: MakeWorker, seen: Seen
) -> None:
    """Nothing was registered, and no job was fetched."""
    broken = OSError("no route to the mail server")

    @asynccontextmanager
    async def open_mail(_: Worker) -> AsyncGenerator[None]:
        raise broken
        yield

    with pytest.raises(LifespanFailed) as caught:
        async with make_worker(step, lifespan=open_mail).start():
            pass

    said = str(caught.value)
    assert "open_mail' failed, so the worker does not start: OSError: no route to the mail server" in said
    assert (broken, []) == (caught.value.__cause__, seen.of(WorkerStarted))
    assert 0 == await db.fetchval(f"select count(*) from {schema}._workers")


async def test_a_function_that_returns_no_context_manager_is_named(make_worker: MakeWorker) -> None:
    """The check of the option cannot know it."""
    with pytest.raises(LifespanFailed, match="asynchronous context manager protocol"):
        await make_worker(step, lifespan=lambda _: 5).run_once()


async def test_an_error_at_its_end_is_an_event(make_worker: MakeWorker, seen: Seen) -> None:
    """All jobs are settled: the worker has done its work."""
    broken = OSError("the mail server hung up")

    @asynccontextmanager
    async def open_mail(_: Worker) -> AsyncGenerator[None]:
        yield
        raise broken

    exceptions: list[BaseException | None] = []

    def note(event: Any) -> None:
        if isinstance(event, ResourceFailed):
            exceptions.append(event.exception)

    await make_worker(step, lifespan=open_mail, observers=[note]).run_once()

    (event,) = seen.of(ResourceFailed)
    assert [broken] == exceptions
    assert event.name.startswith("lifespan ")
    assert event.name.endswith("open_mail")
    assert "OSError: the mail server hung up" == event.error


async def test_an_end_that_takes_too_long_is_cancelled(
    make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor kills the process some time after its signal."""
    monkeypatch.setattr(held, "CLOSE_S", 0.05)

    @asynccontextmanager
    async def lifespan(_: Worker) -> AsyncGenerator[None]:
        yield
        await asyncio.Event().wait()

    with anyio.fail_after(LIMIT_S):
        await make_worker(step, lifespan=lifespan).run_once()

    assert ["TimeoutError: it was not closed within 0.05 s"] == [event.error for event in seen.of(ResourceFailed)]


async def test_background_work_that_fails_stops_the_worker_in_order(make_worker: MakeWorker, seen: Seen) -> None:
    """A task group of the lifespan may hold what the jobs need; a worker without it would fail each of them."""

    async def fail() -> None:
        await seen.wait_for(WorkerStarted)
        raise OSError("lost")

    @asynccontextmanager
    async def lifespan(_: Worker) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(fail)
            yield

    with pytest.raises(LifespanFailed, match="ended while the worker ran: ExceptionGroup"):
        await make_worker(step, lifespan=lifespan).run()

    assert (1, 1) == (len(seen.of(WorkerStopped)), len(seen.of(ResourceFailed)))


async def test_a_task_group_may_be_open_until_the_end(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """A cancel scope has to be left in the task that entered it, whatever task ends the worker."""

    @asynccontextmanager
    async def lifespan(_: Worker) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            yield
            group.cancel_scope.cancel()
        steps.append("closed")

    await client.add_job(step.job("job"))
    async with make_worker(step, lifespan=lifespan).start():
        await seen.wait_for(JobCompleted)

    assert (["job", "closed"], []) == (steps, seen.of(ResourceFailed))


async def test_a_worker_that_is_stopped_meanwhile_cancels_its_start(make_worker: MakeWorker, seen: Seen) -> None:
    """It may wait for a server for long."""

    @asynccontextmanager
    async def lifespan(_: Worker) -> AsyncGenerator[None]:
        steps.append("opening")
        try:
            await asyncio.Event().wait()
            yield
        finally:
            steps.append("cancelled")

    worker = make_worker(step, lifespan=lifespan)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(worker.run())
        await wait_until(lambda: steps == ["opening"], description="the start")
        with anyio.fail_after(5):
            await worker.stop()

    assert (["opening", "cancelled"], []) == (steps, seen.of(WorkerStarted))
    assert running.result() is None


async def test_a_worker_that_is_cancelled_closes_its_lifespan(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """A timeout around the worker must not leave a connection open."""

    @asynccontextmanager
    async def lifespan(_: Worker) -> AsyncGenerator[None]:
        yield
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
        steps.append("closed")

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(make_worker(step, lifespan=lifespan).run)
            await seen.wait_for(WorkerStarted)
            scope.cancel()

    assert ["closed"] == steps


@pytest.mark.parametrize("where", ["task", "end", "resource", "resource's end"])
async def test_a_stop_inside_of_it_or_of_a_resource_returns_at_once(
    client: Client, make_worker: MakeWorker, seen: Seen, where: str
) -> None:
    """The worker waits for both, so they would wait for each other."""

    async def stop(worker: Worker) -> None:
        await seen.wait_for(WorkerStarted)
        await worker.stop()
        steps.append(len(seen.of(WorkerStopped)))

    @asynccontextmanager
    async def lifespan(worker: Worker) -> AsyncGenerator[Worker]:
        async with asyncio.TaskGroup() as group:
            if where == "task":
                group.create_task(stop(worker))
            yield worker
            if where == "end":
                await stop(worker)

    @resource
    async def open_it(worker: Worker) -> AsyncGenerator[None]:
        if where == "resource":
            await stop(worker)
        yield
        if where == "resource's end":
            await stop(worker)

    @task
    async def needs_it(it: None = use(open_it)) -> None:
        """Nothing."""

    await client.add_job(needs_it)
    with anyio.fail_after(held.CLOSE_S / 2):
        async with make_worker(needs_it, lifespan=lifespan).start() as worker:
            await (seen.wait_for(JobCompleted) if where != "task" else seen.wait_for(WorkerStopped))
            await worker.stop()

    # At the ends of both the worker has stopped its parts already.
    assert ([1 if "end" in where else 0], []) == (steps, seen.of(ResourceFailed))


async def test_a_stop_of_another_worker_inside_of_it_waits(make_worker: MakeWorker, seen: Seen) -> None:
    """Only its own worker waits for it."""
    inner = make_worker(step)

    @asynccontextmanager
    async def lifespan(_: Worker) -> AsyncGenerator[None]:
        async with inner.start():
            await inner.stop()
            steps.append(len(seen.of(WorkerStopped)))
        yield

    await make_worker(step, lifespan=lifespan).run_once()

    assert [1] == steps


@pytest.mark.parametrize("times", [1, 2])
async def test_a_native_cancellation_does_not_break_off_its_end(make_worker: MakeWorker, times: int) -> None:
    """The worker ends as cancelled, after it."""
    go, running = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def lifespan(_: Worker) -> AsyncGenerator[None]:
        yield
        running.set()
        await go.wait()
        steps.append("closed")

    async def run() -> None:
        await make_worker(step, lifespan=lifespan).run_once()

    async with asyncio.TaskGroup() as group:
        working = group.create_task(run())
        await running.wait()
        for _ in range(times):
            working.cancel()
            for _ in range(10):
                await anyio.lowlevel.checkpoint()
        steps.append(working.done())
        go.set()

    assert ([False, "closed"], True) == (steps, working.cancelled())


async def generator(_: Worker) -> AsyncGenerator[None]:
    """The decorator was forgotten."""
    yield


async def coroutine(_: Worker) -> None:
    """It does not yield."""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (5, "got 5"),
        (generator, "generator is an async generator function: decorate it with @asynccontextmanager"),
        (coroutine, "coroutine is a coroutine function: decorate it with @asynccontextmanager, and yield once"),
    ],
)
def test_another_kind_of_function_is_refused(given: Any, expected: str) -> None:
    """It fails when the worker is made."""
    with pytest.raises(ConfigurationError) as caught:
        Worker("postgresql:///none", [step], lifespan=given)

    assert f"lifespan must be an async context manager function that takes the worker: {expected}" == str(caught.value)
