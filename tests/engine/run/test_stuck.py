"""Stuck handlers: they are reported, their slots are replaced, and their claims stay held until they truly end."""

import asyncio
import threading
from collections.abc import AsyncIterator

import anyio
import asyncpg
import pytest
import uvloop
from anyio.to_thread import run_sync

from asyncq import Client, JobContext, JobState, Task, Worker, task
from asyncq.domain.events import (
    HandlerStuck,
    JobCancelled,
    JobCompleted,
    JobLost,
    JobsReturned,
    JobStarted,
    LoopBlocked,
    TooManyStuck,
    WorkerLost,
    WorkerStopped,
)
from asyncq.engine import supervisor
from asyncq.engine.run import stuck
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen
from tests.support.waiting import LIMIT_S, wait_until


class Stubborn:
    """Tasks whose handlers do not care that they are cancelled."""

    def __init__(self) -> None:
        self.leave = asyncio.Event()
        self.leave_thread = threading.Event()

    async def block_here(self) -> None:
        """Block the handler; stacks must show this line."""
        while not self.leave.is_set():
            try:
                await self.leave.wait()
            except asyncio.CancelledError:
                continue

    def block_in_thread(self) -> None:
        """Block a thread; stacks must show this line."""
        assert self.leave_thread.wait(LIMIT_S)

    @property
    def task(self) -> Task[...]:
        """The task, called `ignore`."""

        @task
        async def ignore() -> None:
            await self.block_here()

        return ignore

    @property
    def plain_task(self) -> Task[...]:
        """A task in threads, called `wait`."""

        @task
        def wait() -> None:
            self.block_in_thread()

        return wait


@task
async def nothing() -> None:
    """The least job."""


