"""One frozen struct for each type of event, and the protocol of observers; `log` writes the sentences."""

import inspect
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
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

        It is no field: events can be stored, compared, encoded and sent to other processes, and a stored event keeps
        no frame of a handler alive.
        """
        return vars(self).get("exception")


@contextmanager
def carrying(event: Event, exception: BaseException | None) -> Generator[None]:
    """Let an event carry an exception for as long as the block lasts."""
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
    """The worker takes no more jobs; what runs may finish within the grace period."""

    worker_id: int
    reason: str
    running: int
    grace_s: float


class WorkerStopped(Event, frozen=True, kw_only=True):
    """The worker has ended; its claims are settled or returned."""

    worker_id: int
    completed: int
    failed: int
    returned: int
    stuck: int


class GraceExceeded(Event, frozen=True, kw_only=True):
    """Handlers still ran when the grace period ended, and are cancelled."""

    worker_id: int
    job_ids: tuple[int, ...]


class WorkerCrashed(Event, frozen=True, kw_only=True):
    """A part of the worker failed: it ends, and others take over its jobs after the lease."""

    worker_id: int
    error: str


class WorkerLost(Event, frozen=True, kw_only=True):
    """Others declared this worker dead; it cancels its jobs and registers anew."""

    worker_id: int
    running: int


class LeaseInDoubt(Event, frozen=True, kw_only=True):
    """This worker could not prove in time that it lives: it cancels its jobs, since others may take over."""

    worker_id: int
    running: int
    reason: str
    silent_s: float
    lease_s: float


class HeartbeatFailed(Event, frozen=True, kw_only=True):
    """A sign of life could not be written; it is tried again."""

    worker_id: int
    error: str
    silent_s: float
    lease_s: float
    failures: int = 1


class PartRecovered(Event, frozen=True, kw_only=True):
    """A part of the worker works again, after this number of failures in a row and this time."""

    part: str
    failures: int
    lasted_s: float


class LoopBlocked(Event, frozen=True, kw_only=True):
    """The event loop answers again, after a handler or other code had blocked it; with where that was found."""

    worker_id: int
    blocked_s: float
    job_id: int | None
    task: str | None
    stack: str


class TooManyStuck(Event, frozen=True, kw_only=True):
    """As many handlers are stuck as the worker runs at once: it fetches no more until one of them ends."""

    worker_id: int
    job_ids: tuple[int, ...]


class JobsRescued(Event, frozen=True, kw_only=True):
    """Jobs of dead workers were returned by this one; each lost an attempt, but for those that perhaps never began."""

    worker_ids: tuple[int, ...]
    job_ids: tuple[int, ...]
    discarded_job_ids: tuple[int, ...]
    spared_job_ids: tuple[int, ...]


class TransactionsEnded(Event, frozen=True, kw_only=True):
    """Transactions that held jobs of workers that were silent for long were ended, so that others can run these."""

    worker_ids: tuple[int, ...]
    job_ids: tuple[int, ...]


class JobsPruned(Event, frozen=True, kw_only=True):
    """Old data was removed: discarded jobs, ended ones, requests and key locks, so many of each."""

    discarded: int
    ended: int
    requests: int
    key_locks: int


class VacuumBlocked(Event, frozen=True, kw_only=True):
    """Looks for jobs are slow over dead rows, which the holders keep; told by one worker, at most every ten minutes."""

    worker_id: int
    holders: tuple[str, ...]
    sees_all: bool
    table: str
    dead_rows: int
    look_s: float
    usual_s: float


class MaintenanceFailed(Event, frozen=True, kw_only=True):
    """A round of maintenance failed; the next one tries again."""

    error: str
    failures: int = 1


class TasksLeftBehind(Event, frozen=True, kw_only=True):
    """Handlers ended while asyncio tasks that they had started still ran; the stopping worker cancels them."""

    names: tuple[str, ...]


class UnknownTasks(Event, frozen=True, kw_only=True):
    """Jobs wait for tasks that this worker does not know; told once for each name."""

    names: tuple[str, ...]


# Connections and fetching


class ListenConnected(Event, frozen=True, kw_only=True):
    """The LISTEN connection works."""

    channel: str
    attempt: int


class ListenLost(Event, frozen=True, kw_only=True):
    """The LISTEN connection broke; polling goes on, and it is opened again."""

    error: str
    retry_in_s: float
    failures: int = 1


class PollingOnly(Event, frozen=True, kw_only=True):
    """This worker polls: its DSN leads to a pooler and there is no listen_dsn, or the server refuses LISTEN."""

    reason: str


class LeaseOnly(Event, frozen=True, kw_only=True):
    """The server keeps no session lock for this worker: only its lease says whether it lives."""

    reason: str


class FetchFailed(Event, frozen=True, kw_only=True):
    """A fetch failed; it is tried again."""

    error: str
    retry_in_s: float
    failures: int = 1


class JobsFetched(Event, frozen=True, kw_only=True):
    """A fetch has claimed jobs; of one that an add claimed for this worker nothing is told before it starts."""

    count: int
    wanted: int
    duration_s: float


class JobsReturned(Event, frozen=True, kw_only=True):
    """Claimed jobs that were not started go back, with their attempts untouched."""

    job_ids: tuple[int, ...]
    reason: str


class SettleFailed(Event, frozen=True, kw_only=True):
    """Settlements could not be written; they are kept and tried again."""

    count: int
    error: str
    retry_in_s: float
    failures: int = 1


class SettlementsAbandoned(Event, frozen=True, kw_only=True):
    """A stopping worker could not write settlements in time; these jobs will run again after the lease."""

    job_ids: tuple[int, ...]


class ObserverFailed(Event, frozen=True, kw_only=True):
    """An observer raised; the others were told all the same, and are told of this."""

    observer: str
    event: str
    error: str


# Recurring jobs


class CronStarted(Event, frozen=True, kw_only=True):
    """The recurring items are known: from now on their slots become jobs; also after the database was away."""

    items: tuple[str, ...]


class CronBackfilled(Event, frozen=True, kw_only=True):
    """Slots at which no worker was there have become jobs, by this worker; told for each transaction."""

    items: tuple[str, ...]
    job_ids: tuple[int, ...]


class CronAdded(Event, frozen=True, kw_only=True):
    """Slots have become jobs, by this worker, the first to come; told for each transaction."""

    items: tuple[str, ...]
    job_ids: tuple[int, ...]


class CronItemFailed(Event, frozen=True, kw_only=True):
    """The slots of one item did not become jobs: its function raised, or the database refused; it is tried again."""

    item: str
    error: str
    retry_in_s: float


class CronItemsChanged(Event, frozen=True, kw_only=True):
    """Stored recurring items were added or changed, or are gone: from now on these are scheduled as they are stored."""

    items: tuple[str, ...]
    gone: tuple[str, ...]


class CronItemRefused(Event, frozen=True, kw_only=True):
    """A stored recurring item cannot be scheduled: a bad expression, or a payload that its task refuses; others are."""

    item: str
    error: str


class CronItemShadowed(Event, frozen=True, kw_only=True):
    """A stored recurring item has the identifier of one of this worker's own crontab: nobody runs it meanwhile."""

    item: str


