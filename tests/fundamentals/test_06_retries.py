"""A job whose handler raises is tried again, later and later, until its attempts are used up.

The tests move the clock of their schema instead of waiting: see `MovableClock`.
"""

import math
from datetime import timedelta
from typing import Any

import pytest

from asyncq import (
    Client,
    ConstantRetry,
    ExponentialRetry,
    FunctionRetry,
    JobRetried,
    JobState,
    LinearRetry,
    TableRetry,
    TaskError,
    observer,
    task,
)
from asyncq.testing import MovableClock, make_worker, run_due
from tests.support.waiting import wait_until


async def test_a_failed_job_is_tried_again_when_its_wait_is_over(dsn: str, schema: str, client: Client) -> None:
    """The first wait is e seconds; until then the job is `retryable`."""
    pages = iter([ConnectionError("no answer"), "content"])

    @task
    async def fetch_page() -> None:
        if isinstance(page := next(pages), Exception):
            raise page

    added = await client.add_job(fetch_page)
    first = await run_due(dsn, [fetch_page], schema=schema)
    too_early = await run_due(dsn, [fetch_page], schema=schema)
    state = (await client.get_job(added.id)).state
    await MovableClock(dsn, schema).move(timedelta(seconds=math.e))
    second = await run_due(dsn, [fetch_page], schema=schema)

    assert (first.retried, too_early.started, state) == ([added.id], [], JobState.RETRYABLE)
    assert second.completed == [added.id]


async def test_the_waits_grow_by_e_until_the_tenth_attempt(dsn: str, schema: str, client: Client) -> None:
    """The default is 25 attempts with waits of exp(min(attempt, 10)) seconds: after four days the job is discarded.

    Here a worker keeps running: whenever the clock is moved, it looks for due jobs.
    """
    waits: list[float] = []
    failed: list[int] = []

    @observer(JobRetried)
    def note(event: JobRetried) -> None:
        waits.append(event.delay_s)

    @task(on_discarded=lambda event: failed.append(event.attempt))
    async def fetch_page() -> None:
        raise ConnectionError("no answer")

    clock = MovableClock(dsn, schema)
    async with make_worker(dsn, [fetch_page], schema=schema, observers=[note]).start():
        added = await client.add_job(fetch_page)
        for attempt in range(1, 25):
            await wait_until(lambda attempt=attempt: len(waits) == attempt, description=f"attempt {attempt}")
            await clock.set((await client.get_job(added.id)).run_at)
        await wait_until(lambda: bool(failed), description="the last attempt")

    assert failed == [25]
    assert waits == [math.exp(min(attempt, 10)) for attempt in range(1, 25)]
    assert timedelta(seconds=sum(waits)) < timedelta(days=4)


async def test_a_job_can_have_fewer_attempts(dsn: str, schema: str, client: Client) -> None:
    """`max_attempts` counts the first one: with 1 nothing is tried again."""

    @task(max_attempts=3)
    async def fetch_page() -> None:
        raise ConnectionError("no answer")

    by_task = await client.add_job(fetch_page)
    by_job = await client.add_job(fetch_page, max_attempts=1)
    ran = await run_due(dsn, [fetch_page], schema=schema, concurrency=1)

    assert (ran.retried, ran.discarded) == ([by_task.id], [by_job.id])


@pytest.mark.parametrize(
    ("retry", "waits"),
    [
        pytest.param(
            ExponentialRetry(first=10, factor=3, longest=timedelta(minutes=1)), [10, 30, 60], id="exponential"
        ),
        pytest.param(LinearRetry(step=10, longest=25), [10, 20, 25], id="linear"),
        pytest.param(ConstantRetry(timedelta(minutes=5)), [300, 300, 300], id="constant"),
        pytest.param(TableRetry([1, timedelta(hours=1)]), [1, 3600, 3600], id="table"),
        pytest.param([1, 2], [1, 2, 2], id="list"),
        pytest.param(FunctionRetry(lambda attempt: 7 * attempt), [7, 14, 21], id="function-policy"),
        pytest.param(lambda attempt: timedelta(days=attempt), [86400, 172800, 259200], id="function"),
    ],
)
async def test_a_task_chooses_its_waits(dsn: str, schema: str, client: Client, retry: Any, waits: list[float]) -> None:
    """Waits are timedeltas or seconds. A list is a table whose last entry repeats; a function is given the attempt."""

    @task(retry=retry)
    async def fetch_page() -> None:
        raise ConnectionError("no answer")

    clock = MovableClock(dsn, schema)
    added = await client.add_job(fetch_page)
    measured: list[float] = []
    for _ in waits:
        await run_due(dsn, [fetch_page], schema=schema)
        job = await client.get_job(added.id)
        measured.append((job.run_at - job.updated_at).total_seconds())
        await clock.set(job.run_at)

    assert measured == waits


async def test_jitter_spreads_the_waits(dsn: str, schema: str, client: Client) -> None:
    """A hundred jobs that failed together, because a service was down, are not retried together."""

    @task(retry=ConstantRetry(100, jitter=0.5))
    async def fetch_page() -> None:
        raise ConnectionError("no answer")

    await client.add_jobs([fetch_page.job()] * 20)
    ran = await run_due(dsn, [fetch_page], schema=schema)
    waits = {event.delay_s for event in ran.events if event.job_id in ran.retried and hasattr(event, "delay_s")}

    assert len(waits) == 20
    assert all(50 <= wait <= 150 for wait in waits)


async def test_a_retry_that_makes_no_sense_is_an_error_at_import() -> None:
    """Other invalid options of a task fail at import too."""
    with pytest.raises(TaskError, match="retry must be a policy, a list of delays or a function"):

        @task(retry="sometimes")
        async def fetch_page() -> None:
            pass
