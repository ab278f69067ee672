"""OpenTelemetry: the spans and metrics of adds and runs, and the context that a job carries from one to the other."""

import asyncio
import json
import logging
import subprocess
import sys
import threading
from typing import Any

import asyncpg
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from asyncq import (
    Added,
    Call,
    Client,
    Collect,
    ConfigurationError,
    ConstantRetry,
    Discard,
    JobContext,
    JobNotFound,
    JobSpec,
    RunInfo,
    Snooze,
    SyncClient,
    TransactionUnusable,
    Worker,
    task,
)
from asyncq.cli.logs import JsonFormatter
from asyncq.contrib.otel import BUCKETS_S, MOST_LINKS, Tracing
from asyncq.domain.events import JobCompleted
from tests.contrib.conftest import Telemetry
from tests.support.callers import KINDS
from tests.support.process_tasks import fail, span
from tests.support.seen import Seen

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@task
async def greet(name: str) -> None:
    """Do nothing."""


@task
async def other() -> None:
    """Do nothing."""


@task(max_attempts=2, retry=ConstantRetry(0))
async def divide() -> None:
    """Fail each time."""
    raise ZeroDivisionError("by nothing")


def ids(of: ReadableSpan) -> tuple[int, int]:
    """The trace and the span."""
    assert of.context is not None
    return of.context.trace_id, of.context.span_id


def links(of: ReadableSpan) -> list[tuple[int, int]]:
    """The traces and spans that a span is linked with."""
    return [(link.context.trace_id, link.context.span_id) for link in of.links]


def active() -> tuple[int, int]:
    """The trace and the span that are active."""
    context = get_current_span().get_span_context()
    return context.trace_id, context.span_id


async def work(dsn: str, schema: str, tracing: Tracing, *tasks: Any, **options: Any) -> None:
    """Run what is due, with spans around it."""
    wishes = {"middleware": [tracing.runs], "add_middleware": [tracing.adds], **options}
    await Worker(dsn, tasks, schema=schema, **wishes).run_once()


async def test_a_job_leads_from_its_run_to_its_add(dsn: str, schema: str, telemetry: Telemetry) -> None:
    """The names and attributes are those of the conventions; the add belongs to the trace of the program."""
    tracing = telemetry.tracing("postgresql://app:secret@db.example:6543/app")
    async with Client(dsn, schema=schema, middleware=[tracing.adds]) as client:
        with telemetry.tracer.start_as_current_span("request"):
            added = await client.add_job(greet, "Ada", queue="mail")
    await work(dsn, schema, tracing, greet)
    request, sent, processed = telemetry.span("request"), telemetry.span("send"), telemetry.span("process")
    assert sent.parent is not None
    shared = {
        "messaging.system": "asyncq",
        "messaging.destination.name": "greet",
        "messaging.message.id": str(added.id),
        "server.address": "db.example",
        "server.port": 6543,
        "asyncq.queue": "mail",
    }
    attributes = dict(processed.attributes or {})

    assert ids(request) == (sent.parent.trace_id, sent.parent.span_id)
    assert ("send greet", SpanKind.PRODUCER) == (sent.name, sent.kind)
    assert shared | {"messaging.operation.name": "send", "messaging.operation.type": "send"} == dict(
        sent.attributes or {}
    )
    assert ("process greet", SpanKind.CONSUMER, None) == (processed.name, processed.kind, processed.parent)
    assert attributes.pop("messaging.client.id")
    operation = {"messaging.operation.name": "process", "messaging.operation.type": "process", "asyncq.attempt": 1}
    assert shared | operation == attributes
    assert [ids(sent)] == links(processed)
    assert [StatusCode.UNSET] * 2 == [sent.status.status_code, processed.status.status_code]


async def test_a_run_may_belong_to_the_trace_of_its_add(dsn: str, schema: str, telemetry: Telemetry) -> None:
    """For programs whose jobs follow at once."""
    tracing = telemetry.tracing(parent="sender")
    async with Client(dsn, schema=schema, middleware=[tracing.adds]) as client:
        await client.add_job(greet, "Ada")
    await work(dsn, schema, tracing, greet)
    sent, processed = telemetry.span("send"), telemetry.span("process")
    assert processed.parent is not None

    assert ids(sent) == (processed.parent.trace_id, processed.parent.span_id)
    assert [] == links(processed)


