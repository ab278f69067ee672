"""The supervisor: parts start in order, end in order, and their errors are raised unchanged."""

import asyncio
import os
import socket
from typing import Any

import anyio
import asyncpg
import pytest

from asyncq import (
    AsyncqError,
    Client,
    ConstantRetry,
    JobContext,
    JobState,
    SchemaMissing,
    Snooze,
    StoreUnavailable,
    Worker,
    task,
)
from asyncq.domain.events import (
    Event,
    JobCompleted,
    JobDiscarded,
    JobInterrupted,
    JobRetried,
    JobStarted,
    ListenConnected,
    ListenLost,
    TasksLeftBehind,
    WorkerCrashed,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
)
from asyncq.engine import supervisor
from asyncq.engine.fetch import fetcher
from asyncq.engine.maintenance import rounds
from asyncq.engine.settle import completer
from tests.engine.conftest import MakeWorker
from tests.support.faults import link_to
from tests.support.seen import Seen

NOWHERE = "postgresql://nobody@/nowhere?host=/nonexistent"


@task
async def nothing() -> None:
    """The least job."""


def kinds(seen: Seen, *wanted: type[Event]) -> list[type[Event]]:
    """The types of the events, of those that are wanted, in their order."""
    return [type(event) for event in seen.events if isinstance(event, wanted)]


async def test_the_worker_listens_before_it_reports_that_it_has_started(make_worker: MakeWorker, seen: Seen) -> None:
    """Jobs that are added after this event are notified."""
    async with make_worker(nothing).start():
        pass

    assert [ListenConnected, WorkerStarted] == kinds(seen, ListenConnected, WorkerStarted)


async def test_a_missing_schema_is_raised_by_run_outside_of_a_group(dsn: str) -> None:
    """A caller can catch it and suggest `asyncq migrate`; in a group it would be hard to catch."""
    worker = Worker(dsn, [nothing], schema="nobody_made_this")

    with pytest.raises(SchemaMissing, match="asyncq migrate"):
        await worker.run()


async def test_a_server_that_cannot_be_reached_is_an_error_of_run() -> None:
    """It is an error at the start only. Later outages are waited for."""
    with pytest.raises(StoreUnavailable):
        await Worker(NOWHERE, [nothing]).run()


async def test_an_error_at_the_start_is_raised_by_the_block_of_start() -> None:
    """A service sees the same error as `run()` raises."""
    with pytest.raises(StoreUnavailable):
        async with Worker(NOWHERE, [nothing]).start():
            raise AssertionError("the block was entered")


async def test_an_error_at_the_start_is_raised_by_run_once() -> None:
    """A script that calls `run_once` reports its errors itself."""
    with pytest.raises(StoreUnavailable):
        await Worker(NOWHERE, [nothing]).run_once()


async def test_the_row_of_a_worker_exists_while_it_runs(
    make_worker: MakeWorker, db: asyncpg.Connection, schema: str
) -> None:
    """Operators see who works on what, and from where; a worker that has left owes nothing."""
    rows = f"select tasks, host, pid, concurrency from {schema}._workers"

    async with make_worker(nothing, concurrency=7).start():
        during = [tuple(row) for row in await db.fetch(rows)]
    after = await db.fetch(rows)

    assert [(["nothing"], socket.gethostname(), os.getpid(), 7)] == during
    assert [] == after


