"""Many things in one call: a job with a list of items, or several jobs."""

import msgspec
import pytest

from asyncq import Client, Collect, ConstantRetry, JobNotFound, JobState, task
from asyncq.testing import run_due


class Email(msgspec.Struct):
    """An item of the list."""

    to: str


async def test_only_the_items_that_failed_are_tried_again(dsn: str, schema: str, client: Client) -> None:
    """The handler returns an outcome for each item: an exception if it failed."""
    sent: list[str] = []

    @task(items=True, retry=ConstantRetry(0))
    async def send(emails: list[Email]) -> list[Exception | None]:
        is_first = not sent
        sent.extend(email.to for email in emails)
        return [ConnectionError("away") if is_first and email.to.startswith("b") else None for email in emails]

    added = await client.add_job(send, [Email("a@example.org"), Email("b@example.org")])
    ran = await run_due(dsn, [send], schema=schema)

    assert (ran.retried, ran.completed) == ([added.id], [added.id])
    assert ["a@example.org", "b@example.org", "b@example.org"] == sent


async def test_outcomes_of_another_number_are_a_failure(dsn: str, schema: str, client: Client) -> None:
    """Nothing says to which items they belong, so all are kept."""

    @task(items=True)
    async def send(emails: list[Email]) -> list[None]:
        return [None]

    added = await client.add_job(send, [Email("a@example.org"), Email("b@example.org")])
    ran = await run_due(dsn, [send], schema=schema)
    job = await client.get_job(added.id)

    assert ran.errors[added.id].startswith("TaskError: the handler returned a list of 1, but had 2 items")
    assert (job.state, job.attempts) == (JobState.RETRYABLE, 1)


async def test_adds_with_one_key_gather_items(dsn: str, schema: str, client: Client) -> None:
    """Payloads that are lists are joined while the job waits."""
    called: list[list[str]] = []

    @task(items=True)
    async def send(emails: list[Email]) -> None:
        called.append([email.to for email in emails])

    for to in ("a@example.org", "b@example.org"):
        await client.add_job(send, [Email(to)], job_key="mails", job_key_mode="preserve_run_at")
    await run_due(dsn, [send], schema=schema)

    assert [["a@example.org", "b@example.org"]] == called


async def test_several_jobs_are_collected_for_one_call(dsn: str, schema: str, client: Client) -> None:
    """Each job has its own end."""
    called: list[list[str]] = []

    @task(collect=Collect(max=100, within="1 s"))
    async def send(emails: list[Email]) -> list[Exception | None]:
        called.append([email.to for email in emails])
        return [ValueError("no such domain") if "nowhere" in email.to else None for email in emails]

    good, bad = [await client.add_job(send, Email(to)) for to in ("a@example.org", "b@nowhere")]
    await run_due(dsn, [send], schema=schema)

    assert [["a@example.org", "b@nowhere"]] == called
    assert (await client.get_job(bad.id)).state == JobState.RETRYABLE
    with pytest.raises(JobNotFound):
        await client.get_job(good.id)
