"""`keep=` keeps ended jobs for a time: whether a job ran, when, where, and with which result."""

from datetime import timedelta

import pytest

from asyncq import Client, JobNotFound, JobState, task
from asyncq.testing import MovableClock, run_due


@task(keep="7 days")
async def parse(url: str) -> dict[str, int]:
    """A job whose result is kept."""
    return {"words": len(url)}


@task
async def plain(number: int = 1) -> None:
    """A job that is not kept."""


async def test_an_ended_job_has_its_result_times_and_worker(dsn: str, schema: str, client: Client) -> None:
    """It is read like any other job."""
    added = await client.add_job(parse, "https://example.org")
    await run_due(dsn, [parse], schema=schema)
    job = await client.get_job(added.id)

    assert (JobState.COMPLETED, 1, '{"words":19}') == (job.state, job.attempts, job.result)
    assert ('{"url":"https://example.org"}', None, ()) == (job.payload, job.last_error, job.errors)
    assert None not in (job.ended_at, job.started_at, job.worker_id)
    assert job.created_at <= (job.started_at or job.run_at) <= (job.ended_at or job.run_at)
    assert (job.ended_at or job.run_at) + timedelta(days=7) == job.keep_until


async def test_it_is_removed_when_its_time_is_over(dsn: str, schema: str, client: Client) -> None:
    """The time counts from its end."""
    added = await client.add_job(parse, "a")
    async with MovableClock(dsn, schema) as clock:
        await run_due(dsn, [parse], schema=schema)
        await clock.move(timedelta(days=7, seconds=1))
        await run_due(dsn, [parse], schema=schema)

    with pytest.raises(JobNotFound):
        await client.get_job(added.id)


async def test_a_single_job_can_be_kept_or_not(dsn: str, schema: str, client: Client) -> None:
    """Its `keep=` replaces that of its task."""
    kept = await client.add_job(plain, keep="1 hour")
    await client.add_job(plain)
    await client.add_job(parse, "a", keep=False)
    await run_due(dsn, [plain, parse], schema=schema)

    assert [kept.id] == [job.id for job in await client.admin.list_ended_jobs()]


async def test_the_history_is_a_list_with_the_newest_job_first(dsn: str, schema: str, client: Client) -> None:
    """It has completed and cancelled jobs, and is read page by page."""
    added = await client.add_jobs([parse.job(f"page {number}") for number in range(5)])
    await run_due(dsn, [parse], schema=schema)
    later = await client.add_job(parse, "later")
    await client.admin.cancel_jobs([later.id])
    first = await client.admin.list_ended_jobs(limit=4)
    rest = await client.admin.list_ended_jobs(limit=4, before=first[-1].id)

    assert [later.id, *(job.id for job in reversed(added))] == [job.id for job in (*first, *rest)]
    assert ["cancelled", *["completed"] * 5] == [job.state for job in (*first, *rest)]
    assert [later.id] == [job.id for job in await client.admin.list_ended_jobs(state="cancelled", task="parse")]


async def test_payloads_and_results_can_be_blanked_and_a_job_be_removed(dsn: str, schema: str, client: Client) -> None:
    """Somebody may ask for that."""
    added = await client.add_job(parse, "https://example.org/private")
    await run_due(dsn, [parse], schema=schema)
    redacted = await client.admin.redact_ended_jobs([added.id])
    job = await client.get_job(added.id)
    removed = await client.admin.remove_ended_jobs([added.id, 1000])

    assert ([added.id], "null", None, 1) == (redacted, job.payload, job.result, job.attempts)
    assert [added.id] == removed
    with pytest.raises(JobNotFound):
        await client.get_job(added.id)