@task
def nothing_in_a_thread() -> None:
    """The least job of a plain function."""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers are stuck after a tenth of a second."""
    monkeypatch.setattr(stuck, "STUCK_S", 0.1)


@pytest.fixture
async def stubborn() -> AsyncIterator[Stubborn]:
    """Tasks whose handlers ignore their cancellation; they end with the test at the latest."""
    made = Stubborn()
    yield made
    made.leave.set()
    made.leave_thread.set()


async def stuck_jobs(client: Client) -> list[tuple[int, ...]]:
    """The stuck jobs that the list of workers shows."""
    return [worker.stuck for worker in await client.admin.list_workers()]


async def claimed(db: asyncpg.Connection, schema: str, job_id: int) -> bool:
    """Whether a worker has the claim of a job."""
    return await db.fetchval(f"select locked_by is not null from {schema}._all_jobs() where id = $1", job_id)


async def wait_for_list(client: Client, *expected: tuple[int, ...]) -> None:
    """Wait until the list of workers names these stuck jobs of each."""

    async def says_so() -> bool:
        return await stuck_jobs(client) == [*expected]

    await wait_until(says_so, description=f"the stuck jobs {expected}")


async def test_a_cancelled_handler_that_continues_is_reported_and_listed_and_its_slot_replaced(
    client: Client, make_worker: MakeWorker, seen: Seen, stubborn: Stubborn, db: asyncpg.Connection, schema: str
) -> None:
    """The report has its stack. A worker with two slots still runs two other jobs at once."""
    both = asyncio.Barrier(2)

    @task
    async def meet() -> None:
        await both.wait()

    async with make_worker(stubborn.task, meet, concurrency=2).start():
        added = await client.add_job("ignore")
        await seen.wait_for(JobStarted)
        await client.admin.cancel_jobs([added.id])
        told = await seen.wait_for(HandlerStuck)
        await wait_for_list(client, (added.id,))
        others = [(await client.add_job("meet")).id for _ in range(2)]
        await seen.wait_for(JobCompleted, 2)
        is_held = await claimed(db, schema, added.id)
        stubborn.leave.set()
        await seen.wait_for(JobCancelled)
        await wait_for_list(client, ())

    assert (added.id, "ignore", 1, 0.1) == (told.job_id, told.task, told.attempt, told.stuck_s)
    assert "await self.leave.wait()" in told.stack
    assert (False, True) == ("isolation.py" in told.stack, is_held)
    assert sorted(others) == sorted(seen.ids(JobCompleted))
    # Each beat names the cancelled job again: it is reported once.
    assert ([added.id], [added.id], []) == (seen.ids(JobCancelled), seen.ids(HandlerStuck), seen.of(TooManyStuck))


async def test_a_handler_that_ends_in_time_is_not_stuck(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """Its timer is cancelled."""

    @task
    async def hang() -> None:
        await asyncio.Event().wait()

    async with make_worker(hang).start() as worker:
        added = await client.add_job(hang)
        await seen.wait_for(JobStarted)
        await client.admin.cancel_jobs([added.id])
        await seen.wait_for(JobCancelled)
        assert worker._running is not None
        timers = dict(worker._running.parts.stuck._timers)

    assert ({}, []) == (timers, seen.of(HandlerStuck))


async def test_when_a_stuck_handler_ends_there_are_as_many_loops_as_before(
    client: Client, make_worker: MakeWorker, seen: Seen, stubborn: Stubborn
) -> None:
    """Its own loop ends while its replacement works, so there are never more jobs than the concurrency."""
    release, at_once, most = asyncio.Event(), 0, 0

    @task
    async def count() -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await release.wait()
        at_once -= 1

    async with make_worker(stubborn.task, count, concurrency=2).start() as worker:
        added = await client.add_job("ignore")
        await seen.wait_for(JobStarted)
        await client.admin.cancel_jobs([added.id])
        await seen.wait_for(HandlerStuck)
        for _ in range(4):
            await client.add_job(count)
        await wait_until(lambda: at_once == 2, description="both slots to work")
        stubborn.leave.set()
        await seen.wait_for(JobCancelled)
        assert worker._running is not None
        loops = worker._running.parts.loops.running
        release.set()
        await seen.wait_for(JobCompleted, 4)

    assert (2, 2, 4) == (most, loops, len(seen.of(JobCompleted)))


async def test_the_serial_queue_of_a_stuck_handler_stays_held_until_it_ends(
    client: Client, make_worker: MakeWorker, seen: Seen, stubborn: Stubborn
) -> None:
    """The next job of the queue must not run beside it."""
    async with make_worker(stubborn.task, nothing, concurrency=3).start():
        first = await client.add_job("ignore", queue="q")
        await seen.wait_for(JobStarted)
        second = await client.add_job("nothing", queue="q")
        await client.admin.cancel_jobs([first.id])
        await seen.wait_for(HandlerStuck)
        free = await client.add_job("nothing")
        await seen.wait_for(JobCompleted)
        before = seen.ids(JobCompleted)
        stubborn.leave.set()
        await seen.wait_for(JobCompleted, 2)

    assert ([free.id], [free.id, second.id]) == (before, seen.ids(JobCompleted))


async def test_with_as_many_stuck_handlers_as_slots_the_worker_fetches_no_more_until_one_ends(
    client: Client, make_worker: MakeWorker, seen: Seen, stubborn: Stubborn
) -> None:
    """Its tasks have a serious fault, which the worker reports. Other workers may do better."""
    last = asyncio.Event()

    @task
    async def ignore_longer() -> None:
        while not last.is_set():
            try:
                await last.wait()
            except asyncio.CancelledError:
                continue

    async with make_worker(stubborn.task, ignore_longer, nothing, concurrency=2).start():
        ids = [(await client.add_job(name)).id for name in ("ignore", "ignore_longer")]
        await seen.wait_for(JobStarted, 2)
        await client.admin.cancel_jobs(ids)
        told = await seen.wait_for(TooManyStuck)
        await wait_for_list(client, tuple(ids))
        waits = await client.add_job(nothing, queue="q")  # A slot that it opened before may be on its way back.
        await asyncio.sleep(0.2)
        state = (await client.get_job(waits.id)).state
        stubborn.leave.set()
        await seen.wait_for(JobCompleted)
        after = seen.ids(JobCancelled)
        last.set()

    assert (JobState.AVAILABLE, [ids[0]]) == (state, after)
    assert (tuple(ids), [waits.id], 1) == (told.job_ids, seen.ids(JobCompleted), len(seen.of(TooManyStuck)))


async def test_a_full_worker_closes_its_slot(
    client: Client, make_worker: MakeWorker, seen: Seen, stubborn: Stubborn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It opened the slot while it was idle, and the next job would start beside the stuck ones."""
    monkeypatch.setattr("asyncq.engine.fetch.handoff.BUSY_S", 3600)
    async with make_worker(stubborn.task, nothing, concurrency=1).start() as worker:
        assert worker._running is not None
        handoff = worker._running.parts.handoff
        await wait_until(lambda: handoff.token and not handoff._is_busy, description="a slot")
        stuck = await client.add_job(stubborn.task, queue="q")
        await seen.wait_for(JobStarted)
        token = handoff.token
        await client.admin.cancel_jobs([stuck.id])
        await seen.wait_for(TooManyStuck)
        await wait_until(lambda: not handoff.token, description="the slot to be withdrawn")
        stubborn.leave.set()

    assert token