async def test_a_worker_that_was_started_in_a_span_does_not_grow_it(
    dsn: str, schema: str, client: Client, telemetry: Telemetry
) -> None:
    """It would be one trace of all jobs for months."""
    await client.add_jobs([other.job(), other.job()])
    with telemetry.tracer.start_as_current_span("start"):
        await work(dsn, schema, telemetry.tracing(), other)
    traces = {ids(each)[0] for each in telemetry.spans()}

    assert 3 == len(traces)
    assert [None] * 2 == [each.parent for each in telemetry.spans("process")]


async def test_every_way_to_add_carries_the_context(dsn: str, schema: str, telemetry: Telemetry) -> None:
    """On the client's own connection, on those of libraries, awaited, without an event loop, and in a handler."""
    tracing = telemetry.tracing()

    @task(name="next")
    async def follow(ctx: JobContext) -> None:
        await ctx.add_job(greet, "in a handler")
        await ctx.add_jobs([greet.job("of many in a handler"), other.job()])

    async with Client(dsn, schema=schema, middleware=[tracing.adds]) as client:
        await client.add_job("greet", {"name": "by name"})
        await client.add_jobs([greet.job("first"), greet.job("second")])
        for name, opened in KINDS.items():
            async with opened(dsn, None) as caller:
                await caller.begin()
                await client.add_job(greet, name, connection=caller.connection)
                await caller.commit()
        SyncClient(dsn, schema=schema, middleware=[tracing.sync_adds]).add_job(greet, "without a loop")
        await client.add_job(follow)
        middleware: Any = {"middleware": [tracing.runs], "add_middleware": [tracing.adds]}
        async with Worker(dsn, [greet, follow, other], schema=schema, **middleware).start():
            await client.run(greet.job("awaited"), timeout=60)
        await work(dsn, schema, tracing, greet, follow, other)
    sent = {ids(each) for each in telemetry.spans("send")}
    runs = telemetry.spans("process")
    following = telemetry.span("process next")

    assert len(KINDS) + 9 == len(runs)
    assert [1] * len(runs) == [len(each.links) for each in runs]
    assert sent == {link for each in runs for link in links(each)}
    assert 2 == sum(1 for each in telemetry.spans("send") if each.parent and ids(following)[1] == each.parent.span_id)


async def test_many_jobs_are_added_in_one_span(dsn: str, schema: str, telemetry: Telemetry) -> None:
    """It has their number, and a destination if they share a task."""
    async with Client(dsn, schema=schema, middleware=[telemetry.tracing().adds]) as client:
        await client.add_jobs([greet.job("Ada"), greet.job("Bob")])
        await client.add_jobs([greet.job("Ada"), other.job(), other.job()])
        await client.add_jobs([])
    two, three, none = [dict(each.attributes or {}) for each in telemetry.spans()]

    assert ["send greet", "send", "send"] == [each.name for each in telemetry.spans()]
    assert [2, 3, 0] == [each["messaging.batch.message_count"] for each in (two, three, none)]
    assert "greet" == two["messaging.destination.name"]
    assert "messaging.destination.name" not in three
    assert not any("messaging.message.id" in each for each in (two, three))


async def test_a_context_that_is_not_sampled_leaves_no_trace_in_the_job(
    dsn: str, schema: str, telemetry: Telemetry
) -> None:
    """A job with metadata is slower to add."""
    tracing = telemetry.tracing(tracer_provider=telemetry.unsampled)
    async with Client(dsn, schema=schema, middleware=[tracing.adds]) as client:
        added = await client.add_job(greet, "Ada")
        job = await client.get_job(added.id)

    assert job.meta is None


META = '{"tenant": 1.10, "big": 123456789012345678901234567890}'


async def test_the_metadata_of_the_program_stays_as_it_is(
    dsn: str, schema: str, db: asyncpg.Connection, telemetry: Telemetry
) -> None:
    """Its numbers too; and a context that it has set itself is kept."""
    async with Client(dsn, schema=schema, middleware=[telemetry.tracing().adds]) as client:
        ours = await client.add_job(JobSpec(task="greet", meta=META))
        own = await client.add_job(greet, "Bob", meta={"traceparent": TRACEPARENT})
        job = await client.get_job(own.id)
    (stored,) = await db.fetch(f"select meta::text from {schema}._jobs where id = $1", ours.id)
    first, second = telemetry.spans("send")
    trace_id, span_id = ids(first)

    assert '{"big": 123456789012345678901234567890, "tenant": 1.10, "traceparent": ' in stored["meta"]
    assert f"00-{trace_id:032x}-{span_id:016x}" == json.loads(stored["meta"])["traceparent"][:52]
    assert {"traceparent": TRACEPARENT} == job.meta
    assert second.context is not None


