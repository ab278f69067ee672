"""A worker with a codec: handlers and observers see clear payloads; what cannot be read is a failed attempt."""

import asyncio
from typing import Any

import asyncpg
import msgspec
import pytest

from asyncq import Client, Discard, JobContext, RetryAfter, Snooze, task
from asyncq.domain.events import CronItemFailed, JobDiscarded, JobRetried, ResultRefused
from tests.engine.conftest import MakeWorker
from tests.support.codecs import Backwards, Refusing, sealed
from tests.support.seen import Seen
from tests.support.stage import MINUTE, Stage


async def stored(db: asyncpg.Connection, schema: str) -> list[str]:
    """The payloads of all jobs."""
    return [row["payload"] for row in await db.fetch(f"select payload::text from {schema}._jobs order by id")]


async def test_a_handler_and_its_context_see_the_clear_payload(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker
) -> None:
    """Under each key that the codec knows; clear jobs, as of SQL, run beside them, so that it can be introduced."""
    found: list[tuple[str, str]] = []

    @task
    async def greet(name: str, ctx: JobContext) -> None:
        found.append((name, ctx.job.payload))

    for codec, name in ((Backwards("k1"), "Ada"), (Backwards("k1", "k2"), "Bob")):
        async with Client(dsn, schema=schema, codec=codec) as encoding:
            await encoding.add_job(greet, name)
    await client.add_job(greet, "Eve")
    await make_worker(greet, codec=Backwards("k1", "k2"), concurrency=1).run_once()

    assert [(name, f'{{"name":"{name}"}}') for name in ("Ada", "Bob", "Eve")] == found


async def test_jobs_in_batches_are_decoded_too(dsn: str, schema: str, make_worker: MakeWorker) -> None:
    """Their payloads are stored together."""
    found: list[int] = []

    @task
    async def count(number: int) -> None:
        found.append(number)

    async with Client(dsn, schema=schema, codec=Backwards("k1")) as client:
        await client.add_jobs([count.job(number) for number in range(300)])
    await make_worker(count, codec=Backwards("k1"), concurrency=300).run_once()

    assert [*range(300)] == sorted(found)


@pytest.mark.parametrize(
    ("codec", "expected"),
    [
        (None, "CodecFailed: the payload is encoded with key 'k1', and this worker has no codec: give it the one of"),
        (
            Backwards("k2"),
            "CodecFailed: the payload was encoded with key 'k1', and cannot be decoded: the codec",
        ),
    ],
    ids=["no codec", "no key"],
)
async def test_a_payload_that_cannot_be_read_is_a_failed_attempt(
    dsn: str, schema: str, make_worker: MakeWorker, seen: Seen, codec: Any, expected: str
) -> None:
    """The handler must not see the envelope, even if it takes anything; a later deployment can bring the key."""
    ran: list[Any] = []

    @task(retry=[0])
    async def take(value: Any) -> None:
        ran.append(value)

    async with Client(dsn, schema=schema, codec=Backwards("k1")) as client:
        added = await client.add_job(take, {"a": 1}, max_attempts=2)
        await make_worker(take, codec=codec).run_once()
        job = await client.get_job(added.id)
    events = [seen.of(JobRetried)[0].error, seen.of(JobDiscarded)[0].error]

    assert (2, []) == (job.attempts, ran)
    assert [True] * 3 == [error.startswith(expected) for error in (job.last_error or "", *events)]


async def test_jobs_that_a_worker_adds_are_encoded(
    dsn: str, schema: str, make_worker: MakeWorker, db: asyncpg.Connection
) -> None:
    """By a context, alone and in a transaction of the job."""

    @task
    async def plain(ctx: JobContext) -> None:
        await ctx.add_job("greet", {"name": "Ada"}, job_key="a")

    @task(transactional=True)
    async def whole(ctx: JobContext) -> None:
        await ctx.add_jobs([greet.job(name="Ada")])

    @task
    async def greet(name: str) -> None: ...

    async with Client(dsn, schema=schema, codec=Backwards("k1")) as client:
        await client.add_jobs([plain.job(), whole.job()])
        await make_worker(plain, whole, codec=Backwards("k1")).run_once()

    assert [f'"{sealed("k1", "greet", """{"name":"Ada"}""")}"'] * 2 == await stored(db, schema)


async def test_slots_of_recurring_items_are_encoded(stage: Stage) -> None:
    """An item whose payload cannot be encoded fails alone."""
    codec = Refusing("k1")
    async with stage.worker("* * * * * ring {who: 'cook'}\n* * * * * ring ?id=bad {who: 'bad'}", codec=codec).start():
        await stage.clock.move(MINUTE)
        failed = await stage.seen.wait_for(CronItemFailed)
        rows = await stage.db.fetch(f"select payload::text from {stage.schema}._jobs")

    assert ("bad", True) == (failed.item, "the key service is away" in failed.error)
    assert [True] == [row["payload"].startswith('"asyncq:1:k1:') for row in rows]


