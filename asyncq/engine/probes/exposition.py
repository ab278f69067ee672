"""The metrics of one worker for Prometheus; needs the package prometheus_client, the extra `metrics`.

Names and labels are a contract with dashboards and alerts: the guide lists them.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from asyncq.engine.probes.counters import BOUNDS_S, Counters, Histogram
from asyncq.engine.probes.server import Answer
from asyncq.engine.probes.vitals import Vitals

_LE = [*(repr(bound) for bound in BOUNDS_S), "+Inf"]


class WorkerCollector(Collector):
    """The metrics of one worker; `vitals` returns None until it has begun."""

    def __init__(self, counters: Counters, vitals: Callable[[], Vitals | None]) -> None:
        self._counters = counters
        self._vitals = vitals

    def describe(self) -> Iterable[Metric]:
        """No names: all of a worker are its own, so that there is nothing to compare them with."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield from self._of_tasks()
        yield from self._of_counters()
        vitals = self._vitals()
        if vitals is not None:
            yield from _of_vitals(vitals)
        yield self._info()

    def _of_tasks(self) -> Iterator[Metric]:
        tasks = list(self._counters.tasks.items())
        jobs = CounterMetricFamily(
            "asyncq_jobs", "Runs of jobs that have ended, by their outcome.", labels=["task", "outcome"]
        )
        took = HistogramMetricFamily("asyncq_job_duration_seconds", "How long handlers ran.", labels=["task"])
        waited = HistogramMetricFamily("asyncq_job_wait_seconds", "How long due jobs waited to start.", labels=["task"])
        for task, counts in tasks:
            for outcome, number in counts.outcomes.copy().items():
                jobs.add_metric([task, outcome], number)
            took.add_metric([task], _cumulative(counts.took), counts.took.sum_s)
            waited.add_metric([task], _cumulative(counts.waited), counts.waited.sum_s)
        yield from (jobs, took, waited)

    def _of_counters(self) -> Iterator[Metric]:
        counters = self._counters
        fetch_took = HistogramMetricFamily("asyncq_fetch_duration_seconds", "How long fetches of jobs took.")
        fetch_took.add_metric([], _cumulative(counters.fetch_took), counters.fetch_took.sum_s)
        yield fetch_took
        yield CounterMetricFamily("asyncq_jobs_fetched", "Jobs that fetches claimed.", value=counters.fetched)
        yield CounterMetricFamily(
            "asyncq_settle_failures", "Writes of ends of jobs that failed and are made again.", counters.settle_failures
        )
        yield CounterMetricFamily("asyncq_jobs_rescued", "Jobs of dead workers that it returned.", counters.rescued)
        yield CounterMetricFamily(
            "asyncq_loop_blocked_seconds",
            "How long code blocked the event loop.",
            counters.blocked_s,
        )
        yield GaugeMetricFamily(
            "asyncq_listen_connected", "1 while the LISTEN connection works.", value=int(counters.listens)
        )
        cron = CounterMetricFamily("asyncq_cron_added", "Slots of recurring items that became jobs.", labels=["item"])
        for item, number in counters.cron_added.copy().items():
            cron.add_metric([item], number)
        yield cron

    def _info(self) -> Metric:
        info = InfoMetricFamily("asyncq", "The releases at work.")
        released = self._counters.released
        if released is not None:
            info.add_metric([], {"version": _version(), "schema": released.schema, "postgres": released.postgres})
        return info


def _of_vitals(vitals: Vitals) -> Iterator[Metric]:
    yield GaugeMetricFamily("asyncq_worker_slots", "How many jobs it runs at once.", value=vitals.concurrency)
    yield GaugeMetricFamily("asyncq_worker_running", "How many jobs run.", value=vitals.running())
    yield GaugeMetricFamily(
        "asyncq_worker_stuck", "How many of them run on although they were cancelled.", value=vitals.stuck()
    )
    yield GaugeMetricFamily(
        "asyncq_heartbeat_age_seconds", "How long ago the last heartbeat was written.", value=vitals.lease.silent_s
    )


def _cumulative(histogram: Histogram) -> list[tuple[str, float]]:
    total, found = 0, list[tuple[str, float]]()
    for bound, number in zip(_LE, histogram.buckets.copy(), strict=True):
        total += number
        found.append((bound, total))
    return found


def _version() -> str:
    try:
        return version("asyncq")
    except PackageNotFoundError:
        return "unknown"


class Exposition:
    """Writes metrics as text in the form that a scraper accepts, one scrape at a time."""

    def __init__(self, collector: Collector) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(collector)
        self._lock = threading.Lock()

    def answer(self, accept: str) -> Answer:
        encode, kind = choose_encoder(accept)
        with self._lock:
            return Answer(200, encode(self._registry), kind)