@pytest.mark.parametrize("meta", [{"traceparent": 7}, {"traceparent": "nonsense"}, {"tracestate": "a=b"}, {"a": [1]}])
async def test_metadata_that_is_no_context_disturbs_no_run(
    dsn: str, schema: str, client: Client, telemetry: Telemetry, seen: Seen, meta: dict[str, Any]
) -> None:
    """Other programs may use the name."""
    added = await client.add_job(greet, "Ada", meta=meta)
    await work(dsn, schema, telemetry.tracing(), greet, observers=[seen])

    assert [added.id] == seen.ids(JobCompleted)
    assert [] == links(telemetry.span("process"))


async def test_each_attempt_is_linked_with_the_add(dsn: str, schema: str, telemetry: Telemetry) -> None:
    """The span of a failed one has its error."""
    tracing = telemetry.tracing()
    async with Client(dsn, schema=schema, middleware=[tracing.adds]) as client:
        await client.add_job(divide)
    await work(dsn, schema, tracing, divide)
    sent, attempts = telemetry.span("send"), telemetry.spans("process")
    (event,) = attempts[1].events
    attributes = dict(event.attributes or {})

    assert [1, 2] == [(each.attributes or {})["asyncq.attempt"] for each in attempts]
    assert [[ids(sent)]] * 2 == [links(each) for each in attempts]
    assert [(StatusCode.ERROR, "by nothing")] * 2 == [(a.status.status_code, a.status.description) for a in attempts]
    assert ["ZeroDivisionError"] * 2 == [(each.attributes or {})["error.type"] for each in attempts]
    assert ("ZeroDivisionError", "by nothing") == (attributes["exception.type"], attributes["exception.message"])
    assert "in divide" in str(attributes["exception.stacktrace"])


class Mute(Exception):
    """An error whose `__str__` fails."""

    def __str__(self) -> str:
        raise ValueError("no words")


async def test_the_ends_of_runs_have_a_status(dsn: str, schema: str, client: Client, telemetry: Telemetry) -> None:
    """A snooze is no failure; an error that cannot be written loses no span."""
    ends: dict[str, BaseException] = {
        "snooze": Snooze(600),
        "discard": Discard("no use"),
        "group": ExceptionGroup("all", [Snooze(600), Snooze(60)]),
        "mute": Mute(),
        "cancel": asyncio.CancelledError(),
    }

    @task
    async def end(how: str) -> None:
        raise ends[how]

    await client.add_jobs([end.job(how) for how in ends])
    await work(dsn, schema, telemetry.tracing(), end, concurrency=1)
    found = [(span.status.status_code, dict(span.attributes or {}).get("error.type")) for span in telemetry.spans()]
    module = Mute.__module__

    assert [
        (StatusCode.UNSET, None),
        (StatusCode.ERROR, "asyncq.Discard"),
        (StatusCode.UNSET, None),
        (StatusCode.ERROR, f"{module}.Mute"),
        (StatusCode.ERROR, "asyncio.exceptions.CancelledError"),
    ] == found


async def test_a_refused_add_ends_its_span(dsn: str, schema: str, db: asyncpg.Connection, telemetry: Telemetry) -> None:
    """With the error; one that another job made needless says so."""
    async with Client(dsn, schema=schema, middleware=[telemetry.tracing().adds]) as client:
        first = await client.add_job(greet, "Ada", singleton=True)
        await client.add_job(greet, "Bob", singleton=True)
        with pytest.raises(TransactionUnusable):
            async with db.transaction(readonly=True):
                await client.add_job(greet, "Eve", connection=db)
    kept, dropped, failed = telemetry.spans("send")

    assert "asyncq.outcome" not in (kept.attributes or {})
    assert ("deduplicated", str(first.id)) == tuple(
        (dropped.attributes or {})[name] for name in ("asyncq.outcome", "messaging.message.id")
    )
    assert StatusCode.ERROR == failed.status.status_code
    assert "asyncq.TransactionUnusable" == (failed.attributes or {})["error.type"]


