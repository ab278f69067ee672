"""Jobs that a worker claims as one batch behave as if each had been claimed alone."""

import asyncio
from collections import Counter
from collections.abc import Collection
from typing import Any

import asyncpg
import pytest

from asyncq import Client, JobContext, StoreUnavailable, Task, task
from asyncq.domain.events import JobCancelled, JobCompleted, JobDiscarded, JobLost, JobRetried, JobStarted
from asyncq.domain.outcome import Ending, Settlement
from asyncq.engine.fetch import inbox, schedule
from asyncq.engine.settle import completer
from asyncq.store import claim
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen
from tests.support.waiting import wait_until

MANY = 120
calls: Counter[int] = Counter()
gate = asyncio.Event()


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset the calls, and close the gate; small fetches claim batches too, since their size is random."""
    global gate
    monkeypatch.setattr(claim, "BATCH_FROM", 2)
    calls.clear()
    gate = asyncio.Event()


@task
async def count(number: int) -> None:
    """Counts its calls."""
    calls[number] += 1


@task(retry=[0])
async def fail_once(number: int) -> None:
    """Fails at its first call, if its number is odd."""
    calls[number] += 1
    await gate.wait()
    if number % 2 and calls[number] == 1:
        raise ValueError(number)


@task(max_attempts=1)
async def fail(number: int) -> None:
    """Is discarded."""
    calls[number] += 1
    await gate.wait()
    raise ValueError(number)


@task
async def wait(number: int) -> None:
    """Run until the gate opens."""
    calls[number] += 1
    await gate.wait()


@task
async def with_context(ctx: JobContext, number: int) -> None:
    """Could complete its job by itself."""
    calls[number] += 1
    await gate.wait()


@task(completes=True)
async def completing(ctx: JobContext, number: int) -> None:
    """Says that it completes its job by itself."""
    calls[number] += 1
    await gate.wait()


@task(transactional=True)
async def transactional(ctx: JobContext, number: int) -> None:
    """Works in the transaction that completes its job."""
    calls[number] += 1
    await gate.wait()


async def batches(db: asyncpg.Connection, schema: str) -> int:
    """How many there are."""
    return await db.fetchval(f"select count(*) from {schema}._batches")


async def until_packed(db: asyncpg.Connection, schema: str) -> None:
    """Wait until all of them are called, and some were claimed in batches."""
    await wait_until(lambda: len(calls) == MANY, description="all to run")
    assert await batches(db, schema)


async def left(db: asyncpg.Connection, schema: str) -> int:
    """How many jobs there are."""
    return await db.fetchval(f"select count(*) from {schema}.jobs")


async def test_all_of_a_batch_run_once(
    db: asyncpg.Connection, schema: str, client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Nothing remains in rows or in batches."""
    await client.add_jobs([count.job(number) for number in range(5 * MANY)])
    worker = make_worker(count)
    await worker.run_once()

    assert dict.fromkeys(range(5 * MANY), 1) == calls
    assert 5 * MANY == len(seen.of(JobCompleted))
    assert (0, 0) == (await left(db, schema), await batches(db, schema))


