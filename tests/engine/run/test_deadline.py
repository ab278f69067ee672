"""Deadlines: the end of all attempts of a job."""

import asyncio
import time
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from asyncq import Client, JobContext, JobDiscarded, JobState, Snooze, Timeout, task
from asyncq.domain.events import JobCompleted, JobEvent, JobRetried, JobStarted
from asyncq.domain.outcome import PAST_DEADLINE
from asyncq.engine.fetch import fetcher
from asyncq.store.claim import Fetched
from asyncq.testing import MovableClock, run_due
from tests.engine.conftest import MakeWorker
from tests.support.effects import Effects
from tests.support.seen import Seen
from tests.support.waiting import LIMIT_S

HOUR = timedelta(hours=1)


def ends(seen: Seen) -> list[str]:
    """The names of the events of jobs after the start, in their order."""
    return [type(event).__name__ for event in seen.of(JobEvent) if not isinstance(event, JobStarted)]


@task(deadline=HOUR, retry=[0])
async def hang() -> None:
    """Runs until it is cancelled."""
    await asyncio.Event().wait()


def in_s(monkeypatch: pytest.MonkeyPatch, deadline_s: float) -> None:
    """Let the deadline of each claim come so soon after the claim."""
    real = fetcher.fetch_jobs

    async def fetch(*args: Any, **named: Any) -> Fetched:
        fetched = await real(*args, **named)
        claims = fetched.claims
        at = time.perf_counter() + deadline_s
        claims = [
            claim if claim.deadline_at is None else msgspec.structs.replace(claim, deadline_at=at) for claim in claims
        ]
        return msgspec.structs.replace(fetched, claims=claims)

    monkeypatch.setattr(fetcher, "fetch_jobs", fetch)


async def test_a_run_is_cut_off_at_the_deadline_and_its_job_is_discarded(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No attempt could start later, although the job has some left."""
    in_s(monkeypatch, 1.0)
    added = await client.add_job(hang)
    async with make_worker(hang).start():
        await seen.wait_for(JobDiscarded)
    job = await client.get_job(added.id)

    assert JobState.DISCARDED == job.state
    assert ["JobTimedOut", "JobDiscarded"] == ends(seen)
    assert job.last_error is not None
    assert job.last_error.startswith("DeadlineExceeded: cut off at its deadline, after ")
    assert job.last_error.endswith(PAST_DEADLINE)


@pytest.mark.parametrize(("timeout", "said"), [("1 h", "DeadlineExceeded: cut off at its"), ("1 ms", "TimedOut: ran")])
async def test_the_earlier_of_the_timeout_and_the_deadline_ends_a_run(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch, timeout: str, said: str
) -> None:
    """An extension puts off the timeout, and not the deadline."""
    in_s(monkeypatch, 1.0)

    @task(max_attempts=1)
    async def work(ctx: JobContext) -> None:
        if timeout == "1 h":
            ctx.extend("2 h")
        await asyncio.Event().wait()

    await client.add_job(work, timeout=timeout, deadline=HOUR)
    await make_worker(work).run_once()

    assert ["JobTimedOut", "JobDiscarded"] == ends(seen)
    assert seen.of(JobDiscarded)[0].error.startswith(said)


async def test_the_soft_limit_comes_before_the_deadline(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """It is set as without a deadline."""

    @task(timeout=Timeout(soft="1 ms"), deadline=HOUR)
    async def work(ctx: JobContext) -> None:
        await ctx.cancelled.wait()

    await client.add_job(work)
    await make_worker(work).run_once()

    assert ["JobCompleted"] == ends(seen)


async def test_a_retry_that_would_start_after_the_deadline_is_not_made(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The job is discarded at once, and `on_discarded` is called."""
    told: list[JobDiscarded] = []

    @task(retry=[7200], deadline=HOUR, on_discarded=told.append)
    async def fail() -> None:
        raise OSError("broken")

    added = await client.add_job(fail)
    await make_worker(fail).run_once()
    job = await client.get_job(added.id)

    assert (["JobDiscarded"], JobState.DISCARDED) == (ends(seen), job.state)
    assert job.last_error is not None
    assert job.last_error.startswith("OSError: broken")
    assert job.last_error.endswith(PAST_DEADLINE)
    assert [added.id] == [event.job_id for event in told]


async def test_a_retry_in_time_is_made(client: Client, dsn: str, schema: str, seen: Seen) -> None:
    """The deadline is about all attempts, not about the first."""

    @task(retry=[600], deadline=HOUR)
    async def fail_once() -> None:
        if not seen.of(JobRetried):
            raise OSError("broken")

    added = await client.add_job(fail_once)
    async with MovableClock(dsn, schema) as clock:
        await run_due(dsn, [fail_once], schema=schema, observers=[seen])
        await clock.move(timedelta(minutes=11))
        ran = await run_due(dsn, [fail_once], schema=schema, observers=[seen])

    assert [added.id] == ran.completed


async def test_an_attempt_after_the_deadline_never_starts(client: Client, dsn: str, schema: str, seen: Seen) -> None:
    """The job waited too long, for a worker or for its retry."""

    @task
    async def work() -> None:
        """The least job."""

    added = await client.add_job(work, deadline=HOUR)
    async with MovableClock(dsn, schema) as clock:
        await clock.move(2 * HOUR)
        ran = await run_due(dsn, [work], schema=schema, observers=[seen])
    job = await client.get_job(added.id)

    assert ([], [added.id]) == (ran.started, ran.discarded)
    assert (JobState.DISCARDED, PAST_DEADLINE) == (job.state, job.last_error)


async def test_a_snooze_beyond_the_deadline_discards_the_job(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Its next run would start too late."""

    @task(deadline=HOUR)
    async def later() -> None:
        raise Snooze(2 * HOUR)

    added = await client.add_job(later)
    await make_worker(later).run_once()

    assert ["JobDiscarded"] == ends(seen)
    assert PAST_DEADLINE == (await client.get_job(added.id)).last_error


async def test_a_job_that_was_discarded_at_its_deadline_can_be_retried_by_hand(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Who retries it wants it to run."""
    fails = [True]

    @task(retry=[7200], deadline=HOUR)
    async def work() -> None:
        if fails.pop() if fails else False:
            raise OSError("broken")

    added = await client.add_job(work)
    await make_worker(work).run_once()
    await client.admin.retry_jobs([added.id])
    await make_worker(work).run_once()

    assert [added.id] == seen.ids(JobCompleted)


async def test_a_transactional_run_is_rolled_back_at_the_deadline(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at its hard limit."""
    in_s(monkeypatch, 1.0)

    @task(transactional=True, deadline=HOUR)
    async def write(ctx: JobContext) -> None:
        await ctx.query(effects.insert, ctx.job.id)
        await ctx.query("select pg_sleep($1)", LIMIT_S)

    await client.add_job(write)
    await make_worker(write).run_once()

    assert (["JobTimedOut", "JobDiscarded"], []) == (ends(seen), await effects.kept())
