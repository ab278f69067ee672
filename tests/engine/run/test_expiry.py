"""Jobs that expire: a job whose first run has not started in time never starts, wherever its claim is."""

import asyncio
import time
from datetime import timedelta
from typing import Any

import asyncpg
import msgspec
import pytest

from asyncq import Client, JobState, OnConflict, Snooze, UniquePolicy, task
from asyncq.domain.events import (
    JobCancelled,
    JobCompleted,
    JobExpired,
    JobRetried,
    JobsExpired,
    JobsFetched,
    JobsReturned,
    JobStarted,
)
from asyncq.domain.job import Claim
from asyncq.engine.fetch import fetcher, inbox, schedule
from asyncq.engine.maintenance import pruner
from asyncq.engine.settle import claim_next
from asyncq.store.claim import Fetched
from asyncq.testing import MovableClock, run_due
from tests.engine.conftest import MakeWorker
from tests.engine.fetch.test_fetcher import fetch_ahead
from tests.support.seen import Seen
from tests.support.waiting import wait_until

MINUTE = timedelta(minutes=1)


@pytest.fixture
def by_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    """No maintenance ends expired jobs."""

    async def expire_jobs(*_: Any) -> list[int]:
        return []

    monkeypatch.setattr(pruner, "expire_jobs", expire_jobs)


@task
async def nothing(number: int = 0) -> None:
    """The least job."""


async def left(db: asyncpg.Connection, schema: str) -> list[int]:
    """The ids of the jobs that have not ended."""
    return [row[0] for row in await db.fetch(f"select id from {schema}._all_jobs() order by id")]


# A fetch


@pytest.mark.usefixtures("by_fetch")
@pytest.mark.parametrize("others", [0, 120], ids=["a row", "beside a batch"])
async def test_an_expired_job_ends_as_cancelled_when_it_is_fetched(
    client: Client, dsn: str, schema: str, seen: Seen, db: asyncpg.Connection, others: int
) -> None:
    """It never starts, and the other jobs do."""
    added = await client.add_job(nothing, expires=MINUTE, idempotency_key="request")
    async with MovableClock(dsn, schema) as clock:
        await clock.move(2 * MINUTE)
        await client.add_jobs([nothing.job(number) for number in range(others)])
        ran = await run_due(dsn, [nothing], schema=schema, observers=[seen])
        ended = await db.fetch(f"select id, state from {schema}._ended_jobs")

    assert ([added.id], []) == (seen.ids(JobExpired), seen.ids(JobCancelled))
    assert (others, False) == (len(ran.completed), added.id in ran.started)
    assert [(added.id, "cancelled")] == [tuple(row) for row in ended]
    assert [] == await left(db, schema)


