"""A job that its add claimed for an idle worker behaves like one that was fetched."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from asyncq import Client, task
from asyncq.domain.events import JobCancelled, JobCompleted, JobDiscarded, JobRetried, JobsReturned, JobStarted
from tests.engine.conftest import MakeWorker
from tests.support.handoffs import OPEN_SLOTS
from tests.support.seen import Seen
from tests.support.session import Session, session
from tests.support.waiting import wait_until

failures = 0
gate = asyncio.Event()


@pytest.fixture(autouse=True)
def fresh() -> None:
    """Nothing fails, and the gate is closed."""
    global failures, gate
    failures, gate = 0, asyncio.Event()


async def run() -> None:
    """Fail as often as the test wants."""
    global failures
    await gate.wait()
    if failures:
        failures -= 1
        raise ValueError("as requested")


@task(retry=[0, 0], max_attempts=2)
async def batched() -> None:
    """Its jobs fit into batches."""
    await run()


@pytest.fixture
async def sql(dsn: str, schema: str) -> AsyncIterator[Session]:
    """A session that commits each statement."""
    async with session(dsn, schema) as opened:
        yield opened


async def hand_over(sql: Session, client: Client, seen: Seen) -> int:
    """Add a job that takes the slot of the only worker, and wait until it runs. Its id."""
    await wait_until(lambda: sql.value(f"select ({OPEN_SLOTS}) > 0"), description="a slot")
    added = await client.add_job(batched)
    await seen.wait_for(JobStarted)
    assert not await sql.value("select exists (select from asyncq._jobs)")
    return added.id


async def no_job_is_left(sql: Session) -> bool:
    """Whether no job exists any more."""
    return not await sql.rows("select from asyncq._all_jobs()")


async def test_it_is_shown_as_running(sql: Session, client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """Every query shows it as active."""
    async with make_worker(batched, poll=60).start():
        job_id = await hand_over(sql, client, seen)
        job = await client.get_job(job_id)
        counts = await client.admin.counts()
        gate.set()
        await wait_until(lambda: no_job_is_left(sql), description="the job to end")

    assert ("active", 0, 1) == (job.state, job.attempts, counts.active)


async def test_it_is_tried_again_after_a_failure(
    sql: Session, client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The failure is written into a row."""
    global failures
    failures = 1
    async with make_worker(batched, poll=60).start():
        job_id = await hand_over(sql, client, seen)
        gate.set()
        await seen.wait_for(JobCompleted)
        await wait_until(lambda: no_job_is_left(sql), description="the job to end")

    assert ([job_id], [job_id]) == (seen.ids(JobRetried), seen.ids(JobCompleted))


async def test_it_stays_with_its_error_when_it_is_discarded(
    sql: Session, client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Users can inspect it."""
    global failures
    failures = 2
    async with make_worker(batched, poll=60).start():
        await hand_over(sql, client, seen)
        gate.set()
        await seen.wait_for(JobDiscarded)
    attempts, error = await sql.row("select attempts, last_error from asyncq._jobs")

    assert (2, True) == (attempts, "as requested" in error)


async def test_it_is_cancelled_while_it_runs(sql: Session, client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """Its handler is cancelled."""
    async with make_worker(batched, poll=60).start():
        job_id = await hand_over(sql, client, seen)
        cancelled = [job.id for job in await client.admin.cancel_jobs([job_id])]
        await seen.wait_for(JobCancelled)
        await wait_until(lambda: no_job_is_left(sql), description="the job to end")

    assert ([job_id], []) == (cancelled, seen.ids(JobCompleted))


async def test_it_is_returned_when_its_worker_stops_and_it_does_not_end(
    sql: Session, client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """A shutdown counts no attempt."""
    async with make_worker(batched, poll=60, grace=0).start():
        job_id = await hand_over(sql, client, seen)

    assert (job_id, 0, None) == tuple(await sql.row("select id, attempts, locked_by from asyncq._jobs"))


async def test_it_is_run_by_another_worker_after_its_own_was_declared_dead(
    sql: Session, client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The attempt counts, since the job may have killed the worker. The first run is cancelled."""
    async with make_worker(batched, poll=60).start():
        job_id = await hand_over(sql, client, seen)
        await sql.rows("select from asyncq.force_unlock_workers(array(select id::text from asyncq._workers))")
        await seen.wait_for(JobStarted, 2)
        attempts = await sql.value("select attempts from asyncq._all_jobs()")
        gate.set()
        await seen.wait_for(JobCompleted)
        await wait_until(lambda: no_job_is_left(sql), description="the job to end")

    assert ([job_id] * 2, 1, []) == (seen.ids(JobStarted), attempts, seen.of(JobsReturned))
