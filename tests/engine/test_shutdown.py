"""The shutdown: running handlers may finish within the grace period, then they are cancelled.

No job is lost or runs twice.
"""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import pytest

from asyncq import Client, JobContext, JobState, StoreUnavailable, Worker, task
from asyncq.domain.events import (
    GraceExceeded,
    JobCompleted,
    JobDiscarded,
    JobInterrupted,
    JobRetried,
    JobsReturned,
    JobStarted,
    MaintenanceFailed,
    WorkerStopped,
    WorkerStopping,
)
from asyncq.domain.job import Claim
from asyncq.domain.outcome import Settlement
from asyncq.engine import supervisor
from asyncq.engine.fetch import inbox, schedule
from asyncq.engine.shutdown import StopRequest
from asyncq.store import database
from tests.engine.conftest import MakeWorker
from tests.engine.fetch.test_fetcher import fetch_ahead, intercept
from tests.support.faults import link_to
from tests.support.seen import Seen
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]


@task
async def nothing() -> None:
    """The least job."""


class Program:
    """A worker in a process of its own."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.lines: list[str] = []

    async def says(self, *words: str) -> None:
        """Read its output until it has printed all of these lines, in any order."""
        wanted = set(words)
        assert self.process.stdout is not None
        with anyio.fail_after(30):
            while wanted - set(self.lines):
                line = (await self.process.stdout.readline()).decode()
                assert line, f"it ended without {wanted - set(self.lines)}: {self.lines}"
                self.lines.append(line.strip())


@asynccontextmanager
async def program(dsn: str, schema: str, grace: float) -> AsyncIterator[Program]:
    """Such a process, killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.worker_program", dsn, schema, str(grace), stdout=PIPE, cwd=ROOT
    )
    try:
        yield Program(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


# Signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_at_a_signal_a_running_job_finishes_and_the_process_ends_well(
    dsn: str, schema: str, client: Client, db: asyncpg.Connection, number: signal.Signals
) -> None:
    """A deploy must cost no job; Ctrl-C in a terminal is the same."""
    async with program(dsn, schema, grace=25) as worker:
        added = await client.add_job("hold", {"how": "finish on request"})
        await worker.says(f"started {added.id}")
        worker.process.send_signal(number)
        await worker.says(f"cleaned up {added.id}", "event JobCompleted", "event WorkerStopped", "ended")
        code = await worker.process.wait()

    assert (0, 0) == (code, await db.fetchval(f"select count(*) from {schema}._all_jobs()"))


async def test_a_handler_that_does_not_finish_within_the_grace_period_is_cancelled_and_can_clean_up(
    dsn: str, schema: str, client: Client, db: asyncpg.Connection
) -> None:
    """A single cancellation lets `finally: await ...` work. The job is returned without losing an attempt."""
    async with program(dsn, schema, grace=0.1) as worker:
        added = await client.add_job("hold", {"how": "for ever"})
        await worker.says(f"started {added.id}")
        worker.process.send_signal(signal.SIGTERM)
        await worker.says("event GraceExceeded", f"cleaned up {added.id}", "event JobInterrupted", "ended")
        code = await worker.process.wait()
    row = await db.fetchrow(
        f"""
        select attempts, interruptions, locked_by, run_at <= now() as is_due, last_error
        from {schema}._all_jobs() where id = $1""",
        added.id,
    )

    assert (0, (0, 1, None, True, None)) == (code, tuple(row or ()))


async def test_a_second_signal_ends_the_grace_period(dsn: str, schema: str, client: Client) -> None:
    """A second Ctrl-C means do not wait. The handler may still clean up."""
    async with program(dsn, schema, grace=3600) as worker:
        added = await client.add_job("hold", {"how": "for ever"})
        await worker.says(f"started {added.id}")
        worker.process.send_signal(signal.SIGINT)
        await worker.says("event WorkerStopping")
        worker.process.send_signal(signal.SIGINT)
        await worker.says(f"cleaned up {added.id}", "event JobInterrupted", "ended")
        code = await worker.process.wait()

    assert (0, JobState.AVAILABLE) == (code, (await client.get_job(added.id)).state)


async def test_a_signal_before_the_worker_has_started_stops_it(dsn: str, schema: str) -> None:
    """Supervisors that restart in a loop send signals at any time, so they are handled before the first connection."""
    async with program(dsn, schema, grace=1) as worker:
        await worker.says("event ListenConnected")
        worker.process.send_signal(signal.SIGTERM)
        await worker.says("ended")

        assert 0 == await worker.process.wait()


async def test_asking_twice_ends_the_grace_period() -> None:
    """The request keeps its first reason."""
    stop = StopRequest()
    stop.ask("first")
    stop.ask("second")
    await stop.asked.wait()
    await stop.forced.wait()

    assert "first" == stop.reason


# Handlers


