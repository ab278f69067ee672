"""The heartbeat: a worker lives on although handlers block the event loop. It detects when it was declared dead."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import anyio
import asyncpg
import pytest

from asyncq import Client, JobState, Worker, task
from asyncq.domain.events import (
    GraceExceeded,
    HeartbeatFailed,
    JobCompleted,
    JobInterrupted,
    JobsReturned,
    JobStarted,
    MaintenanceFailed,
    WorkerLost,
    WorkerStarted,
    WorkerStopped,
)
from asyncq.domain.job import Claim
from asyncq.engine.base.lease import Lease, now_s
from asyncq.engine.fetch import inbox
from asyncq.engine.maintenance import rounds
from asyncq.store.heartbeat_connection import HeartbeatConnection
from tests.engine.conftest import MakeWorker
from tests.engine.fetch.test_fetcher import fetch_ahead, intercept
from tests.support.faults import link_to, terminate
from tests.support.seen import Seen
from tests.support.waiting import LIMIT_S, wait_until


@task
async def nothing() -> None:
    """The least job."""


async def test_the_heart_beats_while_a_handler_blocks_the_event_loop(
    dsn: str, client: Client, make_worker: MakeWorker, schema: str
) -> None:
    """A handler that computes for a minute must not get its worker declared dead and its job run twice."""
    seen: list[datetime] = []

    @task
    async def block() -> None:
        async def read() -> datetime:
            connection = await asyncpg.connect(dsn)
            try:
                return await connection.fetchval(f"select last_seen from {schema}._workers")
            finally:
                await connection.close()

        seen.append(await read())
        until = time.monotonic() + 0.8
        while time.monotonic() < until:
            time.sleep(0.05)  # noqa: ASYNC251 - this is the point
        seen.append(await read())

    await client.add_job(block)
    await make_worker(block, lease=1).run_once()

    assert seen[0] < seen[1]


async def test_a_worker_whose_row_is_gone_registers_again_and_continues(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """It was stalled for too long, and others have taken over its jobs."""
    async with make_worker(nothing, lease=1).start():
        await db.execute(f"delete from {schema}._workers")
        await seen.wait_for(WorkerLost)
        added = await client.add_job(nothing)
        await seen.wait_for(JobCompleted)
        ids = [row["id"] for row in await db.fetch(f"select id from {schema}._workers")]

    assert [added.id] == seen.ids(JobCompleted)
    assert 1 == len(ids)
    assert ids[0] != seen.of(WorkerStarted)[0].worker_id


async def test_a_late_answer_about_an_old_id_does_not_end_the_new_one(make_worker: MakeWorker, seen: Seen) -> None:
    """A beat under the old id may still be in flight when the worker registers again."""
    async with make_worker(nothing).start() as worker:
        assert worker._running is not None
        own_id = seen.of(WorkerStarted)[0].worker_id
        worker._running.parts.membership.lost(own_id - 1)
        worker._running.parts.membership.lost(0)

    assert [] == seen.of(WorkerLost)


async def test_a_worker_whose_row_is_gone_cancels_its_jobs_and_returns_what_it_still_holds(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others may run them already. Claims that nobody took over must not wait for a thorough rescue."""
    # Which any round of its own might be, at this very moment.
    monkeypatch.setattr(rounds, "FIRST_WITHIN", 10**6)
    monkeypatch.setattr(rounds, "THOROUGH_EVERY", 10**9)
    runs: list[int] = []

    @task
    async def first_hangs() -> None:
        runs.append(1)
        if len(runs) == 1:
            await asyncio.Event().wait()

    async with make_worker(first_hangs, lease=1).start():
        added = await client.add_job(first_hangs)
        await seen.wait_for(JobStarted)
        await db.execute(f"delete from {schema}._workers")
        await seen.wait_for(JobCompleted)

    assert ([added.id], [added.id]) == (seen.ids(JobInterrupted), seen.ids(JobCompleted))
    assert 1 == seen.of(WorkerLost)[0].running


