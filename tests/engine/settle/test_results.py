"""Results, from the handler to the client that waits for them, over everything that may come between."""

import asyncio
import logging
from typing import Any

import asyncpg
import msgspec
import pydantic
import pytest
from anyio.from_thread import run as run_in_loop

from asyncq import (
    Client,
    ConfigurationError,
    Discard,
    Ended,
    JobCancelledError,
    JobContext,
    JobFailedError,
    JobNotFound,
    JobSpec,
    JobStarted,
    JobState,
    ResultIgnored,
    ResultRefused,
    ResultUnavailable,
    RetryAfter,
    StoreUnavailable,
    WaitTimeout,
    task,
)
from asyncq.domain.result import Returns, result_of
from asyncq.store import waits
from tests.engine.conftest import MakeWorker
from tests.support.codecs import Backwards, sealed
from tests.support.faults import link_to, terminate
from tests.support.seen import Seen
from tests.support.waiting import LIMIT_S, wait_until


class Page(msgspec.Struct):
    title: str


class Order(pydantic.BaseModel):
    count: pydantic.PositiveInt


@task
async def parse(url: str) -> Page:
    """Returns a struct."""
    return Page(url)


@task
def parse_in_a_thread(url: str) -> list[Page]:
    """Returns a list, from a thread."""
    return [Page(url)]


@task(transactional=True)
async def parse_in_a_transaction(url: str, ctx: JobContext) -> Page:
    """Is settled by its transaction."""
    return Page(url)


@task(queue="q")
async def order(count: int) -> Order:
    """Returns a model of pydantic; its queue may have followers."""
    return Order(count=count)


@task
async def nothing() -> None:
    """Returns nothing."""


@task
async def pair() -> tuple[int, set[str]]:
    """Returns what JSON lacks."""
    return 1, {"a"}


TASKS = (parse, parse_in_a_thread, parse_in_a_transaction, order, nothing, pair)
SPECS: list[tuple[JobSpec[Any], Any]] = [
    (parse.job("a"), Page("a")),
    (parse_in_a_thread.job("a"), [Page("a")]),
    (parse_in_a_transaction.spec('{"url": "a"}'), Page("a")),
    (order.job(5), Order(count=5)),
    (nothing.job(), None),
    (pair.job(), (1, {"a"})),
    (JobSpec(task="parse", payload='{"url": "a"}'), {"title": "a"}),
]