async def test_running_jobs_may_finish_within_the_grace_period(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Their results are written before the worker ends."""
    leave = asyncio.Event()

    @task
    async def wait(ctx: JobContext) -> None:
        await ctx.cancelled.wait()
        await leave.wait()

    async with make_worker(wait).start() as worker, asyncio.TaskGroup() as group:
        added = await client.add_job(wait)
        await seen.wait_for(JobStarted)
        group.create_task(worker.stop())
        await seen.wait_for(WorkerStopping)
        leave.set()

    assert ([added.id], []) == (seen.ids(JobCompleted), seen.of(GraceExceeded))


async def test_handlers_get_the_signal_at_once_although_a_fetch_is_in_flight(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a dead connection that fetch would use half a minute of their grace period."""
    fetching = asyncio.Event()
    told = asyncio.Event()

    @task
    async def wait(ctx: JobContext) -> None:
        await ctx.cancelled.wait()
        told.set()

    async def hang_until_told(claims: list[Claim]) -> None:
        if seen.of(JobStarted):
            fetching.set()
            await told.wait()

    intercept(monkeypatch, hang_until_told)
    async with make_worker(wait).start() as worker:
        await client.add_job(wait)
        await seen.wait_for(JobStarted)
        await client.add_job("unknown")
        await fetching.wait()
        with anyio.fail_after(10):
            await worker.stop()

    assert 1 == len(seen.of(JobCompleted))


async def test_a_connection_that_hangs_while_it_is_opened_does_not_keep_the_worker_from_stopping(
    dsn: str, schema: str, client: Client, seen: Seen, db: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was sent, so nothing can be lost. Only sent statements are waited for."""
    monkeypatch.setattr(database, "CONNECT_TIMEOUT_S", 60.0)
    monkeypatch.setattr(supervisor, "FLUSH_S", 0.2)
    async with (
        link_to(dsn) as link,
        Worker(link.dsn, [nothing], schema=schema, observers=[seen], poll=60).start() as worker,
    ):
        await client.add_job(nothing)
        await seen.wait_for(JobCompleted)
        link.freeze("fetch")
        link.cut("fetch")
        await client.add_job(nothing, queue="q")  # Without a queue it might be handed over, and not be fetched.
        await wait_until(lambda: link.count("fetch") == 1, description="a new connection that hangs")
        with anyio.fail_after(20):
            await worker.stop()
        stopped = len(seen.of(WorkerStopped))
    await db.execute(f"delete from {schema}._workers")

    assert 1 == stopped


async def test_no_job_starts_after_the_stop(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """Those that wait are left to other workers."""
    leave = asyncio.Event()

    @task
    async def wait() -> None:
        await leave.wait()

    async with make_worker(wait, concurrency=1).start() as worker, asyncio.TaskGroup() as group:
        for _ in range(3):
            await client.add_job(wait)
        await seen.wait_for(JobStarted)
        group.create_task(worker.stop())
        await seen.wait_for(WorkerStopping)
        leave.set()

    assert 1 == len(seen.of(JobStarted))


async def test_jobs_that_were_fetched_but_not_started_are_returned_untouched(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They lose no attempt and no time."""
    monkeypatch.setattr(inbox, "STALE_S", 3600)
    fetch_ahead(monkeypatch, 10)

    @task
    async def wait(ctx: JobContext) -> None:
        await ctx.cancelled.wait()

    ids = [(await client.add_job(wait)).id for _ in range(4)]
    async with make_worker(wait, concurrency=1).start():
        await seen.wait_for(JobStarted)
    jobs = [await client.get_job(job_id) for job_id in ids[1:]]

    assert [(tuple(ids[1:]), "the worker stops")] == [(event.job_ids, event.reason) for event in seen.of(JobsReturned)]
    assert {(0, 0, JobState.AVAILABLE)} == {(job.attempts, job.interruptions, job.state) for job in jobs}


async def test_the_eleventh_interruption_in_a_row_counts_as_a_failure(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """A job longer than every grace period would otherwise be interrupted for ever."""

    @task
    async def hang() -> None:
        await asyncio.Event().wait()

    added = await client.add_job(hang)
    await db.execute(f"update {schema}._jobs set interruptions = 10")
    async with make_worker(hang, grace=0).start():
        await seen.wait_for(JobStarted)
    job = await client.get_job(added.id)

    assert ([], [added.id]) == (seen.ids(JobInterrupted), seen.ids(JobRetried))
    assert (1, 0) == (job.attempts, job.interruptions)


async def test_a_run_that_ends_forgets_earlier_interruptions(
    client: Client, make_worker: MakeWorker, db: asyncpg.Connection, schema: str
) -> None:
    """Only interruptions in a row count."""

    @task
    async def fail() -> None:
        raise OSError

    added = await client.add_job(fail)
    await db.execute(f"update {schema}._jobs set interruptions = 10")
    await make_worker(fail).run_once()
    left = await db.fetchval(f"select interruptions from {schema}._all_jobs() where id = $1", added.id)

    assert 0 == left


async def test_a_handler_that_ignores_its_cancellation_is_reported_and_keeps_its_claim(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It still runs: returning its job would run it twice. Others take over when the lease has ended."""
    monkeypatch.setattr(supervisor, "CANCEL_S", 0.1)
    leave = asyncio.Event()

    @task
    async def ignore() -> None:
        while not leave.is_set():
            try:
                await leave.wait()
            except asyncio.CancelledError:
                continue

    async with make_worker(ignore, nothing, grace=0).start():
        added = await client.add_job(ignore)
        await seen.wait_for(JobStarted)
    state = (await client.get_job(added.id)).state
    rows = await db.fetchval(f"select count(*) from {schema}._workers")
    leave.set()
    await db.execute(f"update {schema}._workers set last_seen = last_seen - interval '1 hour'")
    await make_worker(ignore).run_once()

    assert (JobState.ACTIVE, 1) == (state, rows)
    assert [1, 0] == [event.stuck for event in seen.of(WorkerStopped)]
    assert [(added.id,)] == [event.job_ids for event in seen.of(GraceExceeded)]


async def test_a_handler_that_fails_while_it_is_cancelled_has_failed(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The error is more important than the interruption: the handler may have lost something."""

    @task(max_attempts=1)
    async def fail_at_the_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise LookupError("could not clean up")

    async with make_worker(fail_at_the_end, grace=0).start():
        added = await client.add_job(fail_at_the_end)
        await seen.wait_for(JobStarted)

    assert [added.id] == seen.ids(JobDiscarded)


async def test_jobs_that_a_stopping_worker_returns_start_at_once_in_another(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """In a rolling deploy the other worker is idle, and would wait for its next poll, here a minute."""
    runs: list[int] = []

    @task
    async def first_hangs() -> None:
        runs.append(1)
        if len(runs) == 1:
            await asyncio.Event().wait()

    async with make_worker(nothing, first_hangs, grace=0).start() as worker:
        added = await client.add_job(first_hangs)
        await seen.wait_for(JobStarted)
        async with make_worker(first_hangs).start():
            await worker.stop()
            await seen.wait_for(JobCompleted)

    assert ([added.id], [added.id]) == (seen.ids(JobInterrupted), seen.ids(JobCompleted))


async def test_the_notification_for_returned_jobs_is_sent_before_the_worker_leaves(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server may be slow with it."""
    real, go, sent = supervisor.store.wake_workers, asyncio.Event(), asyncio.Event()

    async def send_late(line: Any) -> None:
        # Later than the worker would be gone, if it did not wait for this.
        asyncio.get_running_loop().call_later(0.5, go.set)
        await go.wait()
        await real(line)
        sent.set()

    @task
    async def hang() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(supervisor.store, "wake_workers", send_late)
    async with make_worker(hang, grace=0).start():
        await client.add_job(hang)
        await seen.wait_for(JobStarted)

    assert sent.is_set()


async def test_a_notification_that_cannot_be_sent_ends_nothing(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a hint: the others find the job at their next poll."""

    async def fail(line: Any) -> None:
        raise StoreUnavailable("away")

    @task
    async def hang() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(supervisor.store, "wake_workers", fail)
    async with make_worker(hang, grace=0).start():
        await client.add_job(hang)
        await seen.wait_for(JobStarted)

    assert ["other workers could not be woken: away"] == [event.error for event in seen.of(MaintenanceFailed)]
    assert 1 == len(seen.of(WorkerStopped))


async def test_many_notifications_for_others_become_one(
    make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each one uses the connection for settling; one for each batch would halve the rate."""
    go, sent = asyncio.Event(), []

    async def send(line: Any) -> None:
        sent.append(1)
        await go.wait()

    monkeypatch.setattr(supervisor.store, "wake_workers", send)
    monkeypatch.setattr(schedule.Schedule, "has_room", False)
    async with make_worker(nothing).start() as worker:
        assert worker._running is not None
        for _ in range(10):
            worker._running.parts.wake_ups.settled([Settlement(1, 1, partition=1, end="completed")])
            await asyncio.sleep(0)
        before = len(sent)
        go.set()

    assert (1, 2) == (before, len(sent))


async def test_handlers_are_cancelled_once(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """A second cancellation would hit the clean-up that the first one started."""
    counts: list[int] = []

    @task
    async def count() -> None:
        current = asyncio.current_task()
        assert current is not None
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)
            counts.append(current.cancelling())
            raise

    async with make_worker(count, grace=0).start() as worker:
        await client.add_job(count)
        await seen.wait_for(JobStarted)
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(worker.stop())

    assert ([1], 1) == (counts, len(seen.of(JobInterrupted)))
