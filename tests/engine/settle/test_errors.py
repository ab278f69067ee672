"""Each attempt that failed is recorded once, and its error stays, whatever became of its job."""

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from asyncq import Attempt, Client, Discard, JobContext, JobNotFound, RetryAfter, Snooze, Worker, task
from asyncq.domain.events import JobCompleted, JobLost, JobRetried, JobsRescued, JobStarted, SettleFailed
from asyncq.testing import MovableClock, run_due
from tests.engine.conftest import MakeWorker
from tests.engine.maintenance.test_rounds import claim_as_a_dead_worker
from tests.engine.test_shutdown import program
from tests.support.faults import link_to
from tests.support.locks import be_up_for_long
from tests.support.seen import Seen


@task
async def nothing(number: int = 0) -> None:
    """The least job."""


@task(max_attempts=1)
async def fail() -> None:
    """Is discarded at once."""
    raise OSError("no disk")


async def short(client: Client, job_id: int) -> list[tuple[int, str, str]]:
    """The number, the kind and the first line of the error of each failed attempt."""
    return [(one.number, one.kind, one.error.partition("\n")[0]) for one in await client.admin.errors(job_id)]


async def test_a_job_that_completes_at_last_still_shows_its_errors(client: Client, make_worker: MakeWorker) -> None:
    """Its row is gone, and with it `last_error`. A handler sees the earlier ones."""
    before: list[tuple[Attempt, ...]] = []

    @task(retry=[0])
    async def fetch_page(ctx: JobContext) -> None:
        before.append(await ctx.errors())
        if ctx.attempt < 3:
            raise ConnectionError(f"no answer to request {ctx.attempt}")

    added = await client.add_job(fetch_page)
    await make_worker(fetch_page).run_once()
    errors = await client.admin.errors(added.id)
    with pytest.raises(JobNotFound):
        await client.get_job(added.id)

    assert [
        (1, "failed", "ConnectionError: no answer to request 1"),
        (2, "failed", "ConnectionError: no answer to request 2"),
    ] == await short(client, added.id)
    assert [(), errors[:1], errors] == before
    assert "Traceback" in errors[0].error
    assert all(one.started_at < one.ended_at for one in errors)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no"), "ValueError: no"),
        (RetryAfter(60, "busy"), "RetryAfter: busy"),
        (Discard("gone"), "Discard: gone"),
    ],
    ids=["failed", "retry later", "discarded"],
)
async def test_each_way_to_fail_is_recorded(
    client: Client, make_worker: MakeWorker, error: Exception, said: str
) -> None:
    """A discard by the handler uses up all attempts, and was one."""

    @task
    async def end() -> None:
        raise error

    added = await client.add_job(end)
    await make_worker(end).run_once()

    assert [(1, "failed", said)] == await short(client, added.id)


async def test_a_payload_that_does_not_fit_is_recorded(client: Client, make_worker: MakeWorker) -> None:
    """The handler was not called, but the attempt counts."""
    added = await client.add_job("nothing", {"number": "x"})
    await make_worker(nothing).run_once()
    ((number, kind, said),) = await short(client, added.id)

    assert (1, "failed", True) == (number, kind, "the payload does not fit the task" in said)


async def test_an_end_that_is_no_failure_is_not_recorded(
    client: Client, make_worker: MakeWorker, db: asyncpg.Connection, schema: str
) -> None:
    """Good ends, snoozes, and claims that were returned: they write nothing, and cost nothing."""
    entered = asyncio.Event()

    @task
    async def wait(ctx: JobContext) -> None:
        entered.set()
        await ctx.cancelled.wait()
        raise Snooze(60)

    await client.add_jobs([nothing.job(), wait.job(), nothing.job(), wait.job(), wait.job()])
    async with make_worker(nothing, wait, concurrency=1).start():
        await entered.wait()

    assert 0 == await db.fetchval(f"select count(*) from {schema}._attempts")


@pytest.mark.parametrize(("interruptions", "recorded"), [(9, 0), (10, 1)])
async def test_an_interruption_is_recorded_when_it_counts(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    interruptions: int,
    recorded: int,
) -> None:
    """It is the eleventh in a row."""

    @task
    async def hang() -> None:
        await asyncio.Event().wait()

    added = await client.add_job(hang)
    await db.execute(f"update {schema}._jobs set interruptions = {interruptions}")
    async with make_worker(hang, grace=0).start():
        await seen.wait_for(JobStarted)
    said = "Interrupted: cut off by shutdowns 11 times in a row"

    assert [(1, "interrupted", said)] * recorded == await short(client, added.id)