class CronFailed(Event, frozen=True, kw_only=True):
    """No slots can become jobs: the database cannot be used; it is tried again, and what was due is due still."""

    error: str
    retry_in_s: float
    failures: int = 1


class CronClockJumped(Event, frozen=True, kw_only=True):
    """The clock was looked at too late by a minute or more, or it went back: then it is by less than nothing."""

    by_s: float


class UnknownCronTasks(Event, frozen=True, kw_only=True):
    """Recurring items name tasks that this worker does not know; it adds their jobs, and leaves them alone."""

    names: tuple[str, ...]


# Jobs: built only if an observer asked for the type


class JobEvent(Event, frozen=True, kw_only=True):
    """The base of what happens to one job."""

    claim: Claim
    task: str
    attempt: int

    @property
    def job_id(self) -> int:
        """The job's id."""
        return self.claim.id


class JobStarted(JobEvent, frozen=True, kw_only=True):
    """A handler is about to be called."""


class JobCompleted(JobEvent, frozen=True, kw_only=True):
    """A handler returned, and that is committed."""

    duration_s: float


class JobRetried(JobEvent, frozen=True, kw_only=True):
    """An attempt failed, and that is committed; the job waits for its retry."""

    duration_s: float
    error: str
    delay_s: float


class JobDiscarded(JobEvent, frozen=True, kw_only=True):
    """The job is discarded, and that is committed."""

    duration_s: float
    error: str


