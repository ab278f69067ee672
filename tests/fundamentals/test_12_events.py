"""A worker tells observers what happens: for metrics, tracing, tests. asyncq's own log lines are one of them."""

import asyncpg

from asyncq import Client, Event, JobCompleted, JobRetried, JobStarted, observer, task
from asyncq.testing import run_due


@task
async def greet(name: str) -> None:
    """Greet somebody."""


async def test_an_observer_is_told_what_happens(dsn: str, schema: str, client: Client) -> None:
    """A function that takes an event is enough. It runs in the event loop: it must not block."""
    seen: list[str] = []

    def note(event: Event) -> None:
        seen.append(type(event).__name__)

    await client.add_job(greet, "Ada")
    await run_due(dsn, [greet], schema=schema, observers=[note])

    assert seen == [
        "WorkerStarted",
        "JobsFetched",
        "JobStarted",
        "JobCompleted",
        "WorkerStopping",
        "WorkerStopped",
    ]


async def test_an_observer_can_choose_its_events(dsn: str, schema: str, client: Client) -> None:
    """`@observer(...)` names the types; those that nobody wants are not even built."""
    seen: list[tuple[str, int, str, int]] = []

    @observer(JobStarted, JobCompleted)
    def note(event: JobStarted | JobCompleted) -> None:
        seen.append((type(event).__name__, event.job_id, event.task, event.attempt))

    added = await client.add_job(greet, "Ada")
    await run_due(dsn, [greet], schema=schema, observers=[note])

    assert seen == [("JobStarted", added.id, "greet", 1), ("JobCompleted", added.id, "greet", 1)]


async def test_events_carry_what_there_is_to_know(dsn: str, schema: str, client: Client) -> None:
    """Each type has its fields: here the error, the wait until the next attempt, the duration."""
    seen: list[JobRetried] = []

    @task(retry=[60])
    async def fail() -> None:
        raise ValueError("no")

    await client.add_job(fail)
    await run_due(dsn, [fail], schema=schema, observers=[observer(JobRetried)(seen.append)])
    [event] = seen

    assert event.error.startswith("ValueError: no\n")
    assert event.delay_s == 60
    assert 0 < event.duration_s < 10


async def test_job_completed_comes_after_the_commit(
    dsn: str, schema: str, client: Client, db: asyncpg.Connection
) -> None:
    """Who sees it can rely on it: the job's row is gone for everybody, so a crash cannot run it again."""
    seen: list[JobCompleted] = []
    version = f"select count(*) from {schema}._all_jobs()"

    @observer(JobCompleted)
    def note(event: JobCompleted) -> None:
        seen.append(event)

    await client.add_job(greet, "Ada")
    await run_due(dsn, [greet], schema=schema, observers=[note])

    assert len(seen) == 1
    assert await db.fetchval(version) == 0


async def test_an_observer_that_fails_hurts_nobody(dsn: str, schema: str, client: Client) -> None:
    """The job completes, the other observers are told, and the error is an event and a log line itself."""
    seen: list[str] = []

    @observer(JobCompleted)
    def break_down(event: JobCompleted) -> None:
        raise RuntimeError("the metrics service is away")

    def note(event: Event) -> None:
        seen.append(type(event).__name__)

    added = await client.add_job(greet, "Ada")
    ran = await run_due(dsn, [greet], schema=schema, observers=[break_down, note])

    assert ran.completed == [added.id]
    assert {"JobCompleted", "ObserverFailed"} <= set(seen)