@pytest.mark.parametrize(("interruptions", "recorded"), [(9, 0), (10, 1)])
async def test_an_aborted_transaction_is_recorded_when_it_counts(
    client: Client, make_worker: MakeWorker, db: asyncpg.Connection, schema: str, interruptions: int, recorded: int
) -> None:
    """It is the eleventh in a row."""

    @task(transactional=True, isolation="serializable")
    async def write(ctx: JobContext) -> None:
        raise asyncpg.SerializationError("could not serialize")

    added = await client.add_job(write)
    await db.execute(f"update {schema}._jobs set interruptions = {interruptions}")
    await make_worker(write).run_once()
    found = [(number, kind) for number, kind, _ in await short(client, added.id)]

    assert [(1, "aborted")] * recorded == found


async def test_a_failure_of_a_cancelled_job_is_not_recorded(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The job ends as cancelled, whatever its handler raised."""

    @task
    async def hang(ctx: JobContext) -> None:
        await ctx.cancelled.wait()
        raise OSError

    async with make_worker(hang).start():
        added = await client.add_job(hang)
        await seen.wait_for(JobStarted)
        await client.admin.cancel_jobs([added.id])

    assert () == await client.admin.errors(added.id)


async def test_the_attempt_of_a_killed_worker_is_lost(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection
) -> None:
    """The process was killed in the middle of the last attempt. Another worker records it, with the dead worker."""
    await be_up_for_long(db, schema)
    async with program(dsn, schema, grace=25) as worker:
        added = await client.add_job("hold", {"how": "for ever"}, max_attempts=1)
        await worker.says(f"started {added.id}")
        dead = int((await client.get_job(added.id)).locked_by or 0)
        worker.process.kill()
        await worker.process.wait()
    async with make_worker(nothing).start():
        await seen.wait_for(JobsRescued)
    (lost,) = await client.admin.errors(added.id)

    assert (1, "lost", dead, True) == (lost.number, lost.kind, lost.worker_id, lost.error.startswith("WorkerLost: "))


async def test_a_failure_whose_answer_is_lost_is_recorded_once(
    dsn: str, schema: str, client: Client, seen: Seen
) -> None:
    """It was committed: the worker writes it again, and the store knows its claim no more."""
    async with link_to(dsn) as link, Worker(link.dsn, [nothing, fail], schema=schema, observers=[seen]).start():
        await client.add_job(nothing)
        await seen.wait_for(JobCompleted)
        link.cut_at_statement("settle", "after", "_settle_rest(")
        added = await client.add_job(fail)
        await seen.wait_for(SettleFailed)

    assert ({"after": 1}, []) == (link.cuts, seen.of(JobLost))
    assert [(1, "failed", "OSError: no disk")] == await short(client, added.id)


async def test_a_worker_that_keeps_no_errors_records_none(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """Neither its own failures nor those of a dead worker; `last_error` is written as ever."""
    lost = await client.add_job("gone")
    await claim_as_a_dead_worker(db, schema, seconds_ago=60)
    failed = await client.add_job(fail)
    await make_worker(fail, error_retention=None).run_once()
    jobs = [await client.get_job(added.id) for added in (lost, failed)]

    assert [(1, "WorkerLost"), (1, "OSError")] == [
        (job.attempts, (job.last_error or "").partition(":")[0]) for job in jobs
    ]
    assert 0 == await db.fetchval(f"select count(*) from {schema}._attempts")


@pytest.mark.parametrize(
    ("retention", "after", "left"),
    [
        ({}, timedelta(days=6, hours=23), 1),
        ({}, timedelta(days=7, hours=1), 0),
        ({"error_retention": timedelta(hours=1)}, timedelta(minutes=59), 1),
        ({"error_retention": 3600}, timedelta(minutes=61), 0),
        ({"error_retention": None}, timedelta(days=6, hours=23), 1),
        ({"error_retention": None}, timedelta(days=7, hours=1), 0),
    ],
    ids=str,
)
async def test_how_long_an_error_is_kept_is_an_option(
    dsn: str, schema: str, client: Client, retention: dict[str, Any], after: timedelta, left: int
) -> None:
    """The default is a week. A worker that records none removes what others have left after a week."""
    added = await client.add_job(fail)
    async with MovableClock(dsn, schema) as clock:
        await run_due(dsn, [fail], schema=schema)
        await client.admin.complete_jobs([added.id])
        await clock.move(after)
        await run_due(dsn, [fail], schema=schema, **retention)

    assert left == len(await client.admin.errors(added.id))


async def test_a_retry_by_hand_keeps_the_first_failure(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """The job has all its attempts again, so the numbers begin again."""
    added = await client.add_job(fail)
    await make_worker(fail).run_once()
    await client.admin.retry_jobs([added.id])
    await make_worker(fail).run_once()

    assert [(1, "failed", "OSError: no disk")] * 2 == await short(client, added.id)
    assert [] == seen.of(JobRetried)


async def test_the_errors_of_an_unknown_job_are_none(client: Client) -> None:
    """Nobody can tell it from a job that never failed and has ended."""
    assert () == await client.admin.errors(42)