async def test_a_worker_whose_row_is_gone_returns_what_it_had_not_started(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Claims under the old id that nobody took over would wait for a thorough rescue."""
    monkeypatch.setattr(inbox, "STALE_S", 3600)
    fetch_ahead(monkeypatch, 10)
    runs: list[int] = []

    @task
    async def first_hangs() -> None:
        runs.append(1)
        if len(runs) == 1:
            await asyncio.Event().wait()

    ids = [(await client.add_job(first_hangs)).id for _ in range(4)]
    async with make_worker(first_hangs, lease=1, concurrency=1).start():
        await seen.wait_for(JobStarted)
        await db.execute(f"delete from {schema}._workers")
        await seen.wait_for(JobCompleted, 4)

    assert [(tuple(ids[1:]), "the worker was declared dead")] == [
        (event.job_ids, event.reason) for event in seen.of(JobsReturned)[:1]
    ]


async def test_claims_that_arrive_after_the_worker_was_declared_dead_are_returned(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They belong to the old id: the worker could not settle them."""

    async def lose_the_row(claims: list[Claim]) -> None:
        if claims and not seen.of(WorkerLost):
            await db.execute(f"delete from {schema}._workers")
            await seen.wait_for(WorkerLost)

    intercept(monkeypatch, lose_the_row)
    added = await client.add_job(nothing)
    async with make_worker(nothing, lease=1).start():
        await seen.wait_for(JobCompleted)

    assert [((added.id,), "the worker was declared dead")] == [
        (event.job_ids, event.reason) for event in seen.of(JobsReturned)
    ]
    assert [added.id] == seen.ids(JobStarted)


async def test_a_handler_that_was_cancelled_with_its_claim_is_not_cancelled_again_by_the_stop(
    make_worker: MakeWorker, client: Client, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """A second cancellation would hit the clean-up that the first one started."""
    cleaning, leave = asyncio.Event(), asyncio.Event()
    ends: list[str] = []

    @task
    async def clean_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await leave.wait()
            ends.append("cleaned up")

    async with make_worker(clean_up, lease=1, grace=0).start() as worker, asyncio.TaskGroup() as group:
        await client.add_job(clean_up)
        await seen.wait_for(JobStarted)
        await db.execute(f"delete from {schema}._workers")
        await cleaning.wait()
        group.create_task(worker.stop())
        await seen.wait_for(GraceExceeded)
        leave.set()

    assert ["cleaned up"] == ends


async def test_a_worker_that_stops_while_it_registers_again_leaves_no_row(
    make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check after this test finds rows."""
    real, calls = HeartbeatConnection.register, []
    answer = threading.Event()

    async def answer_late(line: HeartbeatConnection, **options: Any) -> int:
        worker_id = await real(line, **options)
        calls.append(worker_id)
        if len(calls) == 2:
            await asyncio.to_thread(answer.wait, 10)
        return worker_id

    monkeypatch.setattr(HeartbeatConnection, "register", answer_late)
    async with make_worker(nothing, lease=1).start():
        await db.execute(f"delete from {schema}._workers")
        await wait_until(lambda: len(calls) == 2, description="the second registration")
        # Later than the worker would be gone, if it did not wait for the answer.
        asyncio.get_running_loop().call_later(0.5, answer.set)

    assert [0] == [event.stuck for event in seen.of(WorkerStopped)]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_worker_whose_connection_is_lost_as_it_leaves_is_removed_by_another_try(
    dsn: str, schema: str, seen: Seen, db: asyncpg.Connection, when: Any
) -> None:
    """Otherwise the others would list the worker, and report its death, for the length of a lease."""
    async with link_to(dsn) as link:
        async with Worker(link.dsn, [nothing], schema=schema, observers=[seen]).start():
            link.cut_at_statement("fetch", when, f"delete from {schema}._workers")
        assert 1 == link.cuts[when]

    assert [] == await db.fetch(f"select id from {schema}._workers")
    assert [] == seen.of(MaintenanceFailed)


async def test_a_worker_that_comes_back_asks_for_the_numbers_of_its_tasks_again(
    make_worker: MakeWorker, client: Client, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """While it had no row, the names of its tasks may have been removed and stored again under other numbers."""
    async with make_worker(nothing, lease=1).start():
        before = await db.fetchval(f"select id from {schema}._tasks")
        await db.execute(f"delete from {schema}._workers; delete from {schema}._tasks")
        await seen.wait_for(WorkerLost)
        added = await client.add_job(nothing)
        await seen.wait_for(JobCompleted)
        after = await db.fetchval(f"select id from {schema}._tasks")

    assert [added.id] == seen.ids(JobCompleted)
    assert before < after


async def test_a_heartbeat_whose_connection_is_ended_beats_again(
    make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """It has a connection of its own, which ends like the others do."""

    async def last_seen() -> datetime:
        return await db.fetchval(f"select last_seen from {schema}._workers")

    async with make_worker(nothing, lease=1).start():
        await wait_until(lambda: terminate(db, schema, "heartbeat"), description="the heartbeat to connect")
        at = await last_seen()

        async def has_moved() -> bool:
            return await last_seen() > at

        await wait_until(has_moved, description="another beat")

    assert [] == seen.of(WorkerLost)


async def test_a_heartbeat_that_cannot_be_written_is_reported_with_the_time_since_the_last_one(
    dsn: str, schema: str, client: Client, seen: Seen
) -> None:
    """Operators must notice when that time approaches the lease."""
    async with link_to(dsn) as link, Worker(link.dsn, [nothing], schema=schema, observers=[seen], lease=1).start():
        link.refuse("heartbeat")
        failed = await seen.wait_for(HeartbeatFailed, 2)
        link.mend()
        added = await client.add_job(nothing)
        await seen.wait_for(JobCompleted)

    assert (1.0, True) == (failed.lease_s, failed.silent_s > 0)
    assert [added.id] == seen.ids(JobCompleted)


async def test_the_heart_stops_although_all_threads_of_the_loop_are_taken(make_worker: MakeWorker, seen: Seen) -> None:
    """Blocked calls of the service in `asyncio.to_thread` must not keep the worker from stopping."""
    leave = threading.Event()
    with ThreadPoolExecutor(max_workers=1) as threads:
        asyncio.get_running_loop().set_default_executor(threads)
        try:
            async with make_worker(nothing).start(), asyncio.TaskGroup() as group:
                group.create_task(asyncio.to_thread(leave.wait, 20))
                async with make_worker(nothing).start() as worker:
                    with anyio.fail_after(10):
                        await worker.stop()
                    stopped = len(seen.of(WorkerStopped))
                leave.set()
        finally:
            leave.set()
            asyncio.get_running_loop()._default_executor = None  # type: ignore[attr-defined]

    assert 1 == stopped


async def test_a_short_outage_of_the_heartbeat_costs_no_job(dsn: str, schema: str, client: Client, seen: Seen) -> None:
    """It is shorter than the lease, so no worker was declared dead, and nothing was lost."""
    leave = asyncio.Event()

    @task
    async def wait() -> None:
        await leave.wait()

    async with link_to(dsn) as link, Worker(link.dsn, [wait], schema=schema, observers=[seen], lease=30).start():
        added = await client.add_job(wait)
        await seen.wait_for(JobStarted)
        link.cut("heartbeat")
        state = (await client.get_job(added.id)).state
        leave.set()
        await seen.wait_for(JobCompleted)

    assert (JobState.ACTIVE, []) == (state, seen.of(WorkerLost))


async def test_a_lease_counts_from_when_the_beat_was_sent(
    make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's clock for it starts before the answer arrives, which may take long."""
    beat, prove = HeartbeatConnection.beat, Lease.prove
    sent: list[float] = []
    proven: list[float] = []

    async def beat_slowly(line: HeartbeatConnection, *args: Any) -> Any:
        sent.append(now_s())
        answer = await beat(line, *args)
        await asyncio.sleep(0.05)
        return answer

    def note(lease: Lease, at: float) -> None:
        if sent:  # else it is the registration's
            proven.append(at)
        prove(lease, at)

    monkeypatch.setattr(HeartbeatConnection, "beat", beat_slowly)
    monkeypatch.setattr(Lease, "prove", note)
    async with make_worker(nothing, lease=1).start():
        await wait_until(lambda: len(proven) >= 2, description="two signs of life")

    assert proven[0] <= sent[0]
    assert proven[1] <= sent[1]


async def test_a_worker_whose_heartbeat_fails_cancels_its_jobs_and_ends(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cause may be any unexpected error. Others will take over, so no job may continue here."""

    @task
    async def hang() -> None:
        await asyncio.Event().wait()

    async def fail(*_: Any) -> Any:
        raise ValueError("nobody has thought of it")

    added = await client.add_job(hang)
    running = asyncio.get_running_loop().create_task(make_worker(hang, lease=1, grace=0).run())
    await seen.wait_for(JobStarted)
    monkeypatch.setattr(HeartbeatConnection, "beat", fail)
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(ValueError, match="nobody has thought of it"):
            await running

    assert [added.id] == seen.ids(JobInterrupted)
    assert (await client.get_job(added.id)).state == JobState.AVAILABLE