@pytest.mark.parametrize("errors", [False, True])
async def test_errors_are_stored_as_the_codec_asks(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen, errors: bool
) -> None:
    """Events, the context and a client with the codec have the clear text; others see an envelope."""
    known: list[Any] = []
    codec = Backwards("k1", errors=errors)

    @task
    async def greet(name: str, ctx: JobContext) -> None:
        if ctx.job.last_error is None:
            raise RetryAfter(0, f"cannot greet {name}")
        known.extend([ctx.job.last_error, *(attempt.error for attempt in await ctx.errors())])
        raise RetryAfter(60, f"cannot greet {name} " + "x" * 5000)

    async with Client(dsn, schema=schema, codec=codec) as encoding:
        added = await encoding.add_job(greet, "Ada")
        await make_worker(greet, codec=codec).run_once()
        clear = [(await encoding.get_job(added.id)).last_error, *await errors_of(encoding, added.id)]
    raw = [(await client.get_job(added.id)).last_error, *await errors_of(client, added.id)]
    told = [event.error for event in seen.of(JobRetried)]

    assert [True] * 7 == [str(text).startswith("RetryAfter: cannot greet Ada") for text in [*known, *clear, *told]]
    assert [errors] * 3 == [str(text).startswith("asyncq:1:k1:") for text in raw]


async def errors_of(client: Client, job_id: int) -> list[str]:
    """The errors of the failed attempts of a job."""
    return [attempt.error for attempt in await client.admin.errors(job_id)]


async def test_results_are_encoded(dsn: str, schema: str, client: Client, make_worker: MakeWorker) -> None:
    """Of jobs whose end is kept, alone and in a transaction; one that cannot be encoded is not stored."""
    codec = Refusing("k1")

    @task(keep="1 h")
    async def plain(name: str) -> dict[str, str]:
        return {"hello": "bad" if name == "Eve" else name}

    @task(keep="1 h", transactional=True)
    async def whole(ctx: JobContext) -> str:
        return "done"

    async with Client(dsn, schema=schema, codec=codec) as encoding:
        added = await encoding.add_jobs([plain.job("Ada"), plain.job("Eve"), whole.job()])
        await make_worker(plain, whole, codec=codec).run_once()
        clear = [(await encoding.get_job(each.id)).result for each in added]
    raw = [await client.get_job(each.id) for each in added]

    assert ['{"hello":"Ada"}', None, '"done"'] == clear
    assert [f'"{sealed("k1", "plain", clear[0] or "")}"', None, f'"{sealed("k1", "whole", clear[2] or "")}"'] == [
        job.result for job in raw
    ]
    assert [True] * 3 == [job.payload.startswith('"asyncq:1:k1:') for job in raw]


@pytest.mark.parametrize("outcome", [OSError("odd"), RetryAfter(60), Snooze(60), Discard()], ids=repr)
async def test_the_items_that_are_left_to_do_are_encoded(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, outcome: Exception
) -> None:
    """They are the payload of the next run."""
    called: list[list[int]] = []

    @task(items=True, retry=[60])
    async def count(numbers: list[int]) -> list[Any]:
        called.append(numbers)
        return [outcome if number % 2 else None for number in numbers]

    async with Client(dsn, schema=schema, codec=Backwards("k1")) as encoding:
        added = await encoding.add_job(count, [1, 2, 3])
        await make_worker(count, codec=Backwards("k1")).run_once()
        clear = (await encoding.get_job(added.id)).payload

    assert ([[1, 2, 3]], "[1,3]") == (called, clear)
    assert f'"{sealed("k1", "count", "[1,3]")}"' == (await client.get_job(added.id)).payload


async def test_a_codec_that_raises_a_cancellation_fails_the_run(dsn: str, schema: str, make_worker: MakeWorker) -> None:
    """The worker goes on."""

    class Cancelling(Backwards):
        def decode(self, task: str, data: bytes, key_id: str) -> bytes:
            raise asyncio.CancelledError

    @task
    async def greet(name: str) -> None: ...

    async with Client(dsn, schema=schema, codec=Backwards("k1")) as client:
        added = await client.add_job(greet, "Ada")
        await make_worker(greet, codec=Cancelling("k1")).run_once()
        job = await client.get_job(added.id)

    assert "the codec raised CancelledError" in (job.last_error or "")


async def test_a_result_is_limited_by_the_option_for_results(
    dsn: str, schema: str, make_worker: MakeWorker, seen: Seen
) -> None:
    """Once it is encoded, as payloads are, and not by the default limit of payloads."""

    @task(keep=60)
    async def write(size: int) -> str:
        return "x" * size

    codec, size = Backwards("k1"), 1024 * 1024
    async with Client(dsn, schema=schema, codec=codec) as client:
        added = [await client.add_job(write, size), await client.add_job(write, 2 * size)]
        await make_worker(write, codec=codec, max_result=2 * size + 1000).run_once()
        results = [(await client.get_job(each.id)).result for each in added]
    (refused,) = seen.of(ResultRefused)

    assert [size + 2, None] == [result and len(result) for result in results]
    assert "result is 2796" in refused.error
    assert refused.error.endswith("(option max_result)")


async def test_items_that_are_left_may_be_as_large_as_the_client_allowed(
    dsn: str, schema: str, make_worker: MakeWorker
) -> None:
    """Else the item that is done would run again."""

    @task(items=True)
    async def mail(texts: list[str]) -> list[Any]:
        return [None, *[ValueError("no") for _ in texts[1:]]]

    codec = Backwards("k1")
    async with Client(dsn, schema=schema, codec=codec, max_payload=4 * 1024 * 1024) as client:
        added = await client.add_job(mail, ["x" * 400_000] * 4)
        await make_worker(mail, codec=codec).run_once()
        job = await client.get_job(added.id)

    assert (job.last_error or "").startswith("3 of 4 items failed")
    assert ["x" * 400_000] * 3 == msgspec.json.decode(job.payload)