async def test_jobs_that_are_collected_share_a_span(dsn: str, schema: str, telemetry: Telemetry) -> None:
    """With a link for each, up to a bound; some of them may fail."""
    tracing = telemetry.tracing()

    @task(collect=Collect(max=1000, within="1 h"), retry=ConstantRetry(600))
    async def send(names: list[str]) -> list[Any]:
        return [ValueError("no such name") if name == "7" else None for name in names]

    async with Client(dsn, schema=schema, middleware=[tracing.adds]) as client:
        for name in range(3):
            await client.add_job(send, str(name))
        await work(dsn, schema, tracing, send)
        await client.add_jobs([send.job(str(name)) for name in range(MOST_LINKS + 12)])
        await work(dsn, schema, tracing, send)
    first, second = telemetry.spans("process")
    three, many = dict(first.attributes or {}), dict(second.attributes or {})

    assert [ids(each) for each in telemetry.spans("send")[:3]] == links(first)
    assert (3, StatusCode.UNSET) == (three["messaging.batch.message_count"], first.status.status_code)
    assert (MOST_LINKS + 12, MOST_LINKS) == (many["messaging.batch.message_count"], len(second.links))
    assert (StatusCode.ERROR, 1, "ValueError") == (second.status.status_code, many["asyncq.failed"], many["error.type"])
    assert MOST_LINKS + 15 == sum(point.value for point in telemetry.points("messaging.client.consumed.messages"))


async def test_a_job_of_items_has_one_span(dsn: str, schema: str, telemetry: Telemetry) -> None:
    """With the number of the items that failed."""
    tracing = telemetry.tracing()

    @task(items=True, retry=ConstantRetry(600))
    async def send(names: list[str]) -> list[Any]:
        return [ValueError(name) if name == "b" else None for name in names]

    async with Client(dsn, schema=schema, middleware=[tracing.adds]) as client:
        await client.add_job(send, ["a", "b", "c"])
    await work(dsn, schema, tracing, send)
    processed = telemetry.span("process")

    assert [ids(telemetry.span("send"))] == links(processed)
    assert (StatusCode.ERROR, 1) == (processed.status.status_code, (processed.attributes or {})["asyncq.failed"])