async def test_cancelling_run_stops_in_order(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """A cancelled `run()` must not leave claims: running handlers may finish, other claims are returned."""
    entered, leave = asyncio.Event(), asyncio.Event()

    @task
    async def wait() -> None:
        entered.set()
        await leave.wait()

    added = await client.add_job(wait)
    async with anyio.create_task_group() as group:
        group.start_soon(make_worker(wait).run)
        await entered.wait()
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            stopping = await seen.wait_for(WorkerStopping)
            leave.set()
            await seen.wait_for(WorkerStopped)

    assert ("cancelled", 1) == (stopping.reason, stopping.running)
    assert [added.id] == seen.ids(JobCompleted)


async def test_a_plain_task_cancel_of_run_stops_in_order_too(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Services on plain asyncio cancel the task; being cancelled again and again changes nothing."""
    entered, leave = asyncio.Event(), asyncio.Event()

    @task
    async def wait() -> None:
        entered.set()
        await leave.wait()

    added = await client.add_job(wait)
    running = asyncio.get_running_loop().create_task(make_worker(wait).run())
    await entered.wait()
    for _ in range(3):
        running.cancel()
        await asyncio.sleep(0)
    await seen.wait_for(WorkerStopping)
    leave.set()

    with pytest.raises(asyncio.CancelledError):
        await running
    assert [added.id] == seen.ids(JobCompleted)


class Broken(Exception):
    """A defect of our own."""


@pytest.mark.leaves_something
@pytest.mark.parametrize("part", ["fetcher", "completer", "maintenance"])
async def test_the_failure_of_a_part_ends_the_worker_with_its_own_error(
    client: Client, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """A worker that limps on without its fetcher or completer would be worse than none."""

    async def fail(*args: Any, **options: Any) -> Any:
        raise Broken(part)

    at = {
        "fetcher": (fetcher, "next_due_s"),
        "completer": (completer.store, "complete"),
        "maintenance": (rounds, "unknown_tasks"),
    }
    monkeypatch.setattr(*at[part], fail)
    await client.add_job(nothing)

    with pytest.raises(Broken, match=part):
        await make_worker(nothing).run()


@pytest.mark.leaves_something
async def test_a_part_that_is_cancelled_from_inside_does_not_end_the_worker_in_silence(
    make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    """A task group takes a CancelledError for its own cancellation: `run()` would return as if all were well."""

    async def fail(*args: Any, **options: Any) -> Any:
        raise asyncio.CancelledError

    monkeypatch.setattr(fetcher, "next_due_s", fail)

    with pytest.raises(AsyncqError, match="cancelled from inside"):
        await make_worker(nothing).run()
    assert 1 == len(seen.of(WorkerCrashed))


@pytest.mark.leaves_something
async def test_the_failure_of_a_part_leaves_no_handler_and_no_heartbeat(
    client: Client, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch, db: asyncpg.Connection, schema: str
) -> None:
    """A remaining heartbeat would prevent the rescue of the claims. A remaining handler would run beside it."""
    ends: list[str] = []
    both = asyncio.Event()

    @task
    async def wait() -> None:
        try:
            both.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ends.append("cancelled")

    async def fail(*args: Any, **options: Any) -> Any:
        raise Broken

    async def break_it() -> None:
        await both.wait()
        monkeypatch.setattr(completer.store, "complete", fail)
        await client.add_job(nothing)

    await client.add_job(wait)
    async with anyio.create_task_group() as group:
        group.start_soon(break_it)
        with pytest.raises(Broken):
            await make_worker(wait, nothing).run()
    beats = await db.fetchval(
        "select count(*) from pg_stat_activity where application_name = $1", f"{schema} heartbeat"
    )

    assert (["cancelled"], 0) == (ends, beats)


@pytest.mark.leaves_something
async def test_run_once_that_cannot_fetch_any_more_raises_that_error(
    client: Client, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must not be in a group, so that `except StoreUnavailable` catches it."""

    async def fail(*args: Any, **options: Any) -> Any:
        raise StoreUnavailable("away")

    monkeypatch.setattr(supervisor, "GIVE_UP_S", 0.1)
    monkeypatch.setattr(fetcher, "fetch_jobs", fail)

    with pytest.raises(StoreUnavailable):
        await make_worker(nothing).run_once()


async def test_an_error_of_the_block_of_start_is_raised_outside_of_a_group(make_worker: MakeWorker, seen: Seen) -> None:
    """The inner task group is not visible: `except ValueError` around the block works."""
    with pytest.raises(ValueError, match="of the service"):
        async with make_worker(nothing).start():
            raise ValueError("of the service")

    assert 1 == len(seen.of(WorkerStopped))


async def test_stop_waits_until_the_worker_has_ended(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """A service may close its resources after it."""
    async with make_worker(nothing).start() as worker:
        added = await client.add_job(nothing)
        await seen.wait_for(JobStarted)
        await worker.stop()
        ended = bool(seen.of(WorkerStopped))

    assert ended
    assert [added.id] == seen.ids(JobCompleted)


async def test_stop_of_a_worker_that_does_not_run_returns(make_worker: MakeWorker, seen: Seen) -> None:
    """Clean-up code calls it in any case."""
    worker = make_worker(nothing)
    await worker.stop()
    await worker.run_once()
    await worker.stop()

    assert 1 == len(seen.of(WorkerStopped))


@pytest.mark.parametrize("deep", [False, True])
async def test_stop_from_a_handler_only_asks(client: Client, make_worker: MakeWorker, seen: Seen, deep: bool) -> None:
    """Waiting for the worker there would wait for the handler itself, until the grace period ends."""
    after: list[bool] = []

    @task
    async def stop_it() -> None:
        if deep:
            async with asyncio.TaskGroup() as group:
                group.create_task(worker.stop())
        else:
            await worker.stop()
        after.append(bool(seen.of(WorkerStopped)))

    added = await client.add_job(stop_it)
    worker = make_worker(stop_it)
    await worker.run()

    assert [False] == after
    assert ([added.id], []) == (seen.ids(JobCompleted), seen.ids(JobInterrupted))


async def test_a_handler_may_wait_for_the_stop_of_another_worker(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Only its own worker waits for the handler."""
    ended: list[bool] = []

    @task
    async def stop_the_other() -> None:
        await other.stop()
        ended.append(len(seen.of(WorkerStopped)) == 1)

    async with make_worker(nothing).start() as other:
        await client.add_job(stop_the_other)
        await make_worker(stop_the_other).run_once()

    assert [True] == ended


async def test_one_worker_object_can_run_twice(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """Tests and scripts do so. Each run registers a new worker."""
    worker = make_worker(nothing)
    for _ in range(2):
        await client.add_job(nothing)
        await worker.run_once()

    assert 2 == len({event.worker_id for event in seen.of(WorkerStarted)})
    assert 2 == len(seen.of(JobCompleted))


async def test_two_workers_in_one_loop_leave_each_other_s_handlers_alone(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """A worker that stops cancels only the asyncio tasks that its own handlers left behind."""
    entered, leave = asyncio.Event(), asyncio.Event()

    @task
    async def wait_in_a_task() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(leave.wait())
            entered.set()

    added = await client.add_job(wait_in_a_task)
    first = make_worker(nothing)
    async with first.start(), make_worker(wait_in_a_task).start():
        await entered.wait()
        await first.stop()
        left_behind = seen.of(TasksLeftBehind)
        leave.set()
        await seen.wait_for(JobCompleted)

    assert ([], [added.id]) == (left_behind, seen.ids(JobCompleted))


async def test_a_stop_while_the_database_is_away_ends_without_an_error(
    dsn: str, schema: str, db: asyncpg.Connection, seen: Seen
) -> None:
    """Servers are restarted together: the worker's row is left to its lease, the exit code is that of a clean stop."""
    async with link_to(dsn) as link:
        worker = Worker(link.dsn, [nothing], schema=schema, observers=[seen], poll=60)
        async with worker.start():
            link.refuse("fetch")
            link.refuse("listen")
            await seen.wait_for(ListenLost)
    left = await db.fetchval(f"with gone as (delete from {schema}._workers returning id) select count(*) from gone")

    assert (1, 1) == (len(seen.of(WorkerStopped)), left)


async def test_run_once_drains_named_queues(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """Each job of a queue becomes due when the one before it is settled, which counts."""
    order: list[int] = []

    @task(queue="line")
    async def note(number: int) -> None:
        order.append(number)

    for number in range(5):
        await client.add_job(note, number)
    await make_worker(note).run_once()

    assert [0, 1, 2, 3, 4] == order


async def test_run_once_drains_a_queue_whose_jobs_fail(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """A failed job waits for its retry and frees its queue: the next one is runnable now, not at the next poll."""

    @task(queue="line")
    async def fail() -> None:
        raise OSError

    @task(queue="line")
    async def snooze() -> None:
        raise Snooze(3600)

    ids = [(await client.add_job(each)).id for each in (fail, snooze, fail, nothing)]
    await make_worker(fail, snooze, nothing).run_once()

    assert ids == sorted(seen.ids(JobStarted))


async def test_run_once_runs_jobs_that_are_added_meanwhile(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """Jobs that a job adds are part of the work."""

    @task
    async def spawn(ctx: JobContext, generations: int) -> None:
        if generations:
            await ctx.add_job("spawn", {"generations": generations - 1})

    await client.add_job("spawn", {"generations": 3})
    await make_worker(spawn).run_once()

    assert 4 == len(seen.of(JobCompleted))


async def test_run_once_runs_retries_that_are_due_and_leaves_the_others(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """A retry without a wait is runnable; one that waits is not."""

    @task(max_attempts=3, retry=ConstantRetry(0))
    async def at_once() -> None:
        raise OSError

    @task(max_attempts=3, retry=ConstantRetry(3600))
    async def later() -> None:
        raise OSError

    await client.add_job(at_once)
    waiting = await client.add_job(later)
    await make_worker(at_once, later).run_once()

    assert (3, 1) == (len(seen.of(JobRetried)), len(seen.of(JobDiscarded)))
    assert JobState.RETRYABLE == (await client.get_job(waiting.id)).state


async def test_run_once_ends_after_the_last_write_was_committed(
    client: Client, make_worker: MakeWorker, db: asyncpg.Connection, schema: str
) -> None:
    """A script reads the tables next."""
    for _ in range(50):
        await client.add_job(nothing)
    await make_worker(nothing).run_once()

    assert 0 == await db.fetchval(f"select count(*) from {schema}._all_jobs()")


async def test_run_once_can_be_stopped_while_a_job_takes_long(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The stop must work although no job makes progress."""
    entered = asyncio.Event()

    @task
    async def take_long() -> None:
        entered.set()
        await asyncio.Event().wait()

    async def stop() -> None:
        await entered.wait()
        await worker.stop()

    added = await client.add_job(take_long)
    worker = make_worker(take_long, grace=0)
    async with anyio.create_task_group() as group:
        group.start_soon(worker.run_once)
        group.start_soon(stop)

    assert [added.id] == seen.ids(JobInterrupted)


async def test_run_once_without_jobs_ends(make_worker: MakeWorker, seen: Seen) -> None:
    """The usual case of a cron line."""
    await make_worker(nothing).run_once()

    assert "nothing left to do" == seen.of(WorkerStopping)[0].reason


async def test_a_worker_that_runs_refuses_to_run_again(make_worker: MakeWorker) -> None:
    """Two runs of one object would share one request to stop."""
    async with make_worker(nothing).start() as worker:
        with pytest.raises(Exception, match="already runs"):
            await worker.run_once()
