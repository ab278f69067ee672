"""Traces and metrics of OpenTelemetry. It needs the extra `otel`: `pip install 'asyncq[otel]'`.

The names follow the semantic conventions for messaging, version 1.44. They are written out, because the package with
the constants changes those that are in development.
"""

import os
import time
import traceback
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Literal, cast

import msgspec

from asyncq.domain.around import Add, Call, RunInfo, SyncAdd
from asyncq.domain.errors import ConfigurationError, RaisedInProcess, Snooze, members_of
from asyncq.domain.job import Added, JobSpec
from asyncq.domain.outcome import text_of
from asyncq.store.dsn import read_dsn
from asyncq.store.hosts import named

try:
    from opentelemetry import context, metrics, trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError as error:
    raise ImportError("asyncq.contrib.otel needs opentelemetry-api: pip install 'asyncq[otel]'") from error

MOST_LINKS = 128  # of a span; by default the SDK keeps no more
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
HEADERS = ("traceparent", "tracestate")  # members of the metadata of a job
ALSO_OLD = "messaging/dup"  # in OTEL_SEMCONV_STABILITY_OPT_IN: the names of version 1.24 too
OLD_OPERATIONS = {"send": "publish", "process": "process"}

Parent = Literal["link", "sender"]
Attributes = dict[str, str | int]

_propagator = TraceContextTextMapPropagator()
_read_meta = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_text = msgspec.json.Decoder(str).decode


