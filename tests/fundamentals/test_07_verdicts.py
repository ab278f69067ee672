"""A handler can decide the outcome of its job, by raising RetryAfter, Snooze or Discard."""

from datetime import timedelta

from asyncq import Client, Discard, JobState, RetryAfter, Snooze, task
from asyncq.testing import MovableClock, run_due


async def test_retry_after_fails_this_attempt_and_sets_the_wait(dsn: str, schema: str, client: Client) -> None:
    """It is for a known wait, such as that of HTTP's Retry-After. An attempt is counted."""

    @task
    async def call_api() -> None:
        raise RetryAfter(timedelta(minutes=10), "429 Too Many Requests")

    added = await client.add_job(call_api)
    ran = await run_due(dsn, [call_api], schema=schema)
    job = await client.get_job(added.id)

    assert ran.retried == [added.id]
    assert (job.attempts, job.run_at - job.updated_at) == (1, timedelta(minutes=10))
    assert job.last_error == "RetryAfter: 429 Too Many Requests"


async def test_retry_after_does_not_give_more_attempts(dsn: str, schema: str, client: Client) -> None:
    """The limit of attempts holds, even if the handler chose the delay."""

    @task(max_attempts=1)
    async def call_api() -> None:
        raise RetryAfter(600)

    added = await client.add_job(call_api)
    ran = await run_due(dsn, [call_api], schema=schema)

    assert ran.discarded == [added.id]


async def test_snooze_runs_the_job_again_later_without_counting_an_attempt(
    dsn: str, schema: str, client: Client
) -> None:
    """A resource that is not ready yet is no failure."""
    ready = False

    @task(max_attempts=1)
    async def hand_over() -> None:
        if not ready:
            raise Snooze(timedelta(hours=1))

    added = await client.add_job(hand_over)
    first = await run_due(dsn, [hand_over], schema=schema)
    job = await client.get_job(added.id)
    ready = True
    await MovableClock(dsn, schema).move(timedelta(hours=1))
    second = await run_due(dsn, [hand_over], schema=schema)

    assert first.snoozed == second.completed == [added.id]
    assert (job.attempts, job.last_error, job.state) == (0, None, JobState.SCHEDULED)


async def test_snooze_for_no_time_runs_the_job_again_at_once(dsn: str, schema: str, client: Client) -> None:
    """It runs after other waiting jobs, so long work can be cut into steps."""
    turns: list[int] = []

    @task
    async def take_turns() -> None:
        turns.append(len(turns))
        if len(turns) < 3:
            raise Snooze(0)

    added = await client.add_job(take_turns)
    ran = await run_due(dsn, [take_turns], schema=schema)

    assert ran.snoozed == [added.id, added.id]
    assert ran.completed == [added.id]


async def test_discard_ends_the_attempts_of_the_job_at_once(dsn: str, schema: str, client: Client) -> None:
    """It is for errors that another attempt cannot fix."""

    @task
    async def charge(card: str) -> None:
        raise Discard("the card has expired")

    added = await client.add_job(charge, "4000")
    ran = await run_due(dsn, [charge], schema=schema)
    job = await client.get_job(added.id)

    assert ran.discarded == [added.id]
    assert (job.state, job.last_error) == (JobState.DISCARDED, "Discard: the card has expired")
