"""Pause: no job of a task, a queue, a limit, a key, or of all starts, on any worker, until it is resumed."""

import asyncpg
import pytest

from asyncq import Client, InvalidJob, JobCompleted, JobStarted, Paused, Resumed, Worker, task
from asyncq.testing import run_due
from tests.support.seen import Seen


@task
async def send_email() -> None:
    """Needs a provider."""


@task
async def resize() -> None:
    """Needs no provider."""


TASKS = [send_email, resize]


async def test_a_paused_task_starts_no_job_until_it_is_resumed(dsn: str, schema: str, client: Client) -> None:
    """Other tasks run on. Jobs can be added before and during the pause."""
    before = await client.add_job(send_email)
    await client.admin.pause(task="send_email", reason="the provider is down")
    during = await client.add_job(send_email)
    other = await client.add_job(resize)
    while_paused = await run_due(dsn, TASKS, schema=schema)
    await client.admin.resume(task="send_email")
    after = await run_due(dsn, TASKS, schema=schema)

    assert while_paused.completed == [other.id]
    assert sorted(after.completed) == [before.id, during.id]


async def test_a_queue_or_everything_is_paused_in_the_same_way(dsn: str, schema: str, client: Client) -> None:
    """Each pause ends by itself: a queue that was paused stays paused when everything is resumed."""
    queued = await client.add_job(send_email, queue="mail")
    free = await client.add_job(send_email)
    await client.admin.pause(queue="mail")
    await client.admin.pause()
    nothing = await run_due(dsn, TASKS, schema=schema)
    await client.admin.resume()
    some = await run_due(dsn, TASKS, schema=schema)
    await client.admin.resume(queue="mail")
    rest = await run_due(dsn, TASKS, schema=schema)

    assert (nothing.completed, some.completed, rest.completed) == ([], [free.id], [queued.id])


async def test_running_workers_obey_at_once_and_report_it(dsn: str, schema: str, client: Client) -> None:
    """They are notified. A worker that does not listen obeys too, because each fetch reads what is paused."""
    seen = Seen()
    async with Worker(dsn, TASKS, schema=schema, observers=[seen]).start():
        await client.add_job(send_email)
        await seen.wait_for(JobCompleted)
        await client.admin.pause(task="send_email", reason="the provider is down", by="ann")
        await seen.wait_for(Paused)
        waiting = await client.add_job(send_email)
        await client.add_job(resize)
        await seen.wait_for(JobCompleted, 2)
        before = seen.ids(JobStarted)
        await client.admin.resume(task="send_email", by="ann")
        await seen.wait_for(JobCompleted, 3)

    about = {"what": "task", "name": "send_email", "key": None, "by": "ann"}
    assert [Paused(**about, reason="the provider is down")] == seen.of(Paused)
    assert [Resumed(**about, reason=None)] == seen.of(Resumed)
    assert waiting.id not in before
    assert waiting.id == seen.ids(JobCompleted)[-1]


async def test_what_is_paused_says_since_when_by_whom_and_why(client: Client) -> None:
    """`explain` says it of each job that waits for it."""
    added = await client.add_job(send_email, queue="mail")
    pause = await client.admin.pause(queue="mail", reason="disk full", by="ann")
    reasons = {reason.reason: reason.detail for reason in (await client.admin.explain(added.id)).reasons}
    listed = await client.admin.paused()
    ended = await client.admin.resume(queue="mail")

    assert ("queue", "mail", None, "ann", "disk full") == (
        pause.what,
        pause.name,
        pause.key,
        pause.paused_by,
        pause.reason,
    )
    assert f"queue mail is paused since {pause.paused_at:%Y-%m-%d %H:%M:%S}+00 by ann: disk full" == reasons["paused"]
    assert ([pause], pause, []) == (listed, ended, await client.admin.paused())
    assert await client.admin.resume(queue="mail") is None


async def test_a_pause_can_be_part_of_a_transaction(dsn: str, schema: str, client: Client) -> None:
    """A migration of data pauses the task in its own transaction, or not at all."""
    db = await asyncpg.connect(dsn)
    transaction = db.transaction()
    await transaction.start()
    await client.admin.pause(task="send_email", connection=db)
    await transaction.rollback()
    await db.close()

    assert [] == await client.admin.paused()


@pytest.mark.parametrize(
    ("arguments", "field", "said"),
    [
        (
            {"task": "a", "queue": "b"},
            "task",
            "a task, a queue and a limit cannot be paused or resumed in one call: name one of them",
        ),
        ({"key": "acme"}, "key", "a key is one of a limit: give limit= too"),
        ({"task": ""}, "task", "task has 0 characters, expected 1 to 128"),
        ({"queue": 5}, "queue", "queue must be a str, got 5"),
        ({"reason": "x" * 501}, "reason", "reason has 501 characters, expected 1 to 500"),
        ({"by": "a\0b"}, "by", "by 'a\\x00b' holds a character that PostgreSQL cannot store as text"),
    ],
)
async def test_bad_arguments_are_refused_before_anything_is_paused(
    client: Client, arguments: dict[str, str], field: str, said: str
) -> None:
    """A mistake must not pause everything."""
    for act in (client.admin.pause, client.admin.resume):
        with pytest.raises(InvalidJob) as raised:
            await act(**arguments)  # type: ignore[arg-type]

        assert ("22023", field, said) == (raised.value.code, raised.value.field, str(raised.value))
    assert [] == await client.admin.paused()
