"""Which job runs first: the lower priority number, then the earlier run_at, then the earlier add.

`concurrency=1` makes the order visible; with more, jobs start in this order and overlap.
"""

from datetime import UTC, datetime, timedelta

import pytest

from asyncq import Client, InvalidJob, JobState, task
from asyncq.testing import MovableClock, run_due


@task
async def write(line: str) -> None:
    """Write a line."""


async def test_equals_run_in_the_order_in_which_they_were_added(dsn: str, schema: str, client: Client) -> None:
    """First in, first out."""
    ids = [(await client.add_job(write, line)).id for line in ("one", "two", "three")]

    ran = await run_due(dsn, [write], schema=schema, concurrency=1)

    assert ran.started == ids


async def test_a_lower_priority_number_runs_first(dsn: str, schema: str, client: Client) -> None:
    """The default is 0, and lower numbers are more urgent, as with `nice`."""
    late = await client.add_job(write, "late", priority=10)
    usual = await client.add_job(write, "usual")
    urgent = await client.add_job(write, "urgent", priority=-10)

    ran = await run_due(dsn, [write], schema=schema, concurrency=1)

    assert ran.started == [urgent.id, usual.id, late.id]


async def test_of_one_priority_the_one_that_was_due_first_runs_first(dsn: str, schema: str, client: Client) -> None:
    """A time in the past is allowed: it moves a job forward among its equals."""
    now = datetime.now(UTC)
    second = await client.add_job(write, "second", run_at=now - timedelta(minutes=1))
    first = await client.add_job(write, "first", run_at=now - timedelta(minutes=2))

    ran = await run_due(dsn, [write], schema=schema, concurrency=1)

    assert ran.started == [first.id, second.id]


async def test_a_job_does_not_run_before_its_time(dsn: str, schema: str, client: Client) -> None:
    """`run_at` is the earliest start. The test moves the clock of its schema to the next day."""
    clock = MovableClock(dsn, schema)
    added = await client.add_job(write, "tomorrow", run_at=await clock.now() + timedelta(days=1))
    today = await run_due(dsn, [write], schema=schema)
    state = (await client.get_job(added.id)).state
    await clock.move(timedelta(days=1))
    tomorrow = await run_due(dsn, [write], schema=schema)

    assert (today.started, state) == ([], JobState.SCHEDULED)
    assert tomorrow.completed == [added.id]


async def test_a_time_needs_a_zone(client: Client) -> None:
    """Eight o'clock is not the same instant everywhere."""
    with pytest.raises(InvalidJob, match="has no time zone"):
        await client.add_job(write, "soon", run_at=datetime(2031, 1, 1, 8))  # noqa: DTZ001


async def test_a_task_has_defaults_and_a_job_overrides_them(client: Client) -> None:
    """Options of the decorator hold for every job of the task that does not say otherwise."""

    @task(priority=5, max_attempts=3, queue="prints")
    async def print_page(number: int) -> None:
        pass

    usual = await client.get_job((await client.add_job(print_page, 1)).id)
    urgent = await client.get_job((await client.add_job(print_page, 2, priority=-1)).id)
    spec = await client.get_job((await client.add_job(print_page.job(3).with_options(queue="proofs"))).id)

    assert (usual.priority, usual.max_attempts, usual.queue) == (5, 3, "prints")
    assert (urgent.priority, urgent.max_attempts, urgent.queue) == (-1, 3, "prints")
    assert (spec.priority, spec.max_attempts, spec.queue) == (5, 3, "proofs")
