"""The metrics of a store for Prometheus, which one endpoint serves; needs prometheus_client, the extra `metrics`.

A worker shows its own numbers (`Worker(http=...)`). Those of the store are the same on each endpoint.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from asyncq.admin import Admin
from asyncq.client import Client
from asyncq.domain.administration import Counts, WorkerInfo
from asyncq.domain.checkup import DeadRows
from asyncq.domain.cron.item import CronItem
from asyncq.domain.cron.slot import next_run
from asyncq.domain.cron.status import CronStatus
from asyncq.domain.errors import ConfigurationError
from asyncq.domain.finding import Depth
from asyncq.engine.probes.counters import MOST_TASKS, OTHER
from asyncq.store.checkup import dead_rows

try:
    from prometheus_client.core import GaugeMetricFamily, Metric
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.registry import Collector, CollectorRegistry
except ModuleNotFoundError as missing:
    raise ConfigurationError("metrics need the package prometheus_client: pip install 'asyncq[metrics]'") from missing

_STATES = ("scheduled", "available", "active", "retryable", "pending", "cancelled", "discarded")
_OF_WORKERS = ("live", "doubted", "dead", "unknown")


class StoreNumbers(msgspec.Struct):
    """The numbers of a store, as they were read."""

    counts: Counts
    backlog: int
    oldest_due_s: float | None
    depths: Sequence[Depth]
    workers: Sequence[WorkerInfo]
    items: Sequence[CronStatus]
    dead: Sequence[DeadRows]
    now: datetime


async def store_metrics(client: Client, accept: str = "") -> tuple[bytes, str]:
    """Read the numbers of a store, and write them as a page of metrics.

    Args:
        client: An open client.
        accept: The header Accept of the scraper; by default the page is in the text format of Prometheus.

    Returns:
        The page, and its content type.

    Raises:
        StoreError: The database cannot be used.

    If cancelled, nothing was changed: it only reads.
    """
    return page_of(await read_store(client), accept)


async def read_store(client: Client) -> StoreNumbers:
    """Read the numbers of a store; raises as `store_metrics`."""
    return StoreNumbers(
        counts=await client.admin.counts(),
        backlog=await client.admin.backlog(),
        oldest_due_s=await client.admin.oldest_due(),
        depths=await client.admin.depths_by(queues=1),
        workers=await client.admin.list_workers(),
        items=await client.cron.list_items(),
        dead=await _dead_rows(client.admin),
        now=await client.admin.now(),
    )


def page_of(numbers: StoreNumbers, accept: str) -> tuple[bytes, str]:
    """A page of metrics in a format that the scraper accepts, and its content type."""
    registry = CollectorRegistry()
    registry.register(_StoreCollector(numbers))
    encode, kind = choose_encoder(accept)
    return encode(registry), kind


async def _dead_rows(admin: Admin) -> list[DeadRows]:
    async with admin._acquire() as connection:  # pyright: ignore[reportPrivateUsage]
        return await dead_rows(admin._database, connection)  # pyright: ignore[reportPrivateUsage]


class _StoreCollector(Collector):
    def __init__(self, look: StoreNumbers) -> None:
        self._look = look

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        look = self._look
        jobs = {state: getattr(look.counts, state) for state in _STATES}
        yield _labelled("asyncq_store_jobs", "Jobs in each state.", "state", jobs)
        yield _labelled("asyncq_store_due_jobs", "Due jobs of each task.", "task", _due(look.depths))
        yield GaugeMetricFamily("asyncq_store_backlog", "Due and running jobs, up to 10,000.", value=look.backlog)
        oldest_s = look.oldest_due_s or 0.0
        yield GaugeMetricFamily("asyncq_store_oldest_due_seconds", "The age of the oldest due job.", value=oldest_s)
        states = Counter(worker.state for worker in look.workers)
        found = {state: states[state] for state in _OF_WORKERS}
        yield _labelled("asyncq_store_workers", "Workers in each state.", "state", found)
        live = [worker for worker in look.workers if worker.state == "live"]
        slots = sum(worker.concurrency or 0 for worker in live)
        yield GaugeMetricFamily("asyncq_store_slots", "How many jobs the live workers run at once.", value=slots)
        busy = sum(worker.running for worker in live)
        yield GaugeMetricFamily("asyncq_store_busy", "How many jobs the live workers hold.", value=busy)
        overdue = {item.identifier: _overdue_s(item, look.now) for item in look.items if item.paused_at is None}
        said = "For how long the next slot of a recurring item has been due, and is no job."
        yield _labelled("asyncq_store_cron_overdue_seconds", said, "item", overdue)
        dead = {table.table: table.dead for table in look.dead}
        yield _labelled("asyncq_store_dead_rows", "Rows that vacuum has to remove.", "table", dead)


def _due(depths: Sequence[Depth]) -> dict[str, int]:
    """The due jobs by task; tasks beyond the first ones share a label, as in the metrics of workers."""
    of_tasks = sorted(((each.due, each.task) for each in depths if each.task is not None), reverse=True)
    found = {task: due for due, task in of_tasks[:MOST_TASKS]}
    if rest := of_tasks[MOST_TASKS:]:
        found[OTHER] = found.get(OTHER, 0) + sum(due for due, _ in rest)
    return found


def _overdue_s(status: CronStatus, now: datetime) -> float:
    """For how long the slot after the last one that became a job has been due; 0 if that cannot be said."""
    since = status.last_run or status.known_since
    if status.task is None or status.expression is None or since is None or status.problem is not None:
        return 0.0
    item = CronItem(status.task, status.expression, tz=status.tz or "UTC", dialect=status.dialect or "extended")
    following = next_run(item, since)
    return 0.0 if following is None else max((now - following).total_seconds(), 0.0)


def _labelled(name: str, said: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, said, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
