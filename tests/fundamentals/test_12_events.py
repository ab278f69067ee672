"""A worker emits events to observers: for metrics, tracing and tests. asyncq's own log is an observer too."""

import asyncpg

from asyncq import Client, Event, JobCompleted, JobRetried, JobStarted, observer, task
from asyncq.testing import run_due


@task
async def greet(name: str) -> None:
    """Greet a user."""


async def test_an_observer_gets_all_events(dsn: str, schema: str, client: Client) -> None:
    """A function that takes an event is enough. It runs in the event loop, so it must not block."""
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
    """`@observer(...)` names the types. Events that no observer wants are not even built."""
    seen: list[tuple[str, int, str, int]] = []

    @observer(JobStarted, JobCompleted)
    def note(event: JobStarted | JobCompleted) -> None:
        seen.append((type(event).__name__, event.job_id, event.task, event.attempt))

    added = await client.add_job(greet, "Ada")
    await run_due(dsn, [greet], schema=schema, observers=[note])

    assert seen == [("JobStarted", added.id, "greet", 1), ("JobCompleted", added.id, "greet", 1)]


async def test_events_have_all_relevant_fields(dsn: str, schema: str, client: Client) -> None:
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
    """The job's row is deleted when the event is emitted, so a crash cannot run the job again."""
    seen: list[JobCompleted] = []
    version = f"select count(*) from {schema}._all_jobs()"

    @observer(JobCompleted)
    def note(event: JobCompleted) -> None:
        seen.append(event)

    await client.add_job(greet, "Ada")
    await run_due(dsn, [greet], schema=schema, observers=[note])

    assert len(seen) == 1
    assert await db.fetchval(version) == 0


async def test_an_observer_that_fails_affects_nobody(dsn: str, schema: str, client: Client) -> None:
    """The job completes, the other observers get the event, and the error becomes an event and a log line."""
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
