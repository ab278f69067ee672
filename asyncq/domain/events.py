"""One frozen struct for each type of event, and the protocol of observers; `log` writes the sentences."""

import inspect
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

import msgspec

from asyncq.domain.errors import ConfigurationError
from asyncq.domain.job import Claim
from asyncq.domain.signature import call_of


class Event(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The base of all events."""

    @property
    def exception(self) -> BaseException | None:
        """The exception that the event reports, while observers are called; None afterwards and in copies.

        It is not a field: events can be stored, compared, encoded and sent to other processes. A stored event keeps no
        frame of a handler alive.
        """
        return vars(self).get("exception")


@contextmanager
def carrying(event: Event, exception: BaseException | None) -> Generator[None]:
    """Attach an exception to an event until the block ends."""
    vars(event)["exception"] = exception
    try:
        yield
    finally:
        vars(event).pop("exception", None)


# The life of a worker


class WorkerStarted(Event, frozen=True, kw_only=True):
    """The worker is registered, listens and takes jobs."""

    worker_id: int
    schema: str
    tasks: tuple[str, ...]
    concurrency: int
    poll_s: float
    lease_s: float
    grace_s: float
    connections: int
    pool_size: int
    server: str
    loop: str


class WorkerStopping(Event, frozen=True, kw_only=True):
    """The worker fetches no more jobs; running ones may finish within the grace period."""

    worker_id: int
    reason: str
    running: int
    grace_s: float
    held_back: dict[str, int] = {}  # of each task, in run_once: due jobs that may not start; to 1,000


class WorkerStopped(Event, frozen=True, kw_only=True):
    """The worker has ended; its claims are settled or returned."""

    worker_id: int
    completed: int
    failed: int
    returned: int
    stuck: int


class GraceExceeded(Event, frozen=True, kw_only=True):
    """Handlers still ran when the grace period ended; they are cancelled."""

    worker_id: int
    job_ids: tuple[int, ...]


class WorkerCrashed(Event, frozen=True, kw_only=True):
    """A part of the worker failed: the worker ends, and others take over its jobs after the lease."""

    worker_id: int
    error: str


class WorkerLost(Event, frozen=True, kw_only=True):
    """Others declared this worker dead; it cancels its jobs and registers with a new id."""

    worker_id: int
    running: int


class LeaseInDoubt(Event, frozen=True, kw_only=True):
    """This worker could not prove in time that it lives; it cancels its jobs, because others may take over."""

    worker_id: int
    running: int
    reason: str
    silent_s: float
    lease_s: float


class HeartbeatFailed(Event, frozen=True, kw_only=True):
    """A heartbeat could not be written; it is tried again."""

    worker_id: int
    error: str
    silent_s: float
    lease_s: float
    failures: int = 1


class PartRecovered(Event, frozen=True, kw_only=True):
    """A part of the worker works again; with the number of failures in a row and their duration."""

    part: str
    failures: int
    lasted_s: float


class LoopBlocked(Event, frozen=True, kw_only=True):
    """The event loop answers again, after a handler or other code had blocked it; with the place of that code."""

    worker_id: int
    blocked_s: float
    job_id: int | None
    task: str | None
    stack: str


class TooManyStuck(Event, frozen=True, kw_only=True):
    """The number of stuck handlers has reached the concurrency: the worker fetches nothing until one of them ends."""

    worker_id: int
    job_ids: tuple[int, ...]


class JobsRescued(Event, frozen=True, kw_only=True):
    """This worker returned jobs of dead workers. Each lost an attempt, except jobs that may never have begun."""

    worker_ids: tuple[int, ...]
    job_ids: tuple[int, ...]
    discarded_job_ids: tuple[int, ...]
    spared_job_ids: tuple[int, ...]


class TransactionsEnded(Event, frozen=True, kw_only=True):
    """Transactions were ended because they held jobs of long silent workers; others can run these jobs now."""

    worker_ids: tuple[int, ...]
    job_ids: tuple[int, ...]


class JobsPruned(Event, frozen=True, kw_only=True):
    """Old data was removed: discarded jobs, ended ones, requests, key locks, failed attempts, steps."""

    discarded: int
    ended: int
    requests: int
    key_locks: int
    attempts: int
    steps: int = 0


class HistorySize(Event, frozen=True, kw_only=True):
    """Ended jobs are kept: once a day, how many (a million are counted at most), and how old the first one is."""

    jobs: int
    bytes: int
    oldest_s: float


class JobsExpired(Event, frozen=True, kw_only=True):
    """This worker ended waiting jobs that had expired, as cancelled; no fetch had claimed them."""

    job_ids: tuple[int, ...]


class JobsReleased(Event, frozen=True, kw_only=True):
    """This worker looked at jobs that waited for others: they may start now, or ended as cancelled."""

    released: tuple[int, ...]
    cancelled: tuple[int, ...]


class JobBlocked(Event, frozen=True, kw_only=True):
    """A job waits for one that was discarded: it stays pending until that one is retried, or somebody acts."""

    waiter: int
    failed: int


class InputsRefused(Event, frozen=True, kw_only=True):
    """A job takes the results of others, which are larger together than a payload may be: it was discarded."""

    waiter: int


class MaintenanceFailed(Event, frozen=True, kw_only=True):
    """A round of maintenance failed; the next round tries again."""

    error: str
    failures: int = 1


class TasksLeftBehind(Event, frozen=True, kw_only=True):
    """Handlers ended while asyncio tasks that they had started still ran; the stopping worker cancels these."""

    names: tuple[str, ...]


class ResourceFailed(Event, frozen=True, kw_only=True):
    """The lifespan or a resource failed after it was opened, or was not closed in time."""

    name: str
    error: str


class UnknownTasks(Event, frozen=True, kw_only=True):
    """Jobs wait for tasks that this worker does not know; emitted once for each name."""

    names: tuple[str, ...]


class PartitionCorrected(Event, frozen=True, kw_only=True):
    """A thorough round set right how many running jobs a limit or queue counts: a defect, or rows changed by hand."""

    limit: str | None
    key: str | None
    counted: int
    running: int


class LimitChanged(Event, frozen=True, kw_only=True):
    """A limit has the values that this worker declared, in place of those of an earlier worker, which is `was_by`."""

    limit: str
    before: str
    after: str
    by: str
    was_by: str


class PartitionBackedOff(Event, frozen=True, kw_only=True):
    """A handler asked that no job of a queue (its name is the key), or of a key of a limit, starts until a time."""

    limit: str | None
    key: str
    until: datetime
    job_id: int


class ProbesStarted(Event, frozen=True, kw_only=True):
    """The worker answers probes and scrapes of its metrics at this address."""

    address: str


# Connections and fetching


class ListenConnected(Event, frozen=True, kw_only=True):
    """The LISTEN connection works."""

    channel: str
    attempt: int


class ListenLost(Event, frozen=True, kw_only=True):
    """The LISTEN connection broke; the worker polls, and reconnects."""

    error: str
    retry_in_s: float
    failures: int = 1


class PollingOnly(Event, frozen=True, kw_only=True):
    """This worker polls: its DSN is a pooler and there is no listen_dsn, or the server refuses LISTEN."""

    reason: str


class LeaseOnly(Event, frozen=True, kw_only=True):
    """The server keeps no session lock for this worker; only its lease shows that it lives."""

    reason: str


class Paused(Event, frozen=True, kw_only=True):
    """A task, a queue, a limit, a key of a limit, or everything was paused; the worker returns unstarted jobs."""

    what: str
    name: str | None
    key: str | None
    by: str
    reason: str | None


class Resumed(Event, frozen=True, kw_only=True):
    """What was paused is resumed; the worker looks for jobs."""

    what: str
    name: str | None
    key: str | None
    by: str
    reason: str | None


class FetchFailed(Event, frozen=True, kw_only=True):
    """A fetch failed; it is tried again."""

    error: str
    retry_in_s: float
    failures: int = 1


class JobsFetched(Event, frozen=True, kw_only=True):
    """A fetch has claimed jobs. A direct hand-off emits no such event."""

    count: int
    wanted: int
    duration_s: float


class JobsReturned(Event, frozen=True, kw_only=True):
    """Claimed jobs that did not start were returned, without an attempt."""

    job_ids: tuple[int, ...]
    reason: str


class SettleFailed(Event, frozen=True, kw_only=True):
    """Settlements could not be written; they are kept and tried again."""

    count: int
    error: str
    retry_in_s: float
    failures: int = 1


class SettlementsAbandoned(Event, frozen=True, kw_only=True):
    """A stopping worker could not write settlements in time; these jobs run again after the lease."""

    job_ids: tuple[int, ...]


class ObserverFailed(Event, frozen=True, kw_only=True):
    """An observer raised; the other observers received the event, and they receive this one."""

    observer: str
    event: str
    error: str


# Recurring jobs


class CronStarted(Event, frozen=True, kw_only=True):
    """The recurring items are known, at the start or after an outage: from now on their slots become jobs."""

    items: tuple[str, ...]


class CronBackfilled(Event, frozen=True, kw_only=True):
    """This worker added the jobs of slots that were missed because no worker ran; emitted for each transaction."""

    items: tuple[str, ...]
    job_ids: tuple[int, ...]


class CronAdded(Event, frozen=True, kw_only=True):
    """This worker was the first to add the jobs of these slots; emitted for each transaction."""

    items: tuple[str, ...]
    job_ids: tuple[int, ...]


class CronItemFailed(Event, frozen=True, kw_only=True):
    """The slots of one item did not become jobs: its function raised, or the database refused. It is tried again."""

    item: str
    error: str
    retry_in_s: float


class CronItemsChanged(Event, frozen=True, kw_only=True):
    """Stored recurring items were added, changed or removed; from now on the stored form is scheduled."""

    items: tuple[str, ...]
    gone: tuple[str, ...]


class CronItemRefused(Event, frozen=True, kw_only=True):
    """A stored recurring item cannot be scheduled: its expression is wrong, or its task refuses the payload."""

    item: str
    error: str


class CronItemShadowed(Event, frozen=True, kw_only=True):
    """A stored recurring item has the identifier of an item in this worker's crontab, and is not run meanwhile."""

    item: str


class CronFailed(Event, frozen=True, kw_only=True):
    """No slots become jobs, because the database cannot be used. It is tried again, and no slot is lost."""

    error: str
    retry_in_s: float
    failures: int = 1


class CronClockJumped(Event, frozen=True, kw_only=True):
    """The clock jumped: it was read a minute or more too late, or went back, which is a negative number."""

    by_s: float


class UnknownCronTasks(Event, frozen=True, kw_only=True):
    """Recurring items name tasks that this worker does not know; it adds their jobs and does not run them."""

    names: tuple[str, ...]


# Events of jobs are built only if an observer wants their type.


class JobEvent(Event, frozen=True, kw_only=True):
    """The base of events of one job."""

    claim: Claim
    task: str
    attempt: int
    worker_id: int

    @property
    def job_id(self) -> int:
        """The job's id."""
        return self.claim.id


class JobStarted(JobEvent, frozen=True, kw_only=True):
    """A handler is about to be called."""


class JobCompleted(JobEvent, frozen=True, kw_only=True):
    """A handler returned; its end is committed."""

    duration_s: float


class JobTimedOut(JobEvent, frozen=True, kw_only=True):
    """The hard time limit cancelled the handler; this is committed; JobRetried or JobDiscarded follows."""

    duration_s: float
    timeout_s: float


class ItemsFailed(JobEvent, frozen=True, kw_only=True):
    """Some items of a job failed, the others did not; this is committed; JobRetried or the like follows."""

    failed: int
    total: int


class JobRetried(JobEvent, frozen=True, kw_only=True):
    """An attempt failed; this is committed, and the job waits for its retry."""

    duration_s: float
    error: str
    delay_s: float


class JobDiscarded(JobEvent, frozen=True, kw_only=True):
    """The job was discarded; this is committed."""

    duration_s: float
    error: str


class JobSnoozed(JobEvent, frozen=True, kw_only=True):
    """The handler asked for a later run; this is committed."""

    delay_s: float


class JobCancelled(JobEvent, frozen=True, kw_only=True):
    """The job was cancelled while it ran here, and its run has ended, with this error or none; this is committed."""

    duration_s: float
    error: str


class JobExpired(JobEvent, frozen=True, kw_only=True):
    """The job had expired before its first run could start here; it has ended as cancelled; this is committed."""


class JobInterrupted(JobEvent, frozen=True, kw_only=True):
    """A shutdown cancelled the handler; the job is due again; this is committed."""


class TransactionAborted(JobEvent, frozen=True, kw_only=True):
    """A transaction could not begin, or was rolled back through no fault of the handler; the job is due again soon."""

    error: str
    delay_s: float


class JobLost(JobEvent, frozen=True, kw_only=True):
    """The claim no longer belonged to this worker: the result was refused, or may not have been written."""


class HandlerStuck(JobEvent, frozen=True, kw_only=True):
    """A handler still runs, some seconds after it was cancelled; with its stack."""

    stuck_s: float
    stack: str


class CommitUncertain(JobEvent, frozen=True, kw_only=True):
    """A run ended without knowledge whether its transaction was committed; the server is asked until it answers."""

    error: str


class TransactionOpen(JobEvent, frozen=True, kw_only=True):
    """A run has kept its transaction open for this time, and so hinders vacuum; emitted again at each doubling."""

    open_s: float


class ErrorIgnored(JobEvent, frozen=True, kw_only=True):
    """A handler raised after its own transaction had completed the job; the job stays completed."""

    error: str


class JobsCollected(Event, frozen=True, kw_only=True):
    """Jobs were collected for one call of their handler, which is about to start; the first one waited so long."""

    task: str
    job_ids: tuple[int, ...]
    waited_s: float


class ResultIgnored(JobEvent, frozen=True, kw_only=True):
    """A handler returned a value that is neither awaited nor kept; emitted once for each task."""

    type_name: str


class ResultRefused(JobEvent, frozen=True, kw_only=True):
    """A result cannot be stored: it cannot be written as JSON, or is too large. The job completes without one."""

    error: str


class StepDone(JobEvent, frozen=True, kw_only=True):
    """A step of a handler was called, and is stored; not emitted when a later run gets its result."""

    name: str
    duration_s: float


@runtime_checkable
class Observer(Protocol):
    """An element of `Worker(observers=[...])`: a callable with the types of events that it wants."""

    @property
    def wants(self) -> Collection[type[Event]]:
        """The types of events to receive; a base class includes all its subclasses."""
        ...

    def __call__(self, event: Any, /) -> None:
        """Receive one event. It is called in the event loop and must not block. An exception of it is logged."""
        ...


def observer(*wants: type[Event]) -> Callable[[Callable[[Any], None]], Observer]:
    """Make a function an observer.

    Args:
        *wants: The types of events to receive; all types if none is given.

    Returns:
        A decorator.

    Raises:
        ConfigurationError: One of them is not a type of event. The decorator raises it for a function that cannot
            receive events.
    """
    _check_wants(wants)

    def decorate(function: Callable[[Any], None]) -> Observer:
        _check_call(function)
        return _FunctionObserver(function, wants or (Event,))

    return decorate


def as_observer(given: Any) -> Observer:
    """Make an observer of a function, which receives all events, or of an object with `wants`, or refuse it."""
    if not isinstance(given, Observer):
        return observer()(given)
    _check_call(given)
    try:
        wants = tuple(given.wants)
    except TypeError as error:
        raise ConfigurationError(f"wants of {given!r} must be types of events, got {given.wants!r}") from error
    _check_wants(wants)
    return given


def _check_wants(wants: tuple[Any, ...]) -> None:
    for kind in wants:
        if not (inspect.isclass(kind) and issubclass(kind, Event)):
            raise ConfigurationError(f"observer takes types of events, got {kind!r}; for all events write @observer()")


def _check_call(given: Any) -> None:
    if not callable(given) or inspect.isclass(given):
        raise ConfigurationError(f"an observer is a function, or a callable object, got {given!r}")
    call = call_of(given)
    if inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call) or inspect.isgeneratorfunction(call):
        raise ConfigurationError(
            f"the observer {given!r} is async, or a generator: it would not run; "
            "an observer is a plain function, which may put the event into a queue for another task"
        )


class _FunctionObserver:
    def __init__(self, function: Callable[[Any], None], wants: Collection[type[Event]]) -> None:
        self.function = function
        self.wants = wants

    def __call__(self, event: Any, /) -> None:
        self.function(event)

    def __repr__(self) -> str:
        return getattr(self.function, "__qualname__", repr(self.function))
