"""Resources: opened when handlers need them, closed in reverse, however a run ends."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from asyncq import Client, JobState, Worker, resource, task, use
from asyncq.domain.events import JobCancelled, JobCompleted, JobInterrupted, JobRetried, ResourceFailed, TasksLeftBehind
from asyncq.engine.base import held
from asyncq.engine.run import resources
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen
from tests.support.waiting import wait_until

steps: list[str] = []


@pytest.fixture(autouse=True)
def no_steps() -> None:
    """No test sees the steps of another one."""
    steps.clear()


@resource
async def open_pool() -> AsyncGenerator[str]:
    """A resource of the worker."""
    steps.append("open pool")
    await asyncio.sleep(0)
    yield "pool"
    steps.append("close pool")


@resource
async def open_cache(pool: str = use(open_pool)) -> AsyncGenerator[str]:
    """Another one, which uses the first."""
    steps.append("open cache")
    yield f"cache of {pool}"
    steps.append("close cache")


@resource(scope="job")
async def open_session(cache: str = use(open_cache)) -> AsyncGenerator[str]:
    """A resource of a job, which uses one of the worker."""
    steps.append("open session")
    try:
        yield f"session of {cache}"
    except BaseException as error:
        steps.append(f"session saw {type(error).__name__}")
        raise
    finally:
        steps.append("close session")


@resource(scope="job")
async def open_unit(session: str = use(open_session)) -> AsyncGenerator[str]:
    """Another one, which uses the first."""
    steps.append("open unit")
    yield f"unit of {session}"
    steps.append("close unit")


@task
async def with_both(name: str, unit: str = use(open_unit), session: str = use(open_session)) -> None:
    """Takes two resources of the job."""
    steps.append(f"{name}: {unit}, {session}")


@task
async def with_cache(name: str, cache: str = use(open_cache), *, pool: str = use(open_pool)) -> None:
    """Takes two resources of the worker."""
    steps.append(f"{name}: {cache}, {pool}")


@task
def in_a_thread(pool: str = use(open_pool)) -> None:
    """A plain function."""
    steps.append(pool)


@task
async def failing(session: str = use(open_session)) -> None:
    """Fails."""
    raise OSError("no")


async def test_those_of_the_worker_are_opened_once_and_closed_in_reverse_after_the_last_run(
    client: Client, make_worker: MakeWorker
) -> None:
    """Concurrent first uses wait for one opening."""
    await client.add_jobs([with_cache.job(name=str(number)) for number in range(8)])
    await make_worker(with_cache).run_once()

    assert ["open pool", "open cache"] == steps[:2]
    assert {f"{number}: cache of pool, pool" for number in range(8)} == {*steps[2:-2]}
    assert ["close cache", "close pool"] == steps[-2:]


async def test_those_that_no_job_uses_are_not_opened(client: Client, make_worker: MakeWorker) -> None:
    """A worker of many tasks may run few of them."""
    await client.add_job(in_a_thread)
    await make_worker(in_a_thread, with_both).run_once()

    assert ["open pool", "pool", "close pool"] == steps


async def test_those_of_a_job_are_opened_around_its_run_once_and_closed_in_reverse(
    client: Client, make_worker: MakeWorker
) -> None:
    """The handler and the other resources of its job share them."""
    await client.add_jobs([with_both.job(name="one"), with_both.job(name="two")])
    await make_worker(with_both, concurrency=1).run_once()

    session = "session of cache of pool"
    around = [["open session", "open unit", f"{name}: unit of {session}, {session}"] for name in ("one", "two")]
    closed = ["close unit", "close session"]
    expected = ["open pool", "open cache", *around[0], *closed, *around[1], *closed, "close cache", "close pool"]
    assert expected == steps


async def test_the_exception_of_a_handler_is_raised_in_the_resource_of_its_job(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """It rolls back what the handler did."""
    await client.add_job(failing)
    await make_worker(failing).run_once()

    (event,) = seen.of(JobRetried)
    assert event.error.startswith("OSError: no\n")
    assert ["open session", "session saw OSError", "close session"] == steps[2:5]


async def test_an_opening_that_fails_fails_the_attempt_and_the_next_one_tries_again(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """A server that is down at the first job must not end the worker."""
    tries: list[str] = []

    @resource
    async def open_once_it_is_there() -> AsyncGenerator[str]:
        tries.append("try")
        if len(tries) == 1:
            raise OSError("down")
        yield "there"

    @task(retry=[0.0])
    async def needs_it(value: str = use(open_once_it_is_there)) -> None:
        steps.append(value)

    added = await client.add_job(needs_it)
    async with make_worker(needs_it).start():
        await seen.wait_for(JobCompleted)

    (event,) = seen.of(JobRetried)
    assert event.error.startswith("OSError: down\n")
    assert ([added.id], ["there"], 2) == (seen.ids(JobCompleted), steps, len(tries))


@resource(scope="job")
async def open_slowly() -> AsyncGenerator[str]:
    """Takes some turns of the event loop to close."""
    yield "slow"
    await asyncio.sleep(0)


@resource(scope="job")
async def open_careful(slow: str = use(open_slowly)) -> AsyncGenerator[str]:
    """Notes that it was closed to its end."""
    try:
        yield slow
    finally:
        await asyncio.sleep(0)
        steps.append("closed")


@task
async def waiting(careful: str = use(open_careful)) -> None:
    """Runs until it is cancelled."""
    steps.append("waits")
    await asyncio.Event().wait()


@pytest.mark.parametrize("how", ["cancelled", "stopped"])
async def test_those_of_a_cancelled_job_are_closed(
    client: Client, make_worker: MakeWorker, seen: Seen, how: str
) -> None:
    """A session that stays open would hold its connection."""
    added = await client.add_job(waiting)
    async with make_worker(waiting, grace=0).start():
        await wait_until(lambda: steps == ["waits"], description="the run")
        if how == "cancelled":
            await client.admin.cancel_jobs([added.id])
            await seen.wait_for(JobCancelled)

    assert ["waits", "closed"] == steps
    assert [how == "stopped"] == [bool(seen.of(JobInterrupted))]


async def test_a_resource_of_a_cancelled_job_that_does_not_close_is_given_up(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that stops cannot wait for ever."""
    monkeypatch.setattr(resources, "CLOSE_OF_JOB_S", 0.05)

    @resource(scope="job")
    async def open_stubborn() -> AsyncGenerator[str]:
        try:
            yield "stubborn"
        finally:
            await asyncio.Event().wait()

    @task
    async def needs_it(value: str = use(open_stubborn)) -> None:
        steps.append("waits")
        await asyncio.Event().wait()

    added = await client.add_job(needs_it)
    async with make_worker(needs_it, grace=0).start():
        await wait_until(lambda: steps == ["waits"], description="the run")

    (event,) = seen.of(ResourceFailed)
    assert f"a resource of job {added.id}" == event.name
    assert "TimeoutError: it was not closed within 0.05 s" == event.error
    assert JobState.AVAILABLE == (await client.get_job(added.id)).state


