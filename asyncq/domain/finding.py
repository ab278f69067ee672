"""Filters of jobs, and what the functions for many jobs and the numbers of now return."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from asyncq.domain.errors import InvalidJob
from asyncq.domain.hints import hint
from asyncq.domain.job import Job, check_instant, check_is_text, check_number, check_storable
from asyncq.domain.states import JobState

BIGINT = 2**63 - 1
MOST_FOUND = 1000
MOST_ROWS = 1_000_000
MOST_COUNTED = 10_001

ChangeAction = Literal["cancel", "complete", "discard", "remove", "reschedule", "retry"]
ACTIONS: tuple[ChangeAction, ...] = ("cancel", "complete", "discard", "remove", "reschedule", "retry")
NOT_ENDED = (
    JobState.SCHEDULED,
    JobState.AVAILABLE,
    JobState.ACTIVE,
    JobState.RETRYABLE,
    JobState.PENDING,
    JobState.CANCELLED,
    JobState.DISCARDED,
)


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs are wanted: those that have all of what is given.

    Attributes:
        state: Their state.
        task: The name of their task.
        queue: The name of their queue.
        flag: A flag that they have.
        key: Their job key.
        has: A JSON value that their payload contains, such as `{"user": 7}`, by the rules of `@>` of PostgreSQL.
            Payloads that a codec has encoded contain nothing.
        error: A text in their last error, whatever the case of ASCII letters.
        due_before: They are due before this time, which has a time zone.
        added_after: They were added at this time or later, which has a time zone.
    """

    state: JobState | str | None = None
    task: str | None = None
    queue: str | None = None
    flag: str | None = None
    key: str | None = None
    has: Any = None
    error: str | None = None
    due_before: datetime | None = None
    added_after: datetime | None = None

    @property
    def given(self) -> dict[str, Any]:
        """Its members that are given."""
        members = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in members.items() if value is not None}

    def text(self) -> str:
        """Write the filter as JSON, as the functions of the store take it.

        Returns:
            The JSON.

        Raises:
            InvalidJob: A member is not valid.
        """
        given = self.given
        for name, value in given.items():
            if name in ("due_before", "added_after"):
                check_instant(value, name)
            elif name != "has":
                check_is_text(name, value)
                check_storable(name, value)
        if (state := given.get("state")) is not None and state not in NOT_ENDED:
            near = hint(state, NOT_ENDED)
            said = f"state {str(state)!r} is none of a job that has not ended, expected one of {', '.join(NOT_ENDED)}"
            raise InvalidJob(said + near, code="22023", field="state")
        try:
            return msgspec.json.encode(given).decode()
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidJob(f"has is no JSON value: {error}", code="22023", field="has") from error


class JobPage(msgspec.Struct, frozen=True):
    """A page of jobs.

    Attributes:
        jobs: The jobs; perhaps none, although there are more.
        next: The id behind which the next page begins; None if this is the last page.
    """

    jobs: list[Job]
    next: int | None


class Matching(msgspec.Struct, frozen=True):
    """How many jobs match a filter.

    Attributes:
        jobs: Their number; 10,001 if they are more than 10,000.
        states: Their numbers by state.
        up_to: The greatest id that had been given to a job; `change_matching` with it leaves later jobs alone.
    """

    jobs: int
    states: dict[str, int]
    up_to: int


class ChangedJobs(msgspec.Struct, frozen=True):
    """The jobs that one step has changed.

    Attributes:
        ids: Their ids, in order.
        next: The id behind which the next step begins; None after the last one.
    """

    ids: list[int]
    next: int | None


class FailureGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Discarded jobs of one task with the same first line of the last error.

    Attributes:
        task: The name of their task.
        first_line: The first line of their last error, at most 500 characters of it; None if they have none.
        jobs: How many they are, of the newest discarded jobs.
        newest: When the last one of them was discarded.
        job_id: The id of that job.
    """

    task: str
    first_line: str | None
    jobs: int
    newest: datetime
    job_id: int


class FailedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A discarded job.

    Attributes:
        id: Its id.
        task: The name of its task.
        queue: Its queue; None without one.
        failed_at: When it was discarded.
        attempts: The attempts that it made.
        max_attempts: The attempts that it had in all.
        first_line: The first line of its last error, at most 500 characters of it; None if it has none.
    """

    id: int
    task: str
    queue: str | None
    failed_at: datetime
    attempts: int
    max_attempts: int
    first_line: str | None


