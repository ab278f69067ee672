"""The results of administration: numbers of jobs by state, reasons why a job does not run, workers."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

import msgspec

from asyncq.domain.errors import InvalidJob
from asyncq.domain.hints import STATES, hint
from asyncq.domain.job import INT2, JobSpec, check, check_instant, check_is_text, check_number, check_storable
from asyncq.domain.moment import instant_text
from asyncq.domain.outcome import clean_error
from asyncq.domain.states import JobState

CLEANUP_TASKS = ("DELETE_PERMAFAILED_JOBS", "GC_JOB_QUEUES", "GC_TASK_IDENTIFIERS")
MOST_LISTED = 1000
ENDED_STATES = (JobState.COMPLETED, JobState.CANCELLED, JobState.DISCARDED)
BIGINT = 2**63 - 1


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """The number of jobs in each state that has rows.

    Attributes:
        scheduled: Jobs that wait for their time.
        available: Due jobs, whether or not a pause, a limit or another job of their queue holds them back.
        active: Running jobs.
        retryable: Jobs that wait for their retry.
        pending: Jobs that wait for other jobs.
        cancelled: Cancelled jobs whose handlers still run.
        discarded: Discarded jobs.
        paused: How many of the available jobs wait for the end of a pause; an estimate if `available` is one.
        estimated: The states whose numbers are estimates from a sample, because the table is large.
    """

    scheduled: int = 0
    available: int = 0
    active: int = 0
    retryable: int = 0
    pending: int = 0
    cancelled: int = 0
    discarded: int = 0
    paused: int = 0
    estimated: tuple[JobState, ...] = ()


class Reason(msgspec.Struct, frozen=True):
    """One reason why a job does not run, or `ready`.

    Attributes:
        reason: A word: `pending`, `blocked`, `expired`, `not_due`, `no_worker`, `unknown_task`, `forbidden_flag`,
            `not_chosen`, `queue_busy`, `queue_behind`, `partition_full`, `partition_behind`, `rate`, `backed_off`,
            `moving`, `paused`, `discarded`, `running`, `last_attempt`, `cancelled`, `ended`, `ready`.
        detail: A sentence for people: the job, the worker, the time.
    """

    reason: str
    detail: str


class Explanation(msgspec.Struct, frozen=True):
    """Why a job does not run.

    Attributes:
        job_id: The id of the job.
        runnable: Whether the next fetch of a live worker with a free slot takes it.
        reasons: All reasons why it does not run, the first one first.
    """

    job_id: int
    runnable: bool
    reasons: tuple[Reason, ...]


class Rights(msgspec.Struct, frozen=True, kw_only=True):
    """What the role of a client may do, and what its server is.

    Attributes:
        server: The version of the server.
        schema_version: The number of the newest migration.
        is_standby: Whether the server is a standby, where nothing can be changed.
        may_change: Whether the role may retry, cancel and remove jobs; False if its transactions are read-only.
        may_add: Whether it may add jobs; False if its transactions are read-only.
    """

    server: str
    schema_version: int
    is_standby: bool
    may_change: bool
    may_add: bool


class EndedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job of the history: one that has ended and is kept, or a discarded one. `Client.get_job` reads all of it.

    Attributes:
        id: Its id.
        task: The name of its task.
        queue: Its queue; None without one.
        state: `completed`, `cancelled` or `discarded`.
        priority: Its priority.
        attempts: The attempts that were made.
        max_attempts: The attempts that it had in all.
        run_at: When it was due.
        created_at: When it was added.
        started_at: The start of its last run; None if it never ran, or that is not known.
        ended_at: Its end.
        worker_id: The id of the worker that ran it last; None if none did, or that is not known.
        error: Its last error; None if it completed.
        keep_until: Until when it is kept; None for ever, and for a discarded job, which workers keep for their
            `discarded_retention`.
    """

    id: int
    task: str
    queue: str | None
    state: JobState
    priority: int
    attempts: int
    max_attempts: int
    run_at: datetime
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime
    worker_id: int | None
    error: str | None
    keep_until: datetime | None