class Tracing:
    """Spans and metrics of adds and runs: `adds`, `sync_adds` and `runs` are middleware.

    Args:
        dsn: The database, only for the attributes `server.address` and `server.port`; None (the default) leaves them
            out.
        parent: How the span of a run refers to the span that added its job. `"link"` (the default): it begins a trace
            of its own, with a link. `"sender"`: it belongs to the same trace, if the call runs one job.
        tracer_provider: The provider of the tracer; the global one by default.
        meter_provider: The provider of the meter; the global one by default.

    Raises:
        ConfigurationError: `parent` is something else, or the DSN is not valid.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        parent: Parent = "link",
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
    ) -> None:
        if parent not in ("link", "sender"):
            raise ConfigurationError(f"parent is 'link' or 'sender', got {parent!r}")
        self._parent = parent
        self._server: Attributes = {} if dsn is None else _server_of(dsn)
        self._has_old_names = ALSO_OLD in os.environ.get("OTEL_SEMCONV_STABILITY_OPT_IN", "").replace(" ", "").split(
            ","
        )
        self._tracer = trace.get_tracer("asyncq", tracer_provider=tracer_provider)
        meter = metrics.get_meter("asyncq", meter_provider=meter_provider)
        self._sent = meter.create_counter(
            "messaging.client.sent.messages",
            "{message}",
            "Number of messages producer attempted to send to the broker.",
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages",
            "{message}",
            "Number of messages that were delivered to the application.",
        )
        self._send_s = meter.create_histogram(
            "messaging.client.operation.duration",
            "s",
            "Duration of messaging operation initiated by a producer or consumer client.",
            explicit_bucket_boundaries_advisory=BUCKETS_S,
        )
        self._process_s = meter.create_histogram(
            "messaging.process.duration",
            "s",
            "Duration of processing operation.",
            explicit_bucket_boundaries_advisory=BUCKETS_S,
        )

    async def adds(self, specs: Sequence[JobSpec], add: Add) -> None:
        """Middleware of a `Client`, and `add_middleware` of a `Worker`: a span around each add."""
        with self._sending(specs) as sending:
            sending.added(await add(sending.specs))

    def sync_adds(self, specs: Sequence[JobSpec], add: SyncAdd) -> None:
        """Middleware of a `SyncClient`: a span around each add."""
        with self._sending(specs) as sending:
            sending.added(add(sending.specs))

    async def runs(self, run: RunInfo, call: Call) -> Any:
        """Middleware of a `Worker` or a task: a span around each run."""
        with self._processing(run) as processing:
            returned: Any = await call()
            processing.returned(returned)
            return returned

    @contextmanager
    def _sending(self, specs: Sequence[JobSpec]) -> Generator["_Sending"]:
        names = {spec.task for spec in specs}
        shared = self._shared("send", names.pop() if len(names) == 1 else None)
        attributes = self._of_span(shared)
        if len(specs) != 1:
            attributes["messaging.batch.message_count"] = len(specs)
        elif (queue := specs[0].queue) is not None:
            attributes["asyncq.queue"] = queue
        # A producer also for several jobs: their metadata has the context of this span, and backends look for that.
        span = self._tracer.start_span(_name(shared), kind=SpanKind.PRODUCER, attributes=attributes)
        sending = _Sending(span, specs)
        with sending.measured(shared, len(specs), self._sent, self._send_s):
            yield sending

    @contextmanager
    def _processing(self, run: RunInfo) -> Generator["_Operation"]:
        shared = self._shared("process", run.task)
        attributes = self._of_span(shared) | self._of_run(run)
        links = _links_of(run)
        # An empty context: a worker that was started in a span would put all its runs into one trace.
        within = Context()
        if self._parent == "sender" and len(run.claims) == 1 and links:
            within = trace.set_span_in_context(trace.NonRecordingSpan(links[0].context), within)
            links = []
        name, kind = _name(shared), SpanKind.CONSUMER
        span = self._tracer.start_span(name, context=within, kind=kind, attributes=attributes, links=links)
        if texts := _texts_of(span):
            run.carry(attached, texts)
        processing = _Operation(span)
        with processing.measured(shared, len(run.claims), self._consumed, self._process_s):
            yield processing

    def _of_run(self, run: RunInfo) -> Attributes:
        """The attributes of the span of a run alone."""
        found: Attributes = {"messaging.client.id": str(run.worker_id)}
        if self._has_old_names:
            found["messaging.client_id"] = str(run.worker_id)
        claim, *others = run.claims
        if others:
            return {**found, "messaging.batch.message_count": len(run.claims)}
        found |= {"messaging.message.id": str(claim.id), "asyncq.attempt": run.attempt}
        if claim.queue is not None:
            found["asyncq.queue"] = claim.queue
        return found

    def _shared(self, operation: str, task: str | None) -> Attributes:
        """The attributes that spans and metrics have."""
        shared: Attributes = {
            "messaging.system": "asyncq",
            "messaging.operation.name": operation,
            "messaging.operation.type": operation,
            **self._server,
        }
        if task is not None:
            shared["messaging.destination.name"] = task
        return shared

    def _of_span(self, shared: Attributes) -> Attributes:
        if not self._has_old_names:
            return dict(shared)
        return {**shared, "messaging.operation": OLD_OPERATIONS[str(shared["messaging.operation.name"])]}


@contextmanager
def attached(texts: Mapping[str, str]) -> Generator[None]:
    """Make the context of these texts the current one, in the process of a handler."""
    token = context.attach(_propagator.extract(texts))
    try:
        yield
    finally:
        context.detach(token)


class _Operation:
    """One add, or one call of a handler, and the span around it."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self._error_type: str | None = None

    @contextmanager
    def measured(
        self, shared: Attributes, jobs: int, counter: metrics.Counter, histogram: metrics.Histogram
    ) -> Generator[None]:
        """Make its span the active one until the block ends, and measure the block."""
        began = time.perf_counter()
        try:
            with trace.use_span(self.span, record_exception=False, set_status_on_exception=False):
                yield
        except BaseException as error:
            self.failed(error)
            raise
        finally:
            self.span.end()
            attributes = shared if self._error_type is None else {**shared, "error.type": self._error_type}
            counter.add(jobs, attributes)
            histogram.record(time.perf_counter() - began, attributes)

    def failed(self, error: BaseException) -> None:
        """Record what it raised; a `Snooze` is no failure."""
        if all(isinstance(member, Snooze) for member in members_of(error)):
            self.span.set_attribute("asyncq.outcome", "snoozed")
            return
        self._error_type = _type_of(error)
        if not self.span.is_recording():
            return
        said = text_of(error)
        self.span.set_attribute("error.type", self._error_type)
        self.span.set_status(Status(StatusCode.ERROR, said))
        self.span.add_event(
            "exception",
            {
                "exception.type": self._error_type,
                "exception.message": said,
                "exception.stacktrace": "".join(traceback.format_exception(error)),
            },
        )

    def returned(self, value: object) -> None:
        """Record the failures among the outcomes of items, or of jobs that were collected."""
        if not isinstance(value, list | tuple):
            return
        outcomes = cast("Sequence[object]", value)
        errors = [each for each in outcomes if isinstance(each, BaseException) and not isinstance(each, Snooze)]
        if errors:
            self.failed(errors[0])
            self.span.set_attribute("asyncq.failed", len(errors))