@pytest.mark.usefixtures("by_fetch")
async def test_a_job_that_starts_in_time_runs(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """It also may be added for later: the time counts from then."""
    added = await client.add_job(nothing, expires=MINUTE)
    await make_worker(nothing).run_once()

    assert ([added.id], []) == (seen.ids(JobCompleted), seen.ids(JobExpired))


@pytest.mark.usefixtures("by_fetch")
async def test_the_time_of_a_later_job_counts_from_its_run_at(
    client: Client, dsn: str, schema: str, seen: Seen
) -> None:
    """It would otherwise never run."""
    async with MovableClock(dsn, schema) as clock:
        added = await client.add_job(nothing, expires=MINUTE, run_at=await clock.now() + 60 * MINUTE)
        await clock.move(60 * MINUTE)
        ran = await run_due(dsn, [nothing], schema=schema, observers=[seen])

    assert [added.id] == ran.completed


@pytest.mark.usefixtures("by_fetch")
async def test_the_default_of_a_task_is_stored_with_each_job(client: Client, dsn: str, schema: str, seen: Seen) -> None:
    """The add decides, and a job can have another time."""

    @task(expires="1 min")
    async def hurry() -> None:
        """The least job."""

    short = await client.add_job(hurry)
    long = await client.add_job(hurry, expires="1 h")
    async with MovableClock(dsn, schema) as clock:
        await clock.move(2 * MINUTE)
        ran = await run_due(dsn, [hurry], schema=schema, observers=[seen])

    assert ([short.id], [long.id]) == (seen.ids(JobExpired), ran.completed)


@pytest.mark.usefixtures("by_fetch")
async def test_an_expired_job_frees_its_queue(client: Client, dsn: str, schema: str, seen: Seen) -> None:
    """The next one of the queue runs."""
    expired = await client.add_job(nothing, queue="q", expires=MINUTE)
    after = await client.add_job(nothing, queue="q")
    async with MovableClock(dsn, schema) as clock:
        await clock.move(2 * MINUTE)
        ran = await run_due(dsn, [nothing], schema=schema, observers=[seen])

    assert ([expired.id], [after.id]) == (seen.ids(JobExpired), ran.completed)


@pytest.mark.usefixtures("by_fetch")
async def test_a_job_of_a_queue_that_follows_another_may_have_expired(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is claimed by the settlement of the job before it, and nothing else looked at it."""
    monkeypatch.setattr(schedule, "TURN_S", 3600)
    monkeypatch.setattr(schedule, "LONGEST_TURN_S", 3600)
    real = claim_next.claim_next
    expired: list[int] = []

    async def claim(*args: Any) -> tuple[set[int], list[Claim]]:
        written, claims = await real(*args)
        if claims and not expired:
            expired.append(claims[0].id)
            claims = [msgspec.structs.replace(claims[0], expires_at=time.perf_counter())]
        return written, claims

    monkeypatch.setattr(claim_next, "claim_next", claim)
    added = await client.add_jobs([nothing.job().with_options(queue="q", expires="1 h") for _ in range(30)])
    async with make_worker(nothing).start():
        await seen.wait_for(JobCompleted, 29)

    assert (1, expired) == (len(expired), seen.ids(JobExpired))
    assert [one.id for one in added if one.id not in expired] == seen.ids(JobCompleted)


# The buffer


@pytest.mark.usefixtures("by_fetch")
async def test_a_claim_that_expires_in_the_buffer_never_starts(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was fetched in time, and waited too long for a slot."""
    monkeypatch.setattr(inbox, "STALE_S", 3600)
    fetch_ahead(monkeypatch, 10)
    leave = asyncio.Event()
    buffered: list[float] = []
    real = fetcher.fetch_jobs

    async def fetch(*args: Any, **named: Any) -> Fetched:
        fetched = await real(*args, **named)
        claims = fetched.claims
        soon = time.perf_counter() + 0.05
        limited = [
            claim if claim.expires_at is None else msgspec.structs.replace(claim, expires_at=soon) for claim in claims
        ]
        buffered.extend(soon for claim in limited if claim.expires_at is not None)
        return msgspec.structs.replace(fetched, claims=limited)

    monkeypatch.setattr(fetcher, "fetch_jobs", fetch)

    @task
    async def wait() -> None:
        await leave.wait()

    first, second, third = await client.add_jobs([wait.job(), wait.job().with_options(expires="1 h"), wait.job()])
    async with make_worker(wait, concurrency=1).start():
        await seen.wait_for(JobStarted)
        await wait_until(lambda: bool(buffered) and time.perf_counter() > buffered[0], description="the job to expire")
        leave.set()
        await seen.wait_for(JobCompleted, 2)
        await seen.wait_for(JobExpired)

    assert ([first.id, third.id], [second.id]) == (seen.ids(JobStarted), seen.ids(JobExpired))
    assert [] == await left(db, schema)


@pytest.mark.usefixtures("by_fetch")
async def test_a_returned_claim_can_still_expire(
    client: Client, make_worker: MakeWorker, dsn: str, schema: str, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It never began."""
    monkeypatch.setattr(inbox, "STALE_S", 3600)
    fetch_ahead(monkeypatch, 10)
    leave = asyncio.Event()

    @task
    async def wait() -> None:
        await leave.wait()

    await client.add_job(wait)
    limited = await client.add_job(wait, expires="1 h")
    async with make_worker(wait, concurrency=1).start():
        await seen.wait_for(JobsFetched)
        await seen.wait_for(JobStarted)
        asyncio.get_running_loop().call_later(0.01, leave.set)
    returned = {job_id for event in seen.of(JobsReturned) for job_id in event.job_ids}
    async with MovableClock(dsn, schema) as clock:
        await clock.move(120 * MINUTE)
        await run_due(dsn, [wait], schema=schema, observers=[seen])

    assert {limited.id} == returned
    assert [limited.id] == seen.ids(JobExpired)


@pytest.mark.usefixtures("by_fetch")
async def test_a_job_that_was_cancelled_and_has_expired_ends_once(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cancellation was committed while the claim was on its way to the worker."""
    real = fetcher.fetch_jobs

    async def fetch(*args: Any, **named: Any) -> Fetched:
        fetched = await real(*args, **named)
        claims = fetched.claims
        for claim in claims:
            await db.execute(f"select from {schema}.cancel_jobs(array[$1::bigint])", claim.id)
        claims = [msgspec.structs.replace(claim, expires_at=time.perf_counter()) for claim in claims]
        return msgspec.structs.replace(fetched, claims=claims)

    monkeypatch.setattr(fetcher, "fetch_jobs", fetch)
    added = await client.add_job(nothing, expires="1 h")
    await make_worker(nothing, listen=False).run_once()

    assert [] == await left(db, schema)
    assert [] == seen.ids(JobStarted)
    assert [added.id] == [*seen.ids(JobExpired), *seen.ids(JobCancelled)]


@pytest.mark.usefixtures("by_fetch")
async def test_a_job_that_was_asked_for_again_runs_although_its_claim_has_expired(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request for a rerun is newer, and begins as if the job had never run."""
    rerun = UniquePolicy(on_conflict=OnConflict.IGNORE)
    real = fetcher.fetch_jobs
    outcomes: list[str] = []

    async def fetch(*args: Any, **named: Any) -> Fetched:
        fetched = await real(*args, **named)
        claims = fetched.claims
        if claims and not outcomes:
            outcomes.append((await client.add_job(nothing, unique=rerun, rerun=True)).outcome)
            claims = [msgspec.structs.replace(claim, expires_at=time.perf_counter()) for claim in claims]
        return msgspec.structs.replace(fetched, claims=claims)

    monkeypatch.setattr(fetcher, "fetch_jobs", fetch)
    added = await client.add_job(nothing, unique=rerun, expires="1 h")
    async with make_worker(nothing).start():
        await seen.wait_for(JobCompleted)

    assert (["updated"], [added.id], []) == (outcomes, seen.ids(JobStarted), seen.ids(JobExpired))


# After a run began


async def test_a_retry_does_not_expire(client: Client, dsn: str, schema: str, seen: Seen) -> None:
    """Its first run began in time."""

    @task(retry=[3600], expires=MINUTE)
    async def fail_once() -> None:
        if not seen.of(JobRetried):
            raise OSError("broken")

    added = await client.add_job(fail_once)
    async with MovableClock(dsn, schema) as clock:
        await run_due(dsn, [fail_once], schema=schema, observers=[seen])
        await clock.move(120 * MINUTE)
        ran = await run_due(dsn, [fail_once], schema=schema, observers=[seen])

    assert [added.id] == ran.completed


async def test_a_snoozed_job_does_not_expire(client: Client, dsn: str, schema: str) -> None:
    """Its run began, although no attempt counts."""
    runs: list[int] = []

    @task(expires=MINUTE)
    async def look() -> None:
        runs.append(1)
        if len(runs) == 1:
            raise Snooze(3600)

    added = await client.add_job(look)
    async with MovableClock(dsn, schema) as clock:
        await run_due(dsn, [look], schema=schema)
        await clock.move(120 * MINUTE)
        ran = await run_due(dsn, [look], schema=schema)

    assert [added.id] == ran.completed


# Uniqueness


async def test_an_add_beside_an_expired_job_is_not_lost(client: Client, dsn: str, schema: str) -> None:
    """The expired one waits for its end, and will never run."""
    first = await client.add_job(nothing, singleton=True, expires=MINUTE)
    async with MovableClock(dsn, schema) as clock:
        again = await client.add_job(nothing, singleton=True)
        await clock.move(2 * MINUTE)
        second = await client.add_job(nothing, singleton=True)
        ran = await run_due(dsn, [nothing], schema=schema)

    assert ("deduplicated", "added", [second.id]) == (again.outcome, second.outcome, ran.completed)
    assert first.id != second.id


async def test_an_add_with_the_key_of_an_expired_job_gives_it_a_new_time(client: Client, dsn: str, schema: str) -> None:
    """It is the same job, which is wanted again."""
    first = await client.add_job(nothing, job_key="k", expires=MINUTE)
    async with MovableClock(dsn, schema) as clock:
        await clock.move(2 * MINUTE)
        again = await client.add_job(nothing, job_key="k", expires=MINUTE)
        ran = await run_due(dsn, [nothing], schema=schema)

    assert ("updated", [first.id]) == (again.outcome, ran.completed)


# Maintenance


async def test_maintenance_ends_what_no_fetch_takes(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody knows their task, and there may be many."""
    monkeypatch.setattr(pruner, "BATCH", 2)
    added = await client.add_jobs([nothing.job().with_options(expires=0.001) for _ in range(5)])
    other = await client.add_job(nothing, expires="1 h")
    await db.execute(f"update {schema}._tasks set identifier = 'unknown'")
    async with make_worker().start():
        await wait_until(
            lambda: 5 == sum(len(event.job_ids) for event in seen.of(JobsExpired)), description="the jobs to end"
        )
        state = (await client.get_job(other.id)).state

    assert [2, 2, 1] == [len(event.job_ids) for event in seen.of(JobsExpired)]
    assert {one.id for one in added} == {job_id for event in seen.of(JobsExpired) for job_id in event.job_ids}
    assert (JobState.AVAILABLE, [other.id]) == (state, await left(db, schema))