WorkerState = Literal["live", "doubted", "dead", "unknown"]


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as other workers see it. A worker without a row has None in the fields that are unknown.

    Attributes:
        id: Its id, as in `locked_by` and in the log.
        host: The name of its machine.
        pid: The id of its process.
        state: `live`. `doubted`: its connection has ended, and it has one second to prove that it lives. `dead`: the
            next check by another worker returns its jobs. `unknown`: it has no row; its jobs are returned some minutes
            later.
        running: How many jobs it has claimed.
        concurrency: How many jobs it runs at once.
        started_at: When it registered.
        last_seen: When it last sent a heartbeat.
        silent_s: The seconds since then, by the server's clock.
        lease_s: After how many seconds without a heartbeat it is dead.
        locks: Whether the server notices its death at once. Behind a pooler it does not, and the lease decides.
        tasks: The names of its tasks.
        stuck: The ids of jobs that were cancelled some seconds ago, and whose handlers still run.
        queues: The queues and limits whose jobs it takes, as its option `queues` names them; None for all.
        exclude: The queues and limits whose jobs it does not take.
    """

    id: int
    host: str | None
    pid: int | None
    state: WorkerState
    running: int
    concurrency: int | None
    started_at: datetime | None
    last_seen: datetime | None
    silent_s: float | None
    lease_s: float | None
    locks: bool
    tasks: tuple[str, ...]
    stuck: tuple[int, ...]
    queues: tuple[str, ...] | None
    exclude: tuple[str, ...]


def checked_changes(
    run_at: datetime | None, priority: int | None, attempts: int | None, max_attempts: int | None
) -> dict[str, Any]:
    """Return the arguments of a reschedule that are not None, as the store takes them; checked as in SQL."""
    check(JobSpec(task="-", run_at=run_at, priority=priority, max_attempts=max_attempts))
    if attempts is not None:
        check_number("attempts", attempts, 0, INT2, "22003")
    when = run_at and instant_text(run_at)
    given = {"run_at": when, "priority": priority, "attempts": attempts, "max_attempts": max_attempts}
    return {name: value for name, value in given.items() if value is not None}


def job_ids(given: Any) -> list[int]:
    """Return the ids of jobs as a list; raises InvalidJob unless they are an iterable of int of at most 64 bits."""
    return _ids(given, int, "a list of the ids of jobs (int)")


def check_job_id(given: Any) -> None:
    """Raise InvalidJob unless the id of a job is an int of at most 64 bits."""
    if not isinstance(given, int) or isinstance(given, bool):
        raise InvalidJob(f"job_id must be an int, got {type(given).__name__}", code="22023", field="job_id")
    if not _fits(given):
        raise InvalidJob("job_id must be an int of 64 bits, got a larger one", code="22023", field="job_id")


def worker_ids(given: Any) -> list[str]:
    """Return the ids of workers as text; raises InvalidJob unless they are an iterable of storable int or str."""
    ids = [str(worker) for worker in _ids(given, int | str, "a list of the ids of workers (int or str)")]
    for worker in ids:
        check_storable("ids", worker)
    return ids


def _ids(given: Any, kind: Any, expected: str) -> list[Any]:
    # The message has the type, not the value: a job in it would bring its payload into the log.
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidJob(f"ids must be {expected}, got {type(given).__name__}", code="22023", field="ids")
    ids: list[Any] = list(given)  # pyright: ignore[reportUnknownArgumentType]
    for item in ids:
        if not isinstance(item, kind) or isinstance(item, bool):
            raise InvalidJob(f"ids must be {expected}, got {type(item).__name__} in it", code="22023", field="ids")
        if isinstance(item, int) and not _fits(item):
            raise InvalidJob(f"ids must be {expected}, got one of more than 64 bits in it", code="22023", field="ids")
    return ids


def _fits(number: int) -> bool:
    return -BIGINT - 1 <= number <= BIGINT


def storable_error(given: Any) -> str | None:
    """Check that an error for jobs is a str, and write it as `clean_error` does; None is the default text."""
    if given is None:
        return None
    check_is_text("error", given)
    return clean_error(given)


def check_wanted(**texts: Any) -> None:
    """Raise InvalidJob for a filter of a listing that is not a storable str; None is not checked."""
    for field, text in texts.items():
        if text is not None:
            check_is_text(field, text)
            check_storable(field, text)


def kept_tasks(given: Any) -> list[str] | None:
    """Return the names that a cleanup must keep; raises InvalidJob unless they are an iterable of storable str."""
    field = "task_identifiers_to_keep"
    if given is None:
        return None
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        said = f"{field} must be a list of the names of tasks (str), got {type(given).__name__}"
        raise InvalidJob(said, code="22023", field=field)
    names: list[Any] = list(given)  # pyright: ignore[reportUnknownArgumentType]
    for name in names:
        check_wanted(**{field: name})
    return names


def check_history(state: Any, since: Any, before: Any, limit: Any) -> None:
    """Check the arguments of a listing of the history; raises InvalidJob for the first one that is not valid."""
    if state is not None and state_of(state) not in ENDED_STATES:
        said = f"state {str(state)!r} is no end of a job, expected one of {', '.join(ENDED_STATES)}"
        raise InvalidJob(said, code="22023", field="state")
    if since is not None:
        check_instant(since, "since")
    if before is not None:
        check_number("before", before, 0, BIGINT, "22023")
    check_number("limit", limit, 1, MOST_LISTED, "22023")


def state_of(name: str) -> JobState:
    """The state with this name; raises InvalidJob if there is none."""
    if name not in tuple(JobState):
        near = hint(name, tuple(JobState), STATES) if isinstance(name, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance]
        said = f"state {name!r} is unknown, expected one of {', '.join(JobState)}{near}"
        raise InvalidJob(said, code="22023", field="state")
    return JobState(name)


def check_cleanup(tasks: tuple[Any, ...]) -> None:
    """Raise InvalidJob for a kind of data that cleanup does not know."""
    for task in tasks:
        if task not in CLEANUP_TASKS:
            said = f"cleanup knows no task {task!r}, expected one of {', '.join(CLEANUP_TASKS)}"
            raise InvalidJob(said, code="22023", field="tasks")
