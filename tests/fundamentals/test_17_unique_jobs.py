"""Jobs that must not exist twice: singletons, unique policies, idempotency keys."""

import asyncpg
import pytest

from asyncq import Client, DuplicateJob, JobContext, JobState, UniquePolicy, task
from asyncq.testing import make_worker, run_due
from tests.support.waiting import wait_until


async def test_a_singleton_is_one_of_its_kind(dsn: str, schema: str, client: Client) -> None:
    """A scheduler, a webhook and an operator may all ask for it: one job waits, or one runs."""
    ran: list[str] = []

    @task(singleton=True)
    async def refresh() -> None:
        ran.append("refresh")

    first = await client.add_job(refresh)
    second = await client.add_job(refresh)
    await run_due(dsn, [refresh], schema=schema)
    third = await client.add_job(refresh)

    assert (second.outcome, second.existing_id) == ("deduplicated", first.id)
    assert (ran, third.outcome) == (["refresh"], "added")


async def test_a_subject_makes_it_one_for_each(client: Client) -> None:
    """The subject is yours to choose; the payload does not count."""

    @task(singleton=True)
    async def sync_account(account: int, full: bool = False) -> None: ...

    one = await client.add_job(sync_account.job(1), subject="account 1")
    two = await client.add_job(sync_account.job(2), subject="account 2")
    again = await client.add_job(sync_account.job(1, full=True), subject="account 1")

    assert (one.outcome, two.outcome, again.outcome) == ("added", "added", "deduplicated")


async def test_a_request_during_the_run_can_run_it_again(dsn: str, schema: str, client: Client) -> None:
    """`rerun=True`: the run may have read what has changed since. The last payload counts, and it runs once more."""
    ran: list[int] = []

    @task(singleton=True)
    async def index(version: int, ctx: JobContext) -> None:
        ran.append(version)
        if version == 1:
            # Two requests come while it runs.
            for newer in (2, 3):
                added = await ctx.add_job(index.job(newer), rerun=True)

                assert (added.outcome, added.existing_state) == ("updated", JobState.ACTIVE)

    await client.add_job(index.job(1))
    await run_due(dsn, [index], schema=schema)

    assert ran == [1, 3]


async def test_a_policy_defines_which_jobs_are_duplicates(client: Client) -> None:
    """Here only the customer counts, not the rest of the payload. By default a second job is an error."""

    @task(unique=UniquePolicy(keys=["args"], args_keys=["customer"]))
    async def send_report(customer: int, verbose: bool = False) -> None: ...

    first = await client.add_job(send_report.job(7))
    await client.add_job(send_report.job(8))
    with pytest.raises(DuplicateJob) as caught:
        await client.add_job(send_report.job(7, verbose=True))

    assert (caught.value.existing_id, caught.value.existing_state) == (first.id, JobState.AVAILABLE)


async def test_a_new_job_can_replace_the_one_that_runs(dsn: str, schema: str, client: Client) -> None:
    """The handler of the old job is cancelled, and the old job is not retried."""
    ran: list[int] = []

    @task(unique={"on_conflict": "replace"})
    async def follow(version: int, ctx: JobContext) -> None:
        ran.append(version)
        if version == 1:
            await ctx.cancelled.wait()
            await wait_until(lambda: False, description="the cancellation")

    async with make_worker(dsn, [follow], schema=schema).start():
        old = await client.add_job(follow.job(1))
        await wait_until(lambda: ran == [1], description="the first to run")
        new = await client.add_job(follow.job(2))
        await wait_until(lambda: ran == [1, 2], description="the second to run")

    assert (new.outcome, new.existing_id, new.existing_state) == ("added", old.id, JobState.ACTIVE)


async def test_a_request_with_a_key_can_be_repeated(
    dsn: str, schema: str, client: Client, db: asyncpg.Connection
) -> None:
    """This helps if the outcome of the first try is unknown, even after the job has ended."""
    paid: list[int] = []

    @task
    async def pay(order: int) -> None:
        paid.append(order)

    first = await client.add_job(pay, 7, idempotency_key="order 7")
    await run_due(dsn, [pay], schema=schema)
    again = await client.add_job(pay, 7, idempotency_key="order 7")
    await run_due(dsn, [pay], schema=schema)

    assert (again.id, again.outcome, again.existing_state) == (first.id, "deduplicated", JobState.COMPLETED)
    assert paid == [7]