async def test_the_span_is_active_in_handlers_of_all_kinds(
    dsn: str, schema: str, client: Client, telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    """In the event loop, in a thread, and in another process, whose records have it too."""
    found: dict[str, tuple[int, int]] = {}

    @task
    async def in_the_loop() -> None:
        found["loop"] = active()

    @task
    def in_a_thread() -> None:
        assert threading.current_thread() is not threading.main_thread()
        found["thread"] = active()

    returned: list[str] = []

    async def keep(run: RunInfo, call: Call) -> Any:
        returned.append(await call())
        return returned[-1]

    lines: list[dict[str, Any]] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(json.loads(JsonFormatter().format(record)))  # type: ignore[method-assign]
    logger = logging.getLogger("tests.process")
    caplog.set_level(logging.INFO, logger.name)
    logger.addHandler(handler)
    try:
        await client.add_jobs([in_the_loop.job(), in_a_thread.job(), span.job(), span.job()])
        tracing = telemetry.tracing()
        middleware = [tracing.runs, keep]
        await work(dsn, schema, tracing, in_the_loop, in_a_thread, span, concurrency=1, middleware=middleware)
    finally:
        logger.removeHandler(handler)
    in_processes = [ids(each) for each in telemetry.spans("process span")]

    assert ids(telemetry.span("process in_the_loop")) == found["loop"]
    assert ids(telemetry.span("process in_a_thread")) == found["thread"]
    assert [f"{trace_id:032x} {span_id:016x}" for trace_id, span_id in in_processes] == returned[2:]
    assert returned[2:] == [f"{line['trace_id']} {line['span_id']}" for line in lines]


async def test_an_error_of_another_process_has_its_own_type(
    dsn: str, schema: str, client: Client, telemetry: Telemetry
) -> None:
    """And not that of the messenger."""
    await client.add_job(fail, "value")
    await work(dsn, schema, telemetry.tracing(), fail)

    assert "ValueError" == (telemetry.span("process").attributes or {})["error.type"]


async def test_metrics_are_those_of_the_conventions(dsn: str, schema: str, telemetry: Telemetry) -> None:
    """With their buckets, and the type of an error."""
    tracing = telemetry.tracing()
    async with Client(dsn, schema=schema, middleware=[tracing.adds]) as client:
        await client.add_jobs([greet.job("Ada"), greet.job("Bob")])
        await client.add_job(divide)
    await work(dsn, schema, tracing, greet, divide)
    sent = {p.attributes["messaging.destination.name"]: p for p in telemetry.points("messaging.client.sent.messages")}
    consumed = telemetry.points("messaging.client.consumed.messages")
    took = telemetry.points("messaging.process.duration")
    sending = telemetry.points("messaging.client.operation.duration")
    common = {"messaging.system": "asyncq", "messaging.operation.name": "send", "messaging.operation.type": "send"}

    assert common | {"messaging.destination.name": "greet"} == dict(sent["greet"].attributes)
    assert (2, 1) == (sent["greet"].value, sent["divide"].value)
    assert {(None, 2), ("ZeroDivisionError", 2)} == {(p.attributes.get("error.type"), p.value) for p in consumed}
    assert [(2, BUCKETS_S)] * 2 == [(p.count, p.explicit_bounds) for p in took]
    assert [(1, BUCKETS_S)] * 2 == [(p.count, p.explicit_bounds) for p in sending]
    assert all(0 < point.sum < 300 for point in (*took, *sending))


@pytest.mark.parametrize(
    ("asked", "has_old"),
    [(None, False), ("messaging", False), ("http, messaging/dup", True), ("messaging,messaging/dup", True)],
)
async def test_old_names_are_added_if_they_are_asked_for(
    dsn: str, schema: str, telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch, asked: str | None, has_old: bool
) -> None:
    """For backends that know the conventions of 1.24 only."""
    if asked is None:
        monkeypatch.delenv("OTEL_SEMCONV_STABILITY_OPT_IN", raising=False)
    else:
        monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", asked)
    tracing = telemetry.tracing()
    async with Client(dsn, schema=schema, middleware=[tracing.adds]) as client:
        await client.add_job(other)
    await work(dsn, schema, tracing, other)
    sent, processed = (dict(each.attributes or {}) for each in telemetry.spans())

    assert ("send", "process") == (sent["messaging.operation.name"], processed["messaging.operation.name"])
    assert has_old == ("messaging.client_id" in processed)
    assert (("publish", "process") if has_old else (None, None)) == (
        sent.get("messaging.operation"),
        processed.get("messaging.operation"),
    )


async def test_without_an_sdk_nothing_is_stored_and_nothing_fails(dsn: str, schema: str, client: Client) -> None:
    """A library may be instrumented in programs that trace nothing."""
    tracing = Tracing()
    async with Client(dsn, schema=schema, middleware=[tracing.adds]) as traced:
        added = await traced.add_job(greet, "Ada")
        assert (await client.get_job(added.id)).meta is None
    await work(dsn, schema, tracing, greet)

    with pytest.raises(JobNotFound):
        await client.get_job(added.id)


@pytest.mark.parametrize(
    ("dsn_of_server", "expected"),
    [
        ("postgresql://app@db.example/app", ("db.example", 5432)),
        ("host=/run/postgresql port=5433 dbname=app", ("/run/postgresql", 5433)),
        ("postgresql://one.example,two.example/app", (None, None)),
    ],
)
def test_the_server_is_that_of_the_dsn(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch, dsn_of_server: str, expected: tuple[Any, Any]
) -> None:
    """Of several hosts nobody knows which one is meant."""
    monkeypatch.delenv("PGPORT", raising=False)
    monkeypatch.delenv("PGHOST", raising=False)
    tracing = telemetry.tracing(dsn_of_server)
    tracing.sync_adds([JobSpec(task="x")], lambda _: [Added(7)])
    attributes = telemetry.span("send x").attributes or {}

    assert expected == (attributes.get("server.address"), attributes.get("server.port"))


def test_an_unknown_parent_is_refused() -> None:
    """When it is given, and not at the first job."""
    wrong: Any = "child"
    with pytest.raises(ConfigurationError, match="'link' or 'sender', got 'child'"):
        Tracing(parent=wrong)


def test_asyncq_imports_no_telemetry() -> None:
    """Who does not use it does not pay for it."""
    program = "import sys, asyncq, asyncq.cli.worker, asyncq.testing; print([n for n in sys.modules if %s])"
    test = "n.split('.')[0] in ('opentelemetry', 'sentry_sdk') or n.startswith('asyncq.contrib')"
    done = subprocess.run([sys.executable, "-c", program % test], capture_output=True, text=True, check=True)

    assert "[]\n" == done.stdout


@pytest.mark.parametrize(("module", "library"), [("otel", "opentelemetry"), ("sentry", "sentry_sdk")])
def test_a_missing_library_is_named_with_its_extra(module: str, library: str) -> None:
    """The command that installs it is in the message."""
    program = f"import sys; sys.modules[{library!r}] = None; import asyncq.contrib.{module}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert f"pip install 'asyncq[{module}]'" in done.stderr