async def test_claims_that_a_full_worker_had_fetched_are_returned(
    client: Client, make_worker: MakeWorker, seen: Seen, stubborn: Stubborn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would start on the last replaced slot."""
    monkeypatch.setattr("asyncq.engine.fetch.inbox.STALE_S", 3600)
    monkeypatch.setattr("asyncq.engine.fetch.schedule.wanted_now", lambda *_: 3)
    first = await client.add_job("ignore")
    rest = [(await client.add_job(nothing)).id for _ in range(2)]
    async with make_worker(stubborn.task, nothing, concurrency=1).start():
        await seen.wait_for(JobStarted)
        await client.admin.cancel_jobs([first.id])
        await seen.wait_for(TooManyStuck)
        returned = await seen.wait_for(JobsReturned)
        stubborn.leave.set()
        await seen.wait_for(JobCompleted, 2)

    assert (tuple(rest), "too many handlers are stuck") == (returned.job_ids, returned.reason)


async def test_a_thread_that_continues_is_stuck_too_and_another_thread_takes_its_place(
    client: Client, make_worker: MakeWorker, seen: Seen, stubborn: Stubborn
) -> None:
    """Threads are limited as slots are, so the replacement needs its own."""
    async with make_worker(stubborn.plain_task, nothing_in_a_thread, concurrency=2).start() as worker:
        added = await client.add_job("wait")
        await seen.wait_for(JobStarted)
        await client.admin.cancel_jobs([added.id])
        told = await seen.wait_for(HandlerStuck)
        assert worker._running is not None
        threads = worker._running.parts.executor._threads
        during = threads.total_tokens
        other = await client.add_job("nothing_in_a_thread")
        await seen.wait_for(JobCompleted)
        stubborn.leave_thread.set()
        await seen.wait_for(JobCancelled)
        after = threads.total_tokens

    assert ([other.id], [added.id]) == (seen.ids(JobCompleted), seen.ids(JobCancelled))
    assert (True, 3, 2) == ("in block_in_thread" in told.stack, during, after)


async def test_a_handler_that_ignores_that_its_worker_was_declared_dead_is_stuck(
    client: Client, make_worker: MakeWorker, seen: Seen, stubborn: Stubborn, db: asyncpg.Connection, schema: str
) -> None:
    """Its job belongs to another worker, so its result is refused."""
    async with make_worker(stubborn.task, nothing, concurrency=2, lease=1).start():
        added = await client.add_job("ignore", job_key="has a row")
        await seen.wait_for(JobStarted)
        await db.execute(f"delete from {schema}._jobs; delete from {schema}._workers")
        await seen.wait_for(WorkerLost)
        await seen.wait_for(HandlerStuck)
        await wait_for_list(client, (added.id,))
        other = await client.add_job(nothing)
        await seen.wait_for(JobCompleted)
        stubborn.leave.set()
        await seen.wait_for(JobLost)

    assert ([added.id], [other.id]) == (seen.ids(HandlerStuck), seen.ids(JobCompleted))


async def test_a_stop_with_stuck_handlers_ends_within_its_bounds(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    stubborn: Stubborn,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The grace period, and the time for clean-up; the claim is held, and listed, until the lease is over."""
    monkeypatch.setattr(supervisor, "CANCEL_S", 0.2)
    async with make_worker(stubborn.task, nothing, concurrency=2, grace=0.1).start() as worker:
        added = await client.add_job("ignore")
        await seen.wait_for(JobStarted)
        await client.admin.cancel_jobs([added.id])
        await seen.wait_for(HandlerStuck)
        with anyio.fail_after(5):
            await worker.stop()
    is_held, listed = await claimed(db, schema, added.id), await stuck_jobs(client)
    stubborn.leave.set()
    await db.execute(f"update {schema}._workers set last_seen = last_seen - interval '1 hour'")
    await make_worker(nothing).run_once()

    assert (True, [(added.id,)]) == (is_held, listed)
    assert [1, 0] == [event.stuck for event in seen.of(WorkerStopped)]


async def test_a_stuck_handler_that_ends_in_the_grace_period_is_settled(
    client: Client, make_worker: MakeWorker, seen: Seen, stubborn: Stubborn
) -> None:
    """Its result is written like that of any other handler."""

    @task
    async def stubborn_until_told(ctx: JobContext) -> None:
        await stubborn.block_here()

    async with make_worker(stubborn_until_told, concurrency=2).start() as worker, asyncio.TaskGroup() as group:
        added = await client.add_job(stubborn_until_told)
        await seen.wait_for(JobStarted)
        await client.admin.cancel_jobs([added.id])
        await seen.wait_for(HandlerStuck)
        group.create_task(worker.stop())
        await asyncio.sleep(0.05)
        stubborn.leave.set()

    assert ([added.id], [0]) == (seen.ids(JobCancelled), [event.stuck for event in seen.of(WorkerStopped)])


async def test_a_handler_that_had_no_turn_because_another_blocked_the_loop_is_not_stuck(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Only time in which the handler could have ended counts."""

    @task
    async def block_when_cancelled() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            threading.Event().wait(0.5)
            await asyncio.sleep(0.02)

    async with make_worker(block_when_cancelled, blocked_after=0.1).start():
        added = await client.add_job(block_when_cancelled)
        await seen.wait_for(JobStarted)
        await client.admin.cancel_jobs([added.id])
        await seen.wait_for(JobCancelled)
        await seen.wait_for(LoopBlocked)

    assert ([], [added.id]) == (seen.of(HandlerStuck), [event.job_id for event in seen.of(LoopBlocked)])


async def test_two_workers_in_one_loop_have_stuck_handlers_of_their_own(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen, stubborn: Stubborn
) -> None:
    """One of them stops fetching; the other one goes on."""
    other = Seen()
    async with make_worker(stubborn.task, concurrency=1).start():
        added = await client.add_job("ignore")
        await seen.wait_for(JobStarted)
        async with Worker(dsn, [nothing], schema=schema, observers=[other], poll=60).start():
            await client.admin.cancel_jobs([added.id])
            await seen.wait_for(TooManyStuck)
            await wait_for_list(client, (added.id,), ())
            await client.add_job(nothing)
            await other.wait_for(JobCompleted)
        stubborn.leave.set()

    assert ([], [added.id]) == (other.of(HandlerStuck), seen.ids(HandlerStuck))


async def test_uvloop_knows_stuck_handlers_too(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """Its tasks are asyncio's."""
    leave = threading.Event()

    @task
    async def ignore() -> None:
        while not leave.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    def run() -> None:
        async def work() -> None:
            async with make_worker(ignore, nothing, concurrency=2).start():
                await wait_until(leave.is_set, description="the test")

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(work())

    async with asyncio.TaskGroup() as group:
        group.create_task(run_sync(run))
        added = await client.add_job("ignore")
        await seen.wait_for(JobStarted)
        await client.admin.cancel_jobs([added.id])
        told = await seen.wait_for(HandlerStuck)
        await client.add_job(nothing)
        await seen.wait_for(JobCompleted)
        leave.set()

    assert ([added.id], True) == (seen.ids(JobCancelled), "in ignore" in told.stack)