async def test_a_cancelled_first_user_does_not_end_an_opening(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Another job waits for the same opening."""
    go = asyncio.Event()

    @resource
    async def open_late() -> AsyncGenerator[str]:
        steps.append("opening")
        await go.wait()
        yield "late"

    @task
    async def needs_it(name: str, value: str = use(open_late)) -> None:
        steps.append(f"{name}: {value}")

    first = await client.add_job(needs_it.job(name="first"))
    async with make_worker(needs_it).start():
        await wait_until(lambda: steps == ["opening"], description="the opening")
        await client.admin.cancel_jobs([first.id])
        await seen.wait_for(JobCancelled)
        second = await client.add_job(needs_it.job(name="second"))
        go.set()
        await seen.wait_for(JobCompleted)

    assert (["opening", "second: late"], [second.id]) == (steps, seen.ids(JobCompleted))


async def test_a_resource_of_the_worker_may_hold_a_task_group(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """It is left in the task that entered it, and its tasks are not those of the handler that used it first."""

    @resource
    async def open_group() -> AsyncGenerator[str]:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            yield "group"
            group.cancel_scope.cancel()

    @task
    async def needs_it(value: str = use(open_group)) -> None:
        steps.append(value)

    await client.add_job(needs_it)
    await make_worker(needs_it).run_once()

    assert (["group"], [], []) == (steps, seen.of(ResourceFailed), seen.of(TasksLeftBehind))


async def test_a_resource_that_ends_while_it_is_in_use_is_opened_again(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """A background task of it failed: the event says so, and later jobs get a new one."""
    fail = asyncio.Event()

    async def work() -> None:
        await fail.wait()
        raise OSError("lost")

    @resource
    async def open_group() -> AsyncGenerator[int]:
        steps.append("open")
        async with anyio.create_task_group() as group:
            if len(steps) == 1:
                group.start_soon(work)
            yield 1

    @task
    async def needs_it(value: int = use(open_group)) -> None:
        """Nothing."""

    async with make_worker(needs_it).start():
        await client.add_job(needs_it)
        await seen.wait_for(JobCompleted)
        fail.set()
        event = await seen.wait_for(ResourceFailed)
        await client.add_job(needs_it)
        await seen.wait_for(JobCompleted, 2)

    assert (["open", "open"], "ExceptionGroup") == (steps, event.error.partition(":")[0])


async def test_an_error_at_the_end_of_a_resource_is_an_event_and_the_others_are_closed(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that fails or hangs must not keep another one open."""
    monkeypatch.setattr(held, "CLOSE_S", 0.05)

    @resource
    async def open_failing(pool: str = use(open_pool)) -> AsyncGenerator[str]:
        yield pool
        raise OSError("no")

    @resource
    async def open_hanging(pool: str = use(open_failing)) -> AsyncGenerator[str]:
        yield pool
        await asyncio.Event().wait()

    @task
    async def needs_it(value: str = use(open_hanging)) -> None:
        steps.append(value)

    await client.add_job(needs_it)
    await make_worker(needs_it).run_once()

    assert ["open pool", "pool", "close pool"] == steps
    assert ["TimeoutError: it was not closed within 0.05 s", "OSError: no"] == [
        event.error for event in seen.of(ResourceFailed)
    ]
    assert ["open_hanging", "open_failing"] == [event.name.rpartition(".")[2] for event in seen.of(ResourceFailed)]


async def test_a_native_cancellation_of_the_worker_does_not_break_off_the_closing(
    client: Client, make_worker: MakeWorker
) -> None:
    """A pool that stays open would hold its connections as long as the process lives."""
    go, closing = asyncio.Event(), asyncio.Event()

    @resource
    async def open_slow(pool: str = use(open_pool)) -> AsyncGenerator[str]:
        yield pool
        closing.set()
        await go.wait()
        steps.append("close slow")

    @task
    async def needs_it(value: str = use(open_slow)) -> None:
        """Nothing."""

    async def run() -> None:
        await make_worker(needs_it).run_once()

    await client.add_job(needs_it)
    async with asyncio.TaskGroup() as group:
        working = group.create_task(run())
        await closing.wait()
        for _ in range(2):
            working.cancel()
            for _ in range(10):
                await anyio.lowlevel.checkpoint()
        go.set()

    assert (["open pool", "close slow", "close pool"], True) == (steps, working.cancelled())


async def test_a_cancellation_that_arrives_while_those_of_a_job_are_closed_limits_the_closing(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cancellation ends one wait; what the closing waits for after that must not keep the worker from stopping."""
    monkeypatch.setattr(resources, "CLOSE_OF_JOB_S", 0.05)

    @resource(scope="job")
    async def open_outer() -> AsyncGenerator[str]:
        try:
            yield "outer"
        finally:
            await asyncio.Event().wait()

    @resource(scope="job")
    async def open_inner(outer: str = use(open_outer)) -> AsyncGenerator[str]:
        yield outer
        steps.append("closing")
        await asyncio.Event().wait()

    @task
    async def needs_it(value: str = use(open_inner)) -> None:
        """Nothing."""

    added = await client.add_job(needs_it)
    async with make_worker(needs_it).start():
        await wait_until(lambda: steps == ["closing"], description="the closing")
        await client.admin.cancel_jobs([added.id])
        await seen.wait_for(JobCancelled)

    (event,) = seen.of(ResourceFailed)
    assert f"a resource of job {added.id}" == event.name


async def test_a_test_may_replace_a_resource(client: Client, make_worker: MakeWorker) -> None:
    """By a value, or by another resource that uses the first one."""

    @resource
    async def counted(pool: str = use(open_pool)) -> AsyncGenerator[str]:
        yield f"counted {pool}"
        steps.append("close counted")

    await client.add_job(with_cache.job(name="value"))
    await make_worker(with_cache, overrides={open_pool: "fake"}).run_once()
    await client.add_job(with_cache.job(name="other"))
    await make_worker(with_cache, overrides={open_cache: counted}).run_once()

    assert [
        "open cache",
        "value: cache of fake, fake",
        "close cache",
        "open pool",
        "other: counted pool, pool",
        "close counted",
        "close pool",
    ] == steps


async def test_a_resource_receives_the_value_of_the_lifespan(client: Client, make_worker: MakeWorker) -> None:
    """The lifespan reads the settings; the resources open what these name."""

    @asynccontextmanager
    async def lifespan(_: Worker) -> AsyncGenerator[dict[str, str]]:
        yield {"url": "https://example.org"}
        steps.append("close lifespan")

    @resource
    async def open_http(settings: dict[str, str]) -> AsyncGenerator[str]:
        yield settings["url"]
        steps.append("close http")

    @resource(scope="job")
    async def open_request(settings: dict[str, str], http: str = use(open_http)) -> AsyncGenerator[tuple[str, ...]]:
        yield (http, *settings)

    @task
    async def fetch(request: tuple[str, ...] = use(open_request)) -> None:
        steps.extend(request)

    await client.add_job(fetch)
    await make_worker(fetch, lifespan=lifespan).run_once()

    assert ["https://example.org", "url", "close http", "close lifespan"] == steps