class _Sending(_Operation):
    """One add; its jobs have the context of its span, if that is sampled."""

    def __init__(self, span: Span, specs: Sequence[JobSpec]) -> None:
        super().__init__(span)
        self.specs = specs
        # A job with metadata is slower to add, and is not handed over: a context that nobody records is not worth that.
        if span.get_span_context().trace_flags.sampled and (texts := _texts_of(span)):
            alone = msgspec.json.encode(texts).decode()
            self.specs = [
                msgspec.structs.replace(spec, meta=alone if spec.meta is None else _with_texts(spec.meta, texts))
                for spec in specs
            ]

    def added(self, results: Sequence[Added]) -> None:
        """Record the result of the add, if it was one job."""
        if len(results) == 1:
            (added,) = results
            self.span.set_attribute("messaging.message.id", str(added.id))
            if added.outcome != "added":
                self.span.set_attribute("asyncq.outcome", added.outcome)


def _name(shared: Attributes) -> str:
    operation, task = shared["messaging.operation.name"], shared.get("messaging.destination.name")
    return str(operation) if task is None else f"{operation} {task}"


def _server_of(dsn: str) -> Attributes:
    """The host of a DSN, if it names one."""
    read = read_dsn(dsn)
    hosts = named(read.uri, read.service)
    return {"server.address": hosts[0].name, "server.port": hosts[0].port} if len(hosts) == 1 else {}


def _links_of(run: RunInfo) -> list[Link]:
    """Links to the spans that added the jobs of a run, at most `MOST_LINKS`."""
    senders = ((claim.id, _sender_of(claim.meta)) for claim in run.claims if claim.meta is not None)
    links = (Link(sender, {"messaging.message.id": str(job_id)}) for job_id, sender in senders if sender is not None)
    return [*islice(links, MOST_LINKS)]


def _sender_of(meta: str) -> SpanContext | None:
    """The span that added a job, by its metadata; None if it has none, or another program wrote something else."""
    try:
        texts = {name: _read_text(raw) for name, raw in _read_meta(meta).items() if name in HEADERS}
    except (msgspec.DecodeError, RecursionError):
        return None
    sender = trace.get_current_span(_propagator.extract(texts, Context())).get_span_context()
    return sender if sender.is_valid else None


def _texts_of(span: Span) -> dict[str, str]:
    """The context of a span in the form of W3C; empty if it has none."""
    texts: dict[str, str] = {}
    _propagator.inject(texts, trace.set_span_in_context(span, Context()))
    return texts


def _with_texts(meta: str, texts: Mapping[str, str]) -> str:
    """Metadata with the context of a span, unless the program has given one. Other members are not changed at all."""
    members: dict[str, Any] = _read_meta(meta)
    return meta if HEADERS[0] in members else msgspec.json.encode({**members, **texts}).decode()


def _type_of(error: BaseException) -> str:
    """The name of the class of an error, as conventions want it."""
    if isinstance(error, RaisedInProcess):
        return error.type_name
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