async def test_failed_jobs_are_retried_and_the_others_end(
    db: asyncpg.Connection, schema: str, client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """A failure splits its batch, which must not repeat other jobs."""
    await client.add_jobs([fail_once.job(number) for number in range(MANY)])
    async with make_worker(fail_once, concurrency=MANY).start():
        await until_packed(db, schema)
        gate.set()
        await wait_until(lambda: _is_empty(db, schema), description="all jobs to end")

    assert {number: 1 + number % 2 for number in range(MANY)} == calls
    assert (MANY // 2, MANY) == (len(seen.of(JobRetried)), len(seen.of(JobCompleted)))


async def test_a_discarded_job_stays_with_its_error(
    db: asyncpg.Connection, schema: str, client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """It becomes a row again, so that it can be inspected."""
    await client.add_jobs([fail.job(number) for number in range(MANY)])
    async with make_worker(fail, concurrency=MANY).start():
        await until_packed(db, schema)
        gate.set()
        await seen.wait_for(JobDiscarded, MANY)
    rows = await db.fetch(f"select attempts, max_attempts, last_error from {schema}._all_jobs()")

    assert MANY == len(seen.of(JobDiscarded)) == len(rows)
    assert {(1, 1)} == {(row["attempts"], row["max_attempts"]) for row in rows}
    assert all("ValueError" in row["last_error"] for row in rows)


async def test_a_running_job_of_a_batch_is_cancelled(
    db: asyncpg.Connection, schema: str, client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Its handler is cancelled; the others of its batch end well."""
    ids = [added.id for added in await client.add_jobs([wait.job(number) for number in range(MANY)])]
    async with make_worker(wait, concurrency=MANY).start():
        await until_packed(db, schema)
        cancelled = [job.id for job in await client.admin.cancel_jobs(ids[:3])]
        await seen.wait_for(JobCancelled, 3)
        gate.set()
        await wait_until(lambda: _is_empty(db, schema), description="all jobs to end")

    assert ids[:3] == cancelled
    assert MANY - 3 == len(seen.of(JobCompleted))
    assert dict.fromkeys(range(MANY), 1) == calls


async def test_jobs_that_a_stopped_worker_has_not_started_go_to_the_next_one(
    db: asyncpg.Connection, schema: str, client: Client, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its buffered claims are returned and its running jobs interrupted: nothing is lost, and no attempt is counted."""
    monkeypatch.setattr(schedule, "wanted_now", lambda _, buffered, *__: 0 if buffered else MANY)
    monkeypatch.setattr(inbox, "STALE_S", 3600)
    await client.add_jobs([wait.job(number) for number in range(MANY)])
    async with make_worker(wait, concurrency=10, grace=0.05).start():
        await wait_until(lambda: len(calls) == 10, description="ten to run")
        batched = await batches(db, schema)
    between = (await left(db, schema), await batches(db, schema))
    rows = await db.fetch(f"select attempts, interruptions from {schema}._all_jobs()")
    gate.set()
    await make_worker(wait).run_once()

    assert (1, (MANY, 0)) == (batched, between)
    assert {(0, 1): 10, (0, 0): MANY - 10} == Counter((row["attempts"], row["interruptions"]) for row in rows)
    assert {number: 2 if number < 10 else 1 for number in range(MANY)} == calls
    assert 0 == await left(db, schema)


@pytest.mark.parametrize(
    ("tasks", "batched"), [(wait, True), (with_context, True), (completing, False), (transactional, False)]
)
async def test_only_jobs_that_are_completed_in_transactions_are_claimed_one_by_one(
    db: asyncpg.Connection, schema: str, client: Client, make_worker: MakeWorker, tasks: Task[...], batched: bool
) -> None:
    """Such a transaction would hold the claims of all others.

    A handler that only takes the context does not complete its job.
    """
    await client.add_jobs([tasks.job(number) for number in range(5)])
    async with make_worker(tasks, concurrency=5).start():
        await wait_until(lambda: len(calls) == 5, description="all to run")
        found = await batches(db, schema) > 0
        gate.set()

    assert batched == found


async def test_jobs_of_many_queues_are_claimed_in_batches_and_run_in_series(
    db: asyncpg.Connection, schema: str, client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Each queue runs one job at a time, in order, and none twice. Failed jobs are retried."""
    running: Counter[int] = Counter()
    ran: dict[int, list[int]] = {queue: [] for queue in range(MANY)}
    together: list[int] = []

    @task(retry=[0])
    async def serial(queue: int, number: int) -> None:
        running[queue] += 1
        together.append(running[queue])
        ran[queue].append(number)
        calls[queue] += 1
        if number == 0:
            await gate.wait()
        running[queue] -= 1
        if queue == 7 and ran[queue].count(number) == 1:
            raise ValueError(number)

    for number in range(3):
        await client.add_jobs([serial.job(queue, number).with_options(queue=f"q{queue}") for queue in range(MANY)])
    async with make_worker(serial, concurrency=MANY).start():
        await until_packed(db, schema)
        batched = await db.fetchval(f"select count(*) from {schema}._batched_jobs() where queue is not null")
        gate.set()
        await wait_until(lambda: _is_empty(db, schema), description="all jobs to end")
    counted = await db.fetchval(f"select count(*) from {schema}._partition_counts() where jobs <> 0")

    assert (True, 0, 1) == (batched > 0, counted, max(together))
    assert [[0, 1, 2]] * (MANY - 1) == [ran[queue] for queue in range(MANY) if queue != 7]
    assert [0, 0, 1, 1, 2, 2] == sorted(ran[7])
    assert (3, 3 * MANY) == (len(seen.of(JobRetried)), len(seen.of(JobCompleted)))


async def test_jobs_of_queues_and_of_batches_end_in_one_write(
    db: asyncpg.Connection, schema: str, client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Each is settled in its way, and the queue continues with its next job."""
    await client.add_jobs([wait.job(number) for number in range(MANY)])
    async with make_worker(wait, concurrency=MANY + 1).start():
        await until_packed(db, schema)
        await client.add_jobs([wait.job(MANY + number).with_options(queue="q") for number in range(3)])
        await wait_until(lambda: len(calls) == MANY + 1, description="the first of the queue to run")
        gate.set()
        await wait_until(lambda: _is_empty(db, schema), description="all jobs to end")

    assert dict.fromkeys(range(MANY + 3), 1) == calls
    assert MANY + 3 == len(seen.of(JobCompleted))


async def _is_empty(db: asyncpg.Connection, schema: str) -> bool:
    return not await left(db, schema)


async def test_failures_of_a_batch_are_not_lost_when_the_server_fails_during_their_write(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two failures in a write is in a batch, the other in a row.

    Both are committed or none, then written again.
    """
    statement = completer.store.settle_rest
    cut: list[int] = []

    async def cut_once(line: Any, worker_id: int, settlements: Collection[Settlement]) -> dict[int, Ending]:
        if not cut:
            cut.append(worker_id)
            raise StoreUnavailable("the server cannot be reached", outcome="not_sent")
        return await statement(line, worker_id, settlements)

    @task(max_attempts=1, completes=True)
    async def fail_with_context(ctx: JobContext) -> None:
        await gate.wait()
        raise ValueError

    monkeypatch.setattr(completer.store, "settle_rest", cut_once)
    async with make_worker(fail, fail_with_context, concurrency=3).start():
        await client.add_jobs([fail.job(1), fail.job(2), fail_with_context.job()])
        await seen.wait_for(JobStarted, 3)
        gate.set()
        await seen.wait_for(JobDiscarded, 3)

    assert (1, []) == (len(cut), seen.of(JobLost))