class Depth(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs of a task, or of a queue, there are.

    Attributes:
        task: The name of the task; None for a queue.
        queue: The name of the queue; None for a task.
        due: Its due jobs.
        waiting: Those that wait for their time, their retry or other jobs.
        running: Those that run.
        failed: Discarded ones.
        is_exact: Whether all jobs were counted; else the numbers are estimates, but for those that run.
    """

    task: str | None
    queue: str | None
    due: int
    waiting: int
    running: int
    failed: int
    is_exact: bool


class RunningJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a worker has claimed.

    Attributes:
        id: Its id.
        task: The name of its task.
        queue: Its queue; None without one.
        worker_id: The id of its worker.
        host: The machine of that worker; None if the worker has no row any more.
        claimed_at: When it was claimed.
        running_s: The seconds since then.
        attempt: The number of this attempt.
        max_attempts: The attempts that it has in all.
        is_named: Whether its worker said at its last heartbeat that it has started.
        is_cancelled: Whether it was cancelled, and its handler still runs.
    """

    id: int
    task: str
    queue: str | None
    worker_id: int
    host: str | None
    claimed_at: datetime
    running_s: float
    attempt: int
    max_attempts: int
    is_named: bool
    is_cancelled: bool


class TaskStats(msgspec.Struct, frozen=True, kw_only=True):
    """How runs ended in one step of time, of a task or of all.

    Attributes:
        at: The begin of the step.
        task: The name of the task; None for all as one.
        completed: Runs that ended well.
        retried: Failed runs whose jobs are retried.
        discarded: Failed runs whose jobs are discarded.
        cancelled: Cancelled runs.
        snoozed: Runs that asked to run again later.
        took_s: The sum of the times of the runs that were timed, of a batch at most 8.
        waited_s: The sum of the times between being due and the start of these runs.
        took: How many of them took below 1, 2, 4, .. 2^18 milliseconds, and the rest.
        waited: How many of them waited so long.
    """

    at: datetime
    task: str | None
    completed: int
    retried: int
    discarded: int
    cancelled: int
    snoozed: int
    took_s: float
    waited_s: float
    took: tuple[int, ...]
    waited: tuple[int, ...]


def quantile(buckets: Sequence[int], part: float) -> float | None:
    """The quantile of a histogram of `TaskStats`, in seconds, within a factor of 2; None if no run was timed."""
    wanted, until = sum(buckets) * part, 0
    for place, runs in enumerate(buckets):
        until += runs
        if runs and until >= wanted:
            return 2**place / 1000
    return None


class Depths(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs there were in one step of time, on average.

    Attributes:
        at: The begin of the step.
        scheduled: Jobs that waited for their time.
        available: Due jobs.
        active: Running jobs.
        retryable: Jobs that waited for their retry.
        discarded: Discarded jobs.
        oldest_s: How many seconds the oldest due job had waited at most; None if none was due.
        workers: Live workers.
        slots: How many jobs these can run at once.
        busy: How many jobs they ran.
    """

    at: datetime
    scheduled: int
    available: int
    active: int
    retryable: int
    discarded: int
    oldest_s: float | None
    workers: float
    slots: float
    busy: float


def check_found(limit: Any, start: Any, look: Any) -> None:
    """Raise InvalidJob for a page of jobs that is not valid; `start` may be None."""
    check_number("limit", limit, 1, MOST_FOUND, "22023")
    check_number("look", look, 1, MOST_ROWS, "22023")
    if start is not None:
        check_number("start", start, -BIGINT, BIGINT, "22023")


def check_action(action: Any, up_to: Any) -> None:
    """Raise InvalidJob unless the action is one of `change_matching`, and the last id is an id."""
    if action not in ACTIONS:
        near = hint(action, ACTIONS) if isinstance(action, str) else ""
        raise InvalidJob(
            f"action {action!r} is unknown, expected one of {', '.join(ACTIONS)}{near}", code="22023", field="action"
        )
    check_number("up_to", up_to, -BIGINT, BIGINT, "22023")


def check_series(since: Any, step: Any) -> None:
    """Raise InvalidJob unless a series begins at a time with a zone, in steps of 1 second to 30 days."""
    if since is not None:
        check_instant(since, "since")
    if not isinstance(step, timedelta) or not timedelta(seconds=1) <= step <= timedelta(days=30):
        raise InvalidJob(f"step must be a timedelta of 1 second to 30 days, got {step!r}", code="22023", field="step")
