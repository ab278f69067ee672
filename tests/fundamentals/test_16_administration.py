"""Administration: failed jobs are found and tried again, and a job that does not run says why."""

import asyncpg

from asyncq import Client, JobFilter, Worker, task
from tests.support.waiting import wait_until


@task(max_attempts=1)
async def charge(cents: int, limit: int) -> None:
    """Fails above the limit."""
    if cents > limit:
        raise RuntimeError("card refused")


async def test_discarded_jobs_are_listed_and_retried(client: Client, dsn: str, schema: str) -> None:
    """They stay in the database with their last error until somebody decides."""
    await client.add_job(charge.job(cents=50, limit=100))
    added = await client.add_job(charge.job(cents=500, limit=100))
    await Worker(dsn, [charge], schema=schema).run_once()

    failed = (await client.admin.find_jobs(JobFilter(state="discarded"), newest=False)).jobs
    again = await client.admin.retry_jobs(job.id for job in failed)

    assert [(added.id, "discarded")] == [(job.id, job.state) for job in failed]
    assert [(added.id, "available", 0)] == [(job.id, job.state, job.attempts) for job in again]


async def test_the_reasons_why_a_job_does_not_run_are_explained(client: Client, dsn: str, schema: str) -> None:
    """The answer follows the rules by which workers fetch."""
    added = await client.add_job(charge.job(cents=1, limit=1))
    before = await client.admin.explain(added.id)
    async with Worker(dsn, [charge], schema=schema, forbidden_flags=["eu"]).start():
        flagged = await client.add_job(charge.job(cents=1, limit=1), flags=["eu"], queue="cards")

        async def is_told() -> bool:
            return "forbidden_flag" in [reason.reason for reason in (await client.admin.explain(flagged.id)).reasons]

        await wait_until(is_told, description="the worker to tell its flags")
        during = await client.admin.explain(flagged.id)

    assert (False, ["no_worker"]) == (before.runnable, [reason.reason for reason in before.reasons])
    assert (False, ["forbidden_flag"]) == (during.runnable, [reason.reason for reason in during.reasons])


async def test_jobs_are_changed_in_a_transaction_of_the_caller(client: Client, dsn: str, schema: str) -> None:
    """Together with what made it necessary; None leaves a field as it is, 0 is a value."""

    added = await client.add_job(charge.job(cents=1, limit=1), priority=7)
    db = await asyncpg.connect(dsn)
    async with db.transaction():
        (changed,) = await client.admin.reschedule_jobs([added.id], priority=0, connection=db)
        seen_by_others = await client.get_job(added.id)
    await db.close(timeout=5)

    assert (0, 7, 0) == (changed.priority, seen_by_others.priority, (await client.get_job(added.id)).priority)
