"""Untrusted input stays data: in every name, key, flag, member and error, from add to end."""

from typing import Any, cast

import asyncpg
import pytest

from asyncq import Client, Discard, InvalidJob, JobContext, JobFilter, JobState, task
from asyncq.testing import make_worker, run_due
from tests.support.ids import written
from tests.support.session import session

HOSTILE = [
    "'; drop table asyncq._jobs; --",
    '"; drop schema asyncq cascade; --',
    "$$ $body$ $1 ${x} %s %(a)s {0} :name",
    "\\'; select pg_sleep(10); --",
    "asyncq._jobs asyncq.add_job('x')",
    "{a,b} [1] (2) {} NULL null \\N",
    "a,b\tc\nd\re\x1b[2J\x7f\u202e\ufeff",
    "\U0001f600 ́e Ω \uffff",
]
WRITTEN = [pytest.param(text, id=written(text)) for text in HOSTILE]


UNSENDABLE = [JobFilter(task="\0"), JobFilter(queue="\udcff"), JobFilter(flag=cast("str", 7))]


@task
async def unused() -> None:
    """A worker needs a task."""


@pytest.mark.parametrize("text", WRITTEN)
async def test_text_passes_through_a_job_unchanged(dsn: str, schema: str, client: Client, text: str) -> None:
    """Queue, key, flags, payload, meta and last error are kept by search, run, failure, retry and end."""
    seen: list[Any] = []

    @task(max_attempts=1)
    async def echo(said: str, ctx: JobContext) -> None:
        seen.append((said, ctx.job.queue, ctx.job.key, ctx.job.meta))
        raise Discard(said)

    options: Any = {"queue": text, "job_key": text, "flags": [text], "meta": {text: text}}
    added = await client.add_job(echo.job(text), **options)
    by_key = await client.admin.get_job_by_key(text)
    listed = (await client.admin.find_jobs(JobFilter(queue=text, flag=text), newest=False)).jobs
    await run_due(dsn, [echo], schema=schema)
    failed = await client.get_job(added.id)

    assert by_key is not None
    assert failed is not None
    assert [added.id] == [job.id for job in listed]
    assert [(text, text, text, {text: text})] == seen
    assert (text, text, (text,), {text: text}) == (by_key.queue, by_key.key, by_key.flags, by_key.meta)
    assert (JobState.DISCARDED, f"Discard: {text}") == (failed.state, failed.last_error)
    await client.admin.remove_job(text)


@pytest.mark.parametrize("text", WRITTEN)
async def test_text_identifies_and_nothing_else(client: Client, text: str) -> None:
    """Idempotency keys, subjects and unique arguments: the same is the same, any other is another."""
    requests = [await client.add_job("t", idempotency_key=key) for key in (text[:200], text[:200], f"{text} "[:200])]
    unique = {"keys": ["type", "args"], "on_conflict": "ignore"}
    policies = [await client.add_job("u", {"a": value}, unique=unique) for value in (text, text, f"{text} ")]

    for first, same, other in (requests, policies):
        assert (first.id, True) == (same.id, other.id not in (first.id, same.id))


@pytest.mark.parametrize("text", WRITTEN)
async def test_a_task_of_any_name_can_be_added_from_sql_and_only_waits(
    dsn: str, schema: str, client: Client, text: str
) -> None:
    """SQL takes every name, as graphile-worker does; no worker can have such a task, and those that run name it."""
    async with session(dsn, schema) as sql:
        await sql.rows("select asyncq.add_job($1)", text)
    async with make_worker(dsn, [unused], schema=schema).start():
        checkup = await client.admin.checkup()
    (job,) = (await client.admin.find_jobs(JobFilter(task=text), newest=False)).jobs

    assert ((text,), text, JobState.AVAILABLE) == (checkup.unknown_tasks, job.task, job.state)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"job_key": "x" * 1_000_000}, "job_key"),
        ({"queue": "x" * 1_000_000}, "queue"),
        ({"flags": ["x" * 1_000_000]}, "flags"),
        ({"idempotency_key": "x" * 1_000_000}, "idempotency_key"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_value_that_is_far_too_long_is_refused_in_a_short_sentence(
    client: Client, options: dict[str, Any], field: str
) -> None:
    """A message with a million characters would end up in a log."""
    with pytest.raises(InvalidJob) as caught:
        await client.add_job("t", **options)

    assert (field, True) == (caught.value.field, len(str(caught.value)) < 200)


async def test_a_payload_of_50_mb_is_refused_before_it_is_sent(client: Client) -> None:
    """The message names the option that would allow more."""
    with pytest.raises(InvalidJob, match=r"payload is 52428802 bytes of JSON, at most 1048576 .*max_payload"):
        await client.add_job("t", "x" * 50 * 1024 * 1024)


@pytest.mark.parametrize(
    "payload", ['"\\u0080\\u0004\\u0095K\\u0001."', "[1e400]", '{"said": {"a": []}}', '{"sad": 1}', "null", "7"]
)
async def test_a_payload_that_no_handler_expects_fails_with_a_clear_error(
    dsn: str, schema: str, client: Client, db: asyncpg.Connection, payload: str
) -> None:
    """It was pickled by another queue, or has another version. The job fails with the expected type."""

    @task(max_attempts=1)
    async def greet(said: str) -> None: ...

    async with session(dsn, schema) as sql:
        job = await sql.value("select id from asyncq.add_job('greet', $1::text::json)", payload)
    await run_due(dsn, [greet], schema=schema)
    failed = await client.get_job(job)

    assert failed is not None
    assert (JobState.RETRYABLE, True) == (
        failed.state,
        (failed.last_error or "").partition(": ")[2].startswith("the payload does not fit the task: "),
    )


@pytest.mark.parametrize(
    ("name", "given", "options"),
    [
        *[("find_jobs", [which], {}) for which in UNSENDABLE],
        ("cleanup", [], {"task_identifiers_to_keep": "send"}),
        ("cleanup", [], {"task_identifiers_to_keep": ["\0"]}),
        ("force_unlock_workers", [["\0"]], {}),
        ("discard_jobs", [[1], 7], {}),
        ("discard_jobs", [[2**63]], {}),
        ("explain", [2**63], {}),
    ],
)
async def test_a_value_that_cannot_be_sent_is_refused_by_us(
    client: Client, name: str, given: list[Any], options: dict[str, Any]
) -> None:
    """The driver's messages lack the argument and the expected type, and look like a fault of the database."""
    with pytest.raises(InvalidJob) as caught:
        await getattr(client.admin, name)(*given, **options)

    assert "22023" == caught.value.code


async def test_an_error_that_an_administrator_gives_may_hold_anything(client: Client) -> None:
    """Characters that PostgreSQL cannot store become escapes, as in errors of handlers."""
    added = await client.add_job("t")
    (failed,) = await client.admin.discard_jobs([added.id], "a\0b\udcff")

    assert "a\\x00b\\udcff" == failed.last_error
