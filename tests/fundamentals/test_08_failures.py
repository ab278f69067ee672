"""After a failure: the error with its traceback is kept, a discarded job stays, and your function is called."""

import asyncpg

from asyncq import Client, JobContext, JobDiscarded, JobState, task
from asyncq.testing import run_due


async def test_the_last_error_is_kept_with_its_traceback(dsn: str, schema: str, client: Client) -> None:
    """The job's row has type, message and traceback: `select last_error from asyncq.jobs` shows them."""

    @task
    async def divide(number: int, by: int) -> None:
        print(number / by)

    added = await client.add_job(divide.job(1, by=0))
    await run_due(dsn, [divide], schema=schema)
    error = (await client.get_job(added.id)).last_error

    assert error is not None
    assert error.startswith("ZeroDivisionError: division by zero\n\nTraceback (most recent call last):\n")
    assert "print(number / by)" in error
    assert "asyncq/engine" not in error


async def test_a_failed_job_does_not_affect_the_others(dsn: str, schema: str, client: Client) -> None:
    """The worker goes on after any exception: here the handler asks Python to exit."""

    @task(max_attempts=1)
    async def leave() -> None:
        raise SystemExit("bye")

    @task
    async def stay() -> None:
        pass

    left = await client.add_job(leave)
    stayed = await client.add_job(stay)
    ran = await run_due(dsn, [leave, stay], schema=schema, concurrency=1)

    assert (ran.discarded, ran.completed) == ([left.id], [stayed.id])


async def test_a_job_that_was_discarded_stays(dsn: str, schema: str, client: Client, db: asyncpg.Connection) -> None:
    """No job is lost silently: it can be inspected and retried until it is removed."""

    @task(max_attempts=1)
    async def charge() -> None:
        raise ConnectionError("no answer")

    added = await client.add_job(charge)
    await run_due(dsn, [charge], schema=schema)
    again = await run_due(dsn, [charge], schema=schema)
    job = await client.get_job(added.id)

    assert (job.state, job.attempts, job.max_attempts) == (JobState.DISCARDED, 1, 1)
    assert again.started == []
    assert await db.fetchval(f"select id from {schema}.jobs where attempts = max_attempts") == added.id


async def test_on_discarded_is_called_when_a_job_is_discarded(dsn: str, schema: str, client: Client) -> None:
    """Attempts that are followed by another one do not count. The function gets the job, the attempt and the error."""
    told: list[tuple[int, str, int, str]] = []

    def tell(failed: JobDiscarded) -> None:
        told.append((failed.job_id, failed.task, failed.attempt, failed.error.partition("\n")[0]))

    @task(max_attempts=2, retry=[0], on_discarded=tell)
    async def charge() -> None:
        raise ConnectionError("no answer")

    added = await client.add_job(charge)
    await run_due(dsn, [charge], schema=schema)

    assert told == [(added.id, "charge", 2, "ConnectionError: no answer")]


async def test_on_failed_may_be_async(dsn: str, schema: str, client: Client, db: asyncpg.Connection) -> None:
    """It runs after the failure was committed, so it may read the job, or add another one."""
    states: list[str] = []

    async def tell(failed: JobDiscarded) -> None:
        states.append((await client.get_job(failed.job_id)).state)
        await client.add_job("apologise", {"job": failed.job_id})

    @task(max_attempts=1, on_discarded=tell)
    async def charge() -> None:
        raise ConnectionError("no answer")

    added = await client.add_job(charge)
    await run_due(dsn, [charge], schema=schema)

    assert states == [JobState.DISCARDED]
    assert await db.fetchval(f"select payload->>'job' from {schema}._all_jobs() where id <> $1", added.id) == str(
        added.id
    )


async def test_the_errors_of_a_job_can_be_read_after_it_has_completed(dsn: str, schema: str, client: Client) -> None:
    """Each failed attempt is recorded for a week, whatever became of the job."""

    @task(retry=[0])
    async def charge(ctx: JobContext) -> None:
        if ctx.attempt < 3:
            raise ConnectionError(f"no answer to request {ctx.attempt}")

    added = await client.add_job(charge)
    ran = await run_due(dsn, [charge], schema=schema)
    errors = [attempt.error.partition("\n")[0] for attempt in await client.admin.errors(added.id)]

    assert ran.completed == [added.id]
    assert errors == ["ConnectionError: no answer to request 1", "ConnectionError: no answer to request 2"]