async def test_run_returns_what_the_handler_returned(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """It is decoded by the return annotation; without one, as plain JSON."""
    async with make_worker(*TASKS).start(), asyncio.timeout(LIMIT_S):
        results = [await client.run(spec) for spec, _ in SPECS]

    assert [result for _, result in SPECS] == results
    assert [] == seen.of(ResultIgnored)


async def test_many_runs_at_once_get_each_its_own_result(client: Client, make_worker: MakeWorker) -> None:
    """They share one connection for notifications."""
    async with make_worker(*TASKS, concurrency=20).start(), asyncio.timeout(LIMIT_S):
        pages = await asyncio.gather(*(client.run(parse.job(str(number))) for number in range(50)))

    assert [str(number) for number in range(50)] == [page.title for page in pages]


async def test_jobs_that_run_in_a_batch_can_be_awaited(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """Another program has added them. The worker learns only at their ends that somebody waits."""
    go_on = asyncio.Event()

    @task
    async def number(n: int) -> int:
        await go_on.wait()
        return n

    async def all_watched() -> bool:
        return 3 == await db.fetchval(f"select count(*) from {schema}._jobs where extras ? 'watchers'")

    added = await client.add_jobs([number.job(n) for n in range(120)])
    async with make_worker(number, concurrency=150).start(), asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
        await seen.wait_for(JobStarted, 120)
        batches = await db.fetchval(f"select count(*) from {schema}._batches")
        waiting = [group.create_task(client.wait_for(added[n].id)) for n in (0, 77, 119)]
        await wait_until(all_watched, description="the jobs to be watched")
        go_on.set()
    found = [each.result() for each in waiting]

    assert batches > 0
    assert [(added[n].id, JobState.COMPLETED, str(n)) for n in (0, 77, 119)] == [
        (end.id, end.state, end.result) for end in found
    ]


@task
async def fail() -> int:
    """Fails for good."""
    raise Discard("no use")


@task(retry=[0])
async def fail_once(ctx: JobContext) -> int:
    """Is retried."""
    if ctx.attempt == 1:
        raise ValueError("not yet")
    return ctx.attempt


async def test_a_discarded_job_raises_its_error_as_text(client: Client, make_worker: MakeWorker) -> None:
    """The class of the exception is not looked up: the client may not have it, or another one under its name."""
    async with make_worker(fail).start(), asyncio.timeout(LIMIT_S):
        with pytest.raises(
            JobFailedError, match=r"job \d+ \(fail\) was discarded after 1 attempts: Discard: no use"
        ) as raised:
            await client.run(fail.job())
        ended = await client.wait_for(raised.value.job_id)

    assert ("fail", 1, "Discard: no use") == (raised.value.task, raised.value.attempts, raised.value.error)
    assert (JobState.DISCARDED, None, "Discard: no use") == (ended.state, ended.result, ended.error)


async def test_a_retried_job_keeps_the_caller_waiting(client: Client, make_worker: MakeWorker) -> None:
    """The result is that of the attempt that completed it."""
    async with make_worker(fail_once).start(), asyncio.timeout(LIMIT_S):
        assert 2 == await client.run(fail_once.job())


async def test_a_cancelled_job_raises_that(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """The caller must not wait for ever."""

    @task
    async def hang() -> int:
        await asyncio.Event().wait()
        return 1

    async with make_worker(hang).start(), asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
        running = group.create_task(_raised(client, hang.job()))
        started = await seen.wait_for(JobStarted)
        await client.admin.cancel_jobs([started.job_id])
        error = await running

    assert (JobCancelledError, started.job_id) == (type(error), error.job_id)


async def _raised(client: Client, spec: JobSpec[Any]) -> Any:
    try:
        await client.run(spec)
    except Exception as error:  # noqa: BLE001 - the tests compare it
        return error
    raise AssertionError("it returned")


async def test_a_timeout_ends_the_wait_and_not_the_job(client: Client, make_worker: MakeWorker) -> None:
    """It is a TimeoutError too. Nothing of the wait is left in the client."""
    with pytest.raises(WaitTimeout, match=r"has not ended within 0\.05 s; it goes on") as raised:
        await client.run(parse.job("a"), timeout=0.05)
    job_id = raised.value.job_id
    with pytest.raises(TimeoutError):
        await client.wait_for(job_id, timeout="50 ms")
    left = dict(client._waits._waits)
    async with make_worker(parse).start():
        ended = await client.wait_for(job_id, timeout=LIMIT_S)

    assert ({}, '{"title":"a"}') == (left, ended.result)


async def test_a_cancelled_wait_leaves_nothing(client: Client) -> None:
    """A service cancels it when its own caller has left."""
    added = await client.add_job(parse.job("a"))
    waiting = asyncio.ensure_future(client.wait_for(added.id))  # noqa: TID251
    await wait_until(lambda: client._waits and client._waits._asked_at, description="the wait to be listed")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert {} == dict(client._waits._waits)


async def test_a_job_of_which_nothing_is_known_is_not_awaited(client: Client, make_worker: MakeWorker) -> None:
    """It has never existed, or has ended before somebody waited."""
    added = await client.add_job(parse.job("a"))
    await make_worker(parse).run_once()
    for job_id in (added.id, 2**40):
        with pytest.raises(JobNotFound):
            await client.wait_for(job_id)


@pytest.mark.parametrize("value", [b"\xff" * 30, object(), "\0", float("nan")], ids=["large", "class", "nul", "nan"])
async def test_a_result_that_cannot_be_stored_does_not_fail_the_job(
    client: Client, make_worker: MakeWorker, seen: Seen, value: object
) -> None:
    """Its work is done. An event names the reason, and the caller gets it too."""

    @task
    async def answer() -> Any:
        return value

    async with make_worker(answer, max_result=30).start(), asyncio.timeout(LIMIT_S):
        with pytest.raises(
            ResultUnavailable, match=r"the result of job \d+ is not available: ResultRefused: result "
        ) as raised:
            await client.run(answer.job())
        ended = await client.wait_for(raised.value.job_id)

    (event,) = seen.of(ResultRefused)
    assert (raised.value.job_id, f"ResultRefused: {event.error}") == (event.job_id, raised.value.reason)
    assert (JobState.COMPLETED, None, raised.value.reason) == (ended.state, ended.result, ended.error)


async def test_a_result_that_does_not_fit_the_annotation_of_the_client_is_unavailable(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker
) -> None:
    """The worker may run another version of the handler. The JSON can still be read."""

    @task(name="parse")
    async def parse_to_int(url: str) -> int:
        return 5

    async with make_worker(parse_to_int).start(), asyncio.timeout(LIMIT_S):
        with pytest.raises(
            ResultUnavailable, match="does not fit the return type of the handler: Expected `object`"
        ) as raised:
            await client.run(parse.job("a"))
        ended = await client.wait_for(raised.value.job_id)

    assert "5" == ended.result


async def test_waiting_in_a_handler_is_refused(client: Client, make_worker: MakeWorker) -> None:
    """With one slot the worker would wait for itself."""
    said: list[str] = []

    async def wait() -> None:
        for call in (client.run(parse.job("a")), client.wait_for(1), handle.result()):
            try:
                await call
            except ConfigurationError as error:
                said.append(str(error).partition(":")[0])

    @task
    async def waits_itself() -> None:
        await wait()

    @task
    def waits_in_a_thread() -> None:
        run_in_loop(wait)

    handle = await client.add_job(waits_itself)
    await client.add_job(waits_in_a_thread)
    await make_worker(waits_itself, waits_in_a_thread).run_once()

    calls = ("client.run()", "client.wait_for()")
    refused = [f"{call} in a handler would hold a slot of its worker while it waits" for call in calls]
    assert refused * 2 == [line for line in said if "in a handler" in line]
    assert 6 == len(said)


async def test_a_result_that_is_not_kept_is_refused_before_a_round_trip(client: Client) -> None:
    """The handler may have run long ago, and a wait would find nothing."""
    handle = await client.add_job(parse.job("a"))
    await client.close()

    with pytest.raises(ConfigurationError, match=r"the result of job \d+ is not kept: declare its task with keep"):
        await handle.result()


@task(keep="1 h")
async def kept(url: str) -> Page:
    """Returns a struct, which is kept."""
    return Page(url)


@pytest.mark.parametrize("when", ["before its end", "after its end"])
async def test_the_result_of_a_kept_job_can_be_read_at_any_time(
    client: Client, make_worker: MakeWorker, when: str
) -> None:
    """Its task keeps it, or the add. The handle knows the type."""
    handles = [await client.add_job(kept, "a"), await client.add_job(parse.job("a"), keep="1 h")]
    worker = make_worker(kept, parse)
    if when == "after its end":
        await worker.run_once()
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
        reads = [group.create_task(handle.result()) for handle in handles]
        if when == "before its end":
            await wait_until(lambda: client._waits and len(client._waits._waits) == 2, description="the waits")
            await worker.run_once()

    assert [Page("a"), Page("a")] == [read.result() for read in reads]
    assert Page("a") == await handles[0].result(timeout=LIMIT_S)


async def test_the_reason_why_a_kept_result_is_refused_is_kept(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The reader may come long after the event."""

    @task(keep="1 h")
    async def answer() -> object:
        return object()

    handle = await client.add_job(answer)
    await make_worker(answer).run_once()

    with pytest.raises(ResultUnavailable, match="ResultRefused: result cannot be written as JSON"):
        await handle.result(timeout=LIMIT_S)
    assert [handle.id] == seen.ids(ResultRefused)


async def test_a_kept_job_that_is_not_kept_any_more_has_no_result(
    client: Client, make_worker: MakeWorker, db: asyncpg.Connection, schema: str
) -> None:
    """Its time was over."""
    handle = await client.add_job(kept, "a")
    await make_worker(kept).run_once()
    await db.execute(f"delete from {schema}._ended_jobs")

    with pytest.raises(ResultUnavailable, match="it has ended, and nothing of it is kept any more"):
        await handle.result()


@pytest.mark.parametrize(
    ("act", "reason"),
    [("redact", "the result was redacted"), ("complete", "it was completed by hand, without a run")],
)
async def test_a_result_that_is_not_stored_is_not_read_as_none(
    client: Client, make_worker: MakeWorker, act: str, reason: str
) -> None:
    """None may be what a handler returns."""

    @task(keep="1 h")
    async def page_or_none(url: str) -> Page | None:
        return Page(url)

    await make_worker(page_or_none).run_once()  # Now the store knows that the task is kept.
    handle = await client.add_job(page_or_none, "a")
    if act == "redact":
        await make_worker(page_or_none).run_once()
        await client.admin.redact_ended_jobs([handle.id])
    else:
        await client.admin.complete_jobs([handle.id])
    ended = await client.wait_for(handle.id, timeout=LIMIT_S)

    assert (None, reason) == (ended.result, ended.error)
    with pytest.raises(ResultUnavailable, match=reason):
        await handle.result(timeout=LIMIT_S)


@pytest.mark.parametrize("options", [{"job_key": "k"}, {"singleton": True}, {"idempotency_key": "k"}], ids=str)
async def test_two_runs_that_are_one_job_get_the_same_result(
    client: Client, make_worker: MakeWorker, options: dict[str, Any]
) -> None:
    """Another add has made the job. Each run changes or finds it, and watches it."""
    spec = parse.job("a").with_options(**options)
    await client.add_job(spec)
    async with asyncio.TaskGroup() as group, asyncio.timeout(LIMIT_S):
        first = group.create_task(client.run(spec))
        await wait_until(lambda: client._waits and client._waits._waits, description="the first run to wait")
        second = group.create_task(client.run(spec))
        await wait_until(lambda: sum(map(len, client._waits._waits.values())) == 2, description="the second one")
        async with make_worker(parse).start():
            await asyncio.wait([first, second])

    assert [Page("a"), Page("a")] == [first.result(), second.result()]


async def test_a_middleware_that_makes_new_specs_does_not_lose_the_result(
    dsn: str, schema: str, make_worker: MakeWorker
) -> None:
    """The channel goes with the spec. Without it, the client watches the job after the add."""

    async def rebuild(specs: Any, add: Any) -> None:
        await add([JobSpec(task=spec.task, payload=spec.payload, run_at=None) for spec in specs])

    async with Client(dsn, schema=schema, middleware=[rebuild]) as client, asyncio.timeout(LIMIT_S):
        running = asyncio.ensure_future(client.run(parse.job("a")))  # noqa: TID251
        await wait_until(lambda: client._waits and client._waits._asked_at, description="the wait to be listed")
        async with make_worker(parse).start():
            assert Page("a") == await running


async def test_a_notification_that_is_lost_with_the_connection_is_made_up_for(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker
) -> None:
    """The server sent it, and the connection ended before it arrived. The next connection asks."""
    async with link_to(dsn) as link, Client(link.dsn, schema=schema) as far, asyncio.timeout(LIMIT_S):
        running = asyncio.ensure_future(far.run(parse.job("a")))  # noqa: TID251
        await wait_until(lambda: far._waits and far._waits._waits, description="the run to wait")
        link.hold("wait", "answers")
        await make_worker(parse).run_once()
        was_done = running.done()
        link.lose("wait")

        assert (False, Page("a")) == (was_done, await running)


async def test_a_silent_connection_is_found_by_the_next_question(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is half open: nothing arrives, and nothing ends."""
    monkeypatch.setattr(waits, "LOOK_S", 0.1)
    monkeypatch.setattr(waits, "PROBE_S", 0.1)
    async with link_to(dsn) as link, Client(link.dsn, schema=schema) as far, asyncio.timeout(LIMIT_S):
        await far.open()
        running = asyncio.ensure_future(far.run(parse.job("a")))  # noqa: TID251
        await wait_until(lambda: far._waits and far._waits._waits, description="the run to wait")
        link.freeze_open("wait")
        await make_worker(parse).run_once()

        assert Page("a") == await running
        await far.close()


async def test_a_wait_lasts_over_an_outage(dsn: str, schema: str, client: Client, make_worker: MakeWorker) -> None:
    """The client cannot reach the database while the job ends. It asks again as soon as it can."""
    async with link_to(dsn) as link, Client(link.dsn, schema=schema) as far, asyncio.timeout(LIMIT_S):
        running = asyncio.ensure_future(far.run(parse.job("a")))  # noqa: TID251
        await wait_until(lambda: far._waits and far._waits._waits, description="the run to wait")
        link.refuse("")
        await make_worker(parse).run_once()
        was_done = running.done()
        link.mend()

        assert (False, Page("a")) == (was_done, await running)


async def test_a_client_behind_a_pooler_asks_and_says_so_once(
    dsn: str, schema: str, make_worker: MakeWorker, caplog: pytest.LogCaptureFixture
) -> None:
    """A pooler passes no notification on. The result is kept until the client asks."""
    join = "&" if "?" in dsn else "?"
    async with Client(f"{dsn}{join}statement_cache_size=0", schema=schema) as pooled, asyncio.timeout(LIMIT_S):
        with caplog.at_level(logging.WARNING, "asyncq"):
            async with make_worker(parse).start():
                pages = [await pooled.run(parse.job(url)) for url in "ab"]

    assert [Page("a"), Page("b")] == pages
    assert 1 == sum("a client asks every 0.5 s" in record.message for record in caplog.records)


async def test_a_client_behind_a_pooler_may_listen_at_the_server(
    dsn: str, schema: str, make_worker: MakeWorker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a worker."""
    monkeypatch.setattr(waits, "POLL_S", 60.0)
    join = "&" if "?" in dsn else "?"
    client = Client(f"{dsn}{join}statement_cache_size=0", schema=schema, listen_dsn=dsn)
    async with client, make_worker(parse).start(), asyncio.timeout(LIMIT_S):
        assert Page("a") == await client.run(parse.job("a"))


async def test_the_end_of_the_client_ends_its_waits(dsn: str, schema: str) -> None:
    """The job goes on."""
    client = Client(dsn, schema=schema)
    await client.open()
    added = await client.add_job(parse.job("a"))
    waiting = asyncio.ensure_future(client.wait_for(added.id))  # noqa: TID251
    await wait_until(lambda: client._waits and client._waits._asked_at, description="the wait to be listed")
    await client.close()

    with pytest.raises(StoreUnavailable, match="the client was closed; the awaited job goes on"):
        await waiting


async def test_a_job_that_a_long_transaction_locks_does_not_hold_up_other_waits(
    client: Client, make_worker: MakeWorker, db: asyncpg.Connection
) -> None:
    """Its own wait goes on when the transaction ends."""
    locked = await client.add_job(kept, "locked")
    async with asyncio.timeout(LIMIT_S):
        transaction = db.transaction()
        await transaction.start()
        await client.admin.cancel_jobs([locked.id], connection=db)
        reading = asyncio.ensure_future(locked.result())  # noqa: TID251
        await wait_until(lambda: client._waits and client._waits._connection, description="the wait to ask")
        async with make_worker(kept).start():
            assert Page("free") == await (await client.add_job(kept, "free")).result()
            was_done = reading.done()
        await transaction.rollback()
        await make_worker(kept).run_once()
        assert (False, Page("locked")) == (was_done, await reading)


async def test_an_end_that_comes_before_the_answer_to_the_add_is_not_kept_for_ever(
    dsn: str, schema: str, make_worker: MakeWorker
) -> None:
    """The adds of a busy client overlap: there may never be a moment without one."""

    async def slow(specs: Any, add: Any) -> None:
        await add(specs)
        await wait_until(lambda: client._open_waits()._early, description="the end to be notified")

    client = Client(dsn, schema=schema, middleware=[slow])
    async with client, make_worker(parse).start(), asyncio.timeout(LIMIT_S):
        with client._open_waits().adding():
            assert Page("a") == await client.run(parse.job("a"))
            assert {} == client._open_waits()._early


async def test_a_client_that_is_closed_while_it_begins_to_listen_leaves_no_connection(dsn: str, schema: str) -> None:
    """Nobody would close it later."""
    async with link_to(dsn) as link, asyncio.timeout(LIMIT_S):
        client = Client(link.dsn, schema=schema)
        await client.open()
        added = await client.add_job(parse.job("a"))
        link.hold("wait", "answers")
        waiting = asyncio.ensure_future(client.wait_for(added.id))  # noqa: TID251
        await wait_until(lambda: link.count("wait"), description="the client to connect")
        await client.close()
        link.deliver("wait")

        with pytest.raises(StoreUnavailable, match="the client was closed; the awaited job goes on"):
            await waiting
        await wait_until(lambda: not link.count("wait"), description="the connection to end")


async def test_a_transaction_that_is_rolled_back_tells_nobody(
    client: Client, make_worker: MakeWorker, db: asyncpg.Connection, schema: str
) -> None:
    """The notification belongs to the transaction that ends the job: its first run has ended nothing."""

    @task(transactional=True, retry=[0])
    async def count(ctx: JobContext) -> int:
        if ctx.attempt == 1:
            raise RetryAfter(0)
        return ctx.attempt

    async with make_worker(count).start(), asyncio.timeout(LIMIT_S):
        assert 2 == await client.run(count.spec("{}"))


async def test_a_wait_outlives_the_connection_of_its_notifications(
    client: Client, make_worker: MakeWorker, db: asyncpg.Connection, schema: str
) -> None:
    """The server ended it. The client opens another one at once, and asks."""
    added = await client.add_job(parse.job("a"))
    waiting = asyncio.ensure_future(client.wait_for(added.id))  # noqa: TID251
    async with asyncio.timeout(LIMIT_S):
        await wait_until(lambda: client._waits and client._waits._asked_at, description="the wait to be listed")
        assert 1 == await terminate(db, schema, "wait")
        await make_worker(parse).run_once()
        ended: Ended = await waiting

    assert '{"title":"a"}' == ended.result


async def test_a_result_is_stored_and_sent_encoded(
    dsn: str, schema: str, make_worker: MakeWorker, db: asyncpg.Connection
) -> None:
    """A client without the codec gets no result, and says why."""
    codec = Backwards("k1")
    async with Client(dsn, schema=schema, codec=codec) as client, asyncio.timeout(LIMIT_S):
        async with make_worker(parse, codec=codec).start():
            page = await client.run(parse.job("a"))
        stored = await db.fetchval(f"select result #>> '{{}}' from {schema}._ended_jobs")
        handle = await client.add_job(parse.job("b"), keep="1 h")
        await make_worker(parse, codec=codec).run_once()
        ended = await client.wait_for(handle.id)
    async with Client(dsn, schema=schema) as other:
        encoded = await other.wait_for(handle.id)

    assert (Page("a"), sealed("k1", "parse", '{"title":"a"}')) == (page, stored)
    assert ('{"title":"b"}', f'"{sealed("k1", "parse", ended.result or "")}"') == (ended.result, encoded.result)
    with pytest.raises(ResultUnavailable, match="it is encoded, and this client has no codec that decodes it"):
        result_of(encoded, Returns())
