"""Counts the events of one worker: an observer, which keeps numbers and no job.

The event loop writes them, and the thread of the probes reads them, without a lock: each read is one step of the
interpreter, and a number that is one event old does no harm.
"""

from bisect import bisect_left
from collections import defaultdict

import msgspec

from asyncq.domain.events import (
    CronAdded,
    CronBackfilled,
    Event,
    JobCancelled,
    JobCompleted,
    JobDiscarded,
    JobEvent,
    JobExpired,
    JobInterrupted,
    JobLost,
    JobRetried,
    JobsFetched,
    JobSnoozed,
    JobsRescued,
    JobStarted,
    ListenConnected,
    ListenLost,
    LoopBlocked,
    SettleFailed,
    TransactionAborted,
    WorkerStarted,
)
from asyncq.domain.moment import MOMENTS_BEGIN_S
from asyncq.engine.base.lease import Lease

MOST_TASKS = 200
OTHER = "other"  # all tasks beyond these
BOUNDS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
OUTCOMES: dict[type[JobEvent], str] = {
    JobCompleted: "completed",
    JobRetried: "retried",
    JobDiscarded: "discarded",
    JobCancelled: "cancelled",
    JobSnoozed: "snoozed",
    JobExpired: "expired",
    JobInterrupted: "interrupted",
    TransactionAborted: "aborted",
    JobLost: "lost",
}
TIMED = (JobCompleted, JobRetried, JobDiscarded, JobCancelled)  # a union would be made anew for each job


class Histogram:
    """How many values lie in each bucket, and their sum; the last bucket is for values above all bounds."""

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0

    def observe(self, value_s: float) -> None:
        self.buckets[bisect_left(BOUNDS_S, value_s)] += 1
        self.sum_s += value_s


class TaskCounts:
    """The numbers of one task: ends of runs by outcome, durations, and how long due jobs waited for their start."""

    def __init__(self) -> None:
        self.outcomes: defaultdict[str, int] = defaultdict(int)
        self.took = Histogram()
        self.waited = Histogram()


class Released(msgspec.Struct, frozen=True):
    """The releases at work: schema and server as `WorkerStarted` names them."""

    schema: str
    postgres: str


class Counters:
    """The numbers of one worker since its start; an observer."""

    wants = (
        JobStarted,
        *OUTCOMES,
        CronAdded,
        CronBackfilled,
        JobsFetched,
        JobsRescued,
        ListenConnected,
        ListenLost,
        LoopBlocked,
        SettleFailed,
        WorkerStarted,
    )

    def __init__(self) -> None:
        self.tasks: dict[str, TaskCounts] = {}
        self.fetched = self.settle_failures = self.rescued = 0
        self.fetch_took = Histogram()
        self.cron_added: defaultdict[str, int] = defaultdict(int)
        self.blocked_s = 0.0
        self.listens = False
        self.released: Released | None = None
        self._lease: Lease | None = None

    def follow(self, lease: Lease) -> None:
        """Read the server's clock, by which jobs are due, from the lease of the worker."""
        self._lease = lease

    def __call__(self, event: Event, /) -> None:
        match event:
            case JobStarted():
                self._started(event)
            case JobEvent():
                self._ended(event)
            case JobsFetched():
                self.fetched += event.count
                self.fetch_took.observe(event.duration_s)
            case CronAdded() | CronBackfilled():
                for item in event.items:
                    self.cron_added[item] += 1
            case JobsRescued():
                self.rescued += len(event.job_ids)
            case SettleFailed():
                self.settle_failures += 1
            case LoopBlocked():
                self.blocked_s += event.blocked_s
            case ListenConnected() | ListenLost():
                self.listens = isinstance(event, ListenConnected)
            case WorkerStarted():
                self.released = Released(event.schema, event.server)
            case _:
                raise TypeError(f"no counter for {type(event).__name__}")

    def _of(self, task: str) -> TaskCounts:
        found = self.tasks.get(task)
        if found is None:
            name = task if len(self.tasks) < MOST_TASKS else OTHER
            found = self.tasks.setdefault(name, TaskCounts())
        return found

    def _started(self, event: JobStarted) -> None:
        clock_s = None if self._lease is None else self._lease.server_clock_s
        if clock_s is not None:
            due_s = MOMENTS_BEGIN_S + event.claim.due / 1_000_000
            self._of(event.task).waited.observe(max(clock_s - due_s, 0.0))

    def _ended(self, event: JobEvent) -> None:
        counts = self._of(event.task)
        counts.outcomes[OUTCOMES[type(event)]] += 1
        if isinstance(event, TIMED):
            counts.took.observe(event.duration_s)
