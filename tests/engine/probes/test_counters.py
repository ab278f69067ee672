"""The names of the metrics are those of the guide, labels stay few, and nothing is loaded before it is wanted."""

import re
import subprocess
import sys
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from asyncq import task
from asyncq.domain.events import JobCompleted, JobEvent, JobStarted
from asyncq.domain.job import Claim
from asyncq.domain.moment import MOMENTS_BEGIN_S
from asyncq.domain.task import Registry
from asyncq.engine.base.identity import Identity
from asyncq.engine.base.lease import Lease, now_s
from asyncq.engine.probes.counters import MOST_TASKS, OUTCOMES, Counters
from asyncq.engine.probes.exposition import Exposition, WorkerCollector
from asyncq.engine.probes.vitals import Vitals
from tests.house.test_events import sample
from tests.support.web import Page

GUIDE = Path(__file__).parents[3] / "docs/guide/monitoring.md"
ROW = re.compile(r"^\| `(asyncq_\w+)` \| (\w+) \|([^|]*)\|", re.MULTILINE)
DUE_S = 1_000_000.0  # after the begin of moments

Contract = dict[str, tuple[str, frozenset[str]]]


@task
async def nothing() -> None:
    """A worker needs a task."""


def documented(prefix: str, *, without: str = "asyncq_nothing") -> Contract:
    """The metrics of the guide whose names begin so: the type and the labels of each."""
    return {
        name: (kind, frozenset(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels in ROW.findall(GUIDE.read_text())
        if name.startswith(prefix) and not name.startswith(without)
    }


def exported(text: str) -> Contract:
    """The metrics of a page of metrics, in the same form."""
    found: Contract = {}
    for family in text_string_to_metric_families(text):
        labels = frozenset(name for each in family.samples for name in each.labels) - {"le"}
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found[name] = (family.type, labels)
    return found


def page_of(counters: Counters, vitals: Vitals | None = None) -> Page:
    """The page of metrics."""
    answer = Exposition(WorkerCollector(counters, lambda: vitals)).answer("")
    return Page(answer.status, answer.body.decode(), {})


def vitals_of(lease: Lease) -> Vitals:
    """The state of a worker that does nothing."""
    return Vitals(
        identity=Identity(Registry([nothing]), 0.0, ()),
        lease=lease,
        concurrency=10,
        running=lambda: 0,
        stuck=lambda: 0,
        is_stopping=lambda: False,
        blocking=lambda: None,
    )


def event_of(kind: type[JobEvent], task_name: str, **fields: float) -> JobEvent:
    """An event of a job that was due at `DUE_S`."""
    claim = Claim(1, 1, None, 1, 0, 25, 0, 0, 0, int(DUE_S * 1_000_000), 0, 0, None, None, "{}", None, None)
    return kind(claim=claim, task=task_name, attempt=1, worker_id=1, **fields)


def test_names_types_and_labels_are_those_of_the_guide() -> None:
    """They are a contract: dashboards and alerts of users rely on them."""
    counters, lease = Counters(), Lease(30.0)
    lease.clocked(MOMENTS_BEGIN_S + DUE_S, now_s())
    counters.follow(lease)
    for kind in counters.wants:
        counters(sample(kind))

    assert documented("asyncq_", without="asyncq_store_") == exported(page_of(counters, vitals_of(lease)).text)


def test_each_outcome_is_in_the_guide() -> None:
    """The same, for the values of a label."""
    (row,) = [line for line in GUIDE.read_text().splitlines() if line.startswith("| `asyncq_jobs_total` |")]

    assert set(OUTCOMES.values()) == set(re.findall(r"`(\w+)`", row.rpartition("` | ")[2]))


def test_tasks_beyond_the_first_200_share_one_label() -> None:
    """A program that makes up names of tasks must not fill the memory of Prometheus; the sum is right."""
    counters = Counters()
    for number in range(MOST_TASKS + 50):
        counters(event_of(JobCompleted, f"t{number}", duration_s=0.2))
        counters(event_of(JobCompleted, "t0", duration_s=0.2))
    found = {
        dict(labels)["task"]: value
        for (name, labels), value in page_of(counters).samples.items()
        if name == "asyncq_jobs_total"
    }

    assert (MOST_TASKS + 1, 50, MOST_TASKS + 51) == (len(found), found["other"], found["t0"])


def test_a_wait_is_measured_by_the_servers_clock() -> None:
    """The clock of the worker's machine may be wrong by minutes."""
    counters, lease = Counters(), Lease(30.0)
    counters.follow(lease)
    counters(event_of(JobStarted, "early"))
    lease.clocked(MOMENTS_BEGIN_S + DUE_S + 40, now_s())
    counters(event_of(JobStarted, "t"))
    lease.clocked(MOMENTS_BEGIN_S + DUE_S - 40, now_s())
    counters(event_of(JobStarted, "t"))
    page = page_of(counters)

    assert [None, 1, 1, 2] == [
        page.value("asyncq_job_wait_seconds_count", task="early"),
        page.value("asyncq_job_wait_seconds_bucket", task="t", le="0.001"),
        page.value("asyncq_job_wait_seconds_bucket", task="t", le="30.0"),
        page.value("asyncq_job_wait_seconds_bucket", task="t", le="60.0"),
    ]


def test_names_are_written_so_that_any_of_them_can_be_read_back() -> None:
    """Names of tasks come from programs, and of recurring items from the database."""
    name = 'a"b\\c\n{}=,<script>'
    counters = Counters()
    counters(event_of(JobCompleted, name, duration_s=0.2))

    assert 1 == page_of(counters).value("asyncq_jobs_total", task=name, outcome="completed")


WEB = ("http.server", "socketserver", "prometheus_client", "asyncq.engine.probes.probes", "asyncq.engine.probes.server")


def test_an_import_of_asyncq_loads_nothing_of_it() -> None:
    """Programs that add jobs pay for no server."""
    program = f"import asyncq, sys; print([name for name in {WEB!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert ("[]\n", 0) == (done.stdout, done.returncode), done.stderr
