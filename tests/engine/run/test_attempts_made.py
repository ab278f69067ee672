"""A job that was discarded before its last attempt shows how many attempts were made, and how many it had."""

from collections.abc import Awaitable, Callable

import anyio
import asyncpg
import pytest

from asyncq import Client, Discard, Job, JobContext, JobState, RetryAfter, task
from asyncq.cli.job_texts import details, table
from asyncq.domain.events import JobDiscarded
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen
from tests.support.waiting import wait_until


@task(max_attempts=6)
async def charge(wrong: str) -> None:
    """Give up, or fail."""
    if wrong == "card":
        raise Discard("no use")
    raise RetryAfter(0, "busy")


async def discarded(client: Client, make_worker: MakeWorker) -> int:
    """The job is discarded after its first attempt."""
    added = await client.add_job(charge, "card")
    await make_worker(charge).run_once()
    return added.id


async def failed_by_hand(client: Client, make_worker: MakeWorker) -> int:
    """The job is discarded by hand before its first attempt."""
    added = await client.add_job(charge, "card")
    await client.admin.discard_jobs([added.id])
    return added.id


async def failed_by_hand_twice(client: Client, make_worker: MakeWorker) -> int:
    """The job is discarded by hand after it was discarded."""
    job_id = await discarded(client, make_worker)
    await client.admin.discard_jobs([job_id])
    return job_id


async def lost_its_key(client: Client, make_worker: MakeWorker) -> int:
    """Another job got its key while it ran for the first time."""
    running, go = anyio.Event(), anyio.Event()

    @task(max_attempts=6)
    async def hold(ctx: JobContext) -> None:
        running.set()
        await go.wait()
        raise ValueError("x")

    first = await client.add_job(hold, job_key="k")
    async with make_worker(hold, concurrency=1).start():
        await running.wait()
        await client.add_job(charge, "other", job_key="k", max_attempts=1)
        go.set()

        async def has_failed() -> bool:
            return (await client.get_job(first.id)).state is JobState.DISCARDED

        await wait_until(has_failed, description="the first job is discarded")
    return first.id


Way = Callable[[Client, MakeWorker], Awaitable[int]]


@pytest.mark.parametrize(
    ("way", "made"), [(discarded, 1), (failed_by_hand, 0), (failed_by_hand_twice, 1), (lost_its_key, 1)]
)
async def test_a_job_that_was_given_up_shows_the_attempts_that_were_made(
    client: Client, make_worker: MakeWorker, db: asyncpg.Connection, schema: str, way: Way, made: int
) -> None:
    """The client, the command line and explain show them.

    The view shows the numbers that graphile-worker's users expect.
    """
    job_id = await way(client, make_worker)
    job = await client.get_job(job_id)
    explained = await client.admin.explain(job_id)
    row = await db.fetchrow(f"select attempts, max_attempts from {schema}.jobs where id = $1", job_id)

    assert (JobState.DISCARDED, made, 6) == (job.state, job.attempts, job.max_attempts)
    assert f"discarded after {made} of 6 attempts" in explained.reasons[0].detail
    assert f"attempts:   {made} of 6\n" in details(job)
    assert f"  {made} of 6  " in table([job])[1]
    assert (6, 6) == tuple(row or ())


async def revived(client: Client, job_id: int, act: str) -> Job:
    """A job that was revived by an act of administration."""
    admin = client.admin
    match act:
        case "retry":
            (job,) = await admin.retry_jobs([job_id])
        case "more attempts":
            (job,) = await admin.reschedule_jobs([job_id], max_attempts=8)
        case _:
            (job,) = await admin.reschedule_jobs([job_id], attempts=3)
    return job


@pytest.mark.parametrize(("act", "attempts"), [("retry", 0), ("more attempts", 6), ("fewer failed", 3)])
async def test_a_job_that_was_revived_has_the_attempts_of_its_row(
    client: Client, make_worker: MakeWorker, act: str, attempts: int
) -> None:
    """It has all its attempts again, and a further failure counts."""
    job_id = await discarded(client, make_worker)
    job = await revived(client, job_id, act)
    await client.admin.reschedule_jobs([job_id], priority=3)
    again = await client.get_job(job_id)

    assert attempts == job.attempts == again.attempts
    assert again.attempts < again.max_attempts


async def test_the_event_of_a_discarded_job_names_its_attempt(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The third of six, after two retries."""
    left = 2

    @task(max_attempts=6)
    async def work() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Discard("no use")
        raise RetryAfter(0, "busy")

    added = await client.add_job(work)
    await make_worker(work).run_once()
    (failed,) = seen.of(JobDiscarded)
    job = await client.get_job(added.id)

    assert (3, 3) == (failed.attempt, job.attempts)