class JobSnoozed(JobEvent, frozen=True, kw_only=True):
    """The handler asked to be run again later, and that is committed."""

    delay_s: float


class JobCancelled(JobEvent, frozen=True, kw_only=True):
    """The job was cancelled while it ran here, its run has ended with that error or none, and that is committed."""

    duration_s: float
    error: str


class JobInterrupted(JobEvent, frozen=True, kw_only=True):
    """A shutdown cancelled the handler; the job is due again, and that is committed."""


class TransactionAborted(JobEvent, frozen=True, kw_only=True):
    """A transaction could not be had, or was undone for no fault of the handler's; the job is due again soon."""

    error: str
    delay_s: float


class JobLost(JobEvent, frozen=True, kw_only=True):
    """The claim no longer belonged to this worker: the result was refused, or may not have been written."""


class HandlerStuck(JobEvent, frozen=True, kw_only=True):
    """A handler runs on although it was cancelled some seconds ago; with where it is."""

    stuck_s: float
    stack: str


class CommitUncertain(JobEvent, frozen=True, kw_only=True):
    """A run ended, and whether its transaction is committed is not known: the server is asked, until it has ended."""

    error: str


class TransactionOpen(JobEvent, frozen=True, kw_only=True):
    """A run has kept its transaction open for so long, and hinders vacuum by that; told again at each doubling."""

    open_s: float


class ErrorIgnored(JobEvent, frozen=True, kw_only=True):
    """A handler raised after its own transaction had completed the job: that stays as it is."""

    error: str


class ResultIgnored(JobEvent, frozen=True, kw_only=True):
    """A handler returned something; told once for each task."""

    type_name: str


@runtime_checkable
class Observer(Protocol):
    """What `Worker(observers=[...])` takes: a callable with the types that it wants."""

    @property
    def wants(self) -> Collection[type[Event]]:
        """The types of events to be told; a base class stands for all below it."""
        ...

    def __call__(self, event: Any, /) -> None:
        """Take one event. Called in the event loop: it must not block. What it raises is logged."""
        ...


def observer(*wants: type[Event]) -> Callable[[Callable[[Any], None]], Observer]:
    """Make a function an observer.

    Args:
        *wants: The types of events to be told; all when none is given.

    Returns:
        A decorator.

    Raises:
        ConfigurationError: One of them is no type of event; or, by the decorator, the function cannot be told anything.
    """
    _check_wants(wants)

    def decorate(function: Callable[[Any], None]) -> Observer:
        _check_call(function)
        return _FunctionObserver(function, wants or (Event,))

    return decorate


def as_observer(given: Any) -> Observer:
    """An observer, of what a worker was given as one.

    Args:
        given: A function, which is told everything, or an object with `wants`.

    Raises:
        ConfigurationError: It could not be told anything.
    """
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
        raise ConfigurationError(f"an observer is a function, or an object that can be called, got {given!r}")
    call = call_of(given)
    if inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call) or inspect.isgeneratorfunction(call):
        raise ConfigurationError(
            f"the observer {given!r} is async, or a generator: nothing of it would run; "
            "an observer is a plain function, which may put the event into a queue for a task of its own"
        )


class _FunctionObserver:
    def __init__(self, function: Callable[[Any], None], wants: Collection[type[Event]]) -> None:
        self.function = function
        self.wants = wants

    def __call__(self, event: Any, /) -> None:
        self.function(event)

    def __repr__(self) -> str:
        return getattr(self.function, "__qualname__", repr(self.function))
