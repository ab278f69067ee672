"""Fixtures of the tests of integrations: telemetry that stays in memory."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import Tracer

from asyncq.contrib.otel import Tracing


class Telemetry:
    """What a program with the SDK exports."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        # Its own limit of links would hide that of asyncq.
        self.traces = TracerProvider(shutdown_on_exit=False, span_limits=SpanLimits(max_links=10_000))
        self.traces.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.unsampled = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)

    def tracing(self, dsn: str | None = None, **options: Any) -> Tracing:
        """Tracing with these providers."""
        return Tracing(dsn, **{"tracer_provider": self.traces, "meter_provider": self.meters, **options})

    @property
    def tracer(self) -> Tracer:
        """The tracer of the program itself."""
        return self.traces.get_tracer("program")

    def spans(self, start: str = "") -> list[ReadableSpan]:
        """The spans that have ended, in this order, whose names begin so."""
        return [span for span in self.exporter.get_finished_spans() if span.name.startswith(start)]

    def span(self, start: str) -> ReadableSpan:
        """The only one whose name begins so."""
        (found,) = self.spans(start)
        return found

    def points(self, name: str) -> list[Any]:
        """The values of a metric, one for each set of attributes."""
        data = self.reader.get_metrics_data()
        metrics = [] if data is None else data.resource_metrics[0].scope_metrics[0].metrics
        return [point for metric in metrics if metric.name == name for point in metric.data.data_points]


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    """Telemetry of a program, and of nobody else: nothing global is set."""
    made = Telemetry()
    yield made
    made.traces.shutdown()
    made.unsampled.shutdown()
    made.meters.shutdown()
