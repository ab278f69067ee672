"""All errors of asyncq, one class for each decision that the caller has to make.

    AsyncqError
    ├── ConfigurationError      the program is wrong: correct the code or the options
    │   ├── TaskError           a handler cannot be served, or two tasks share a name
    │   ├── InvalidCrontab      recurring jobs that are not valid; lists every problem
    │   └── UnsupportedServer   the server is too old, or the database not UTF8
    ├── InvalidJob              bad input: correct the call
    │   └── UnknownTask         no task of this name was given to the client
    ├── DuplicateJob            another job prevents this one: nothing to correct
    ├── JobNotFound             no job has the id (any more)
    ├── JobFailedError          the awaited job was discarded: correct its cause, then retry it
    ├── JobCancelledError       the awaited job was cancelled
    ├── ResultUnavailable       the awaited job has ended, and its result is not stored
    ├── WaitTimeout             the awaited job has not ended in time: it goes on
    ├── ClaimLost               this run lost its job: roll back; it was cancelled or another worker has it
    ├── CronItemNotFound        no recurring item has the identifier
    ├── CronItemConflict        the identifier is stored already, or in a worker's crontab
    ├── StoreError              the database refused
    │   ├── StoreUnavailable    it cannot be reached, or the connection broke: try again later
    │   ├── AccessDenied        wrong password, missing role or privilege: correct the credentials
    │   ├── TransactionUnusable the caller's connection cannot write (aborted, read only, no transaction)
    │   └── SchemaError         the database and this release do not fit
    │       ├── SchemaMissing   run `asyncq migrate`
    │       └── SchemaTooNew    upgrade asyncq
    ├── PoolExhausted           every connection for handlers is taken
    ├── CodecFailed             the codec raised, or does not have the key: correct its keys
    ├── LifespanFailed          the program's own start or background work failed, and so the worker
    ├── RaisedInProcess         a handler in another process raised; only middleware and observers see it
    └── ProcessDied             the process of a handler died; as above

Handlers raise RetryAfter, Snooze and Discard to decide about their job; these are not errors of asyncq.
"""

import copyreg
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, cast

from asyncq.domain.states import JobState

CENTURY_S = 100 * 365.25 * 86400


class _Copied(Exception):
    """An exception that pickle and copy restore without `__init__`, whose parameters are not its `args`.

    Exceptions are sent between processes, and one that cannot be unpickled breaks a process pool.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__.copy()  # type: ignore[attr-defined]


class AsyncqError(_Copied):
    """The base of all errors that asyncq raises."""


class ConfigurationError(AsyncqError):
    """An option, or a combination of options, is not valid."""


class TaskError(ConfigurationError):
    """A handler has a signature that cannot be served, or two tasks share a name."""


@dataclass(frozen=True, slots=True)
class CrontabProblem:
    """One problem of a crontab.

    Attributes:
        said: The fault, and the expected form.
        field: The part with the fault: `match`, `payload`, or the name of an option of `CronItem`.
        item: The identifier of the item, if it was made in code, or could be read.
        line: The number of the line, from 1; None if there is no text.
        column: The character of the line, or of the expression if there is no line, from 1; None if it is not known.
    """

    said: str
    field: str = ""
    item: str | None = None
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        places = {"item": self.item, "line": self.line, "column": self.column}
        place = ", ".join(f"{name} {value!r}" for name, value in places.items() if value is not None)
        return f"{place}: {self.said}" if place else self.said


class InvalidCrontab(ConfigurationError):
    """Recurring jobs are not valid; none of them is scheduled.

    Attributes:
        problems: All problems, in the order of the text or of the items.
        source: The origin of the text, such as the path of the file; empty if it is not known.
    """

    def __init__(self, problems: Iterable[CrontabProblem], source: str = "") -> None:
        self.problems = tuple(problems)
        self.source = source
        what = source or "the crontab"
        if len(self.problems) == 1:
            super().__init__(f"{what} cannot be used: {self.problems[0]}")
        else:
            lines = "".join(f"\n  {problem}" for problem in self.problems)
            super().__init__(f"{what} has {len(self.problems)} problems:{lines}")


class UnsupportedServer(ConfigurationError):
    """The PostgreSQL server is too old for asyncq, or the encoding of the database is not UTF8."""


class InvalidJob(AsyncqError):
    """A job breaks a rule; nothing was added.

    Attributes:
        code: The SQLSTATE that the SQL functions raise for the same rule, such as `GWBID`.
        field: The argument that breaks the rule.
        limit: The limit, if the rule is a limit.
        length: The length, size or value of the argument, if the rule is a limit.
    """

    def __init__(
        self, message: str, *, code: str, field: str, limit: int | None = None, length: int | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.field = field
        self.limit = limit
        self.length = length


class UnknownTask(InvalidJob):
    """The client was not given a task of this name.

    Attributes:
        name: The name.
        nearest: The most similar known name; None if none is similar.
    """

    def __init__(self, name: str, nearest: str | None) -> None:
        hint = f"; did you mean {nearest!r}?" if nearest else ""
        super().__init__(f"no task is called {name!r}{hint}", code="GWBID", field="identifier")
        self.name = name
        self.nearest = nearest


class DuplicateJob(AsyncqError):
    """The unique policy of the job does not allow it beside another job; nothing was added.

    Attributes:
        existing_id: The id of the other job.
        existing_state: Its state.
    """

    def __init__(self, existing_id: int, existing_state: JobState) -> None:
        super().__init__(f"job {existing_id}, which is {existing_state}, prevents another one like it")
        self.existing_id = existing_id
        self.existing_state = existing_state


class JobNotFound(AsyncqError):
    """No job has this id, or it has completed and was removed.

    Attributes:
        job_id: The id.
    """

    def __init__(self, job_id: int) -> None:
        super().__init__(f"there is no job {job_id}: it never existed, or it ended and was removed")
        self.job_id = job_id


class JobFailedError(AsyncqError):
    """The awaited job was discarded: it has failed, and has no attempt left. Its exception is not made again.

    Attributes:
        job_id: The id of the job.
        task: The name of its task.
        attempts: The number of its attempts.
        error: Its last error, as text with the traceback.
    """

    def __init__(self, job_id: int, task: str, attempts: int, error: str) -> None:
        first = error.partition("\n")[0]
        super().__init__(
            f"job {job_id} ({task}) was discarded after {attempts} attempts: {first or 'without an error'}"
        )
        self.job_id = job_id
        self.task = task
        self.attempts = attempts
        self.error = error


class JobCancelledError(AsyncqError):
    """The awaited job was cancelled, or had expired.

    Attributes:
        job_id: The id of the job.
        task: The name of its task.
    """

    def __init__(self, job_id: int, task: str) -> None:
        super().__init__(f"job {job_id} ({task}) was cancelled")
        self.job_id = job_id
        self.task = task


class ResultUnavailable(AsyncqError):
    """The awaited job has ended, and its result is not stored or cannot be read.

    Attributes:
        job_id: The id of the job.
        reason: Why there is no result.
    """

    def __init__(self, job_id: int, reason: str) -> None:
        super().__init__(f"the result of job {job_id} is not available: {reason}")
        self.job_id = job_id
        self.reason = reason


class WaitTimeout(AsyncqError, TimeoutError):
    """The awaited job has not ended in time; it goes on.

    Attributes:
        job_id: The id of the job.
        timeout_s: The time of the wait.
    """

    def __init__(self, job_id: int, timeout_s: float) -> None:
        super().__init__(f"job {job_id} has not ended within {timeout_s:g} s; it goes on")
        self.job_id = job_id
        self.timeout_s = timeout_s

    def __reduce__(self) -> tuple[Any, ...]:
        # A TimeoutError takes its arguments in `__init__` only.
        return type(self), (self.job_id, self.timeout_s), self.__dict__.copy()


class ClaimLost(AsyncqError):
    """This run has lost its job: the job was cancelled, or taken over after the worker was declared dead.

    Do not catch it in the handler, so that the transaction is rolled back.

    Attributes:
        job_id: The job's id.
    """

    def __init__(self, job_id: int) -> None:
        super().__init__(
            f"this run does not hold job {job_id} any more: it was cancelled, or taken over by another worker; "
            "roll back the work for it"
        )
        self.job_id = job_id


class CronItemNotFound(AsyncqError):
    """No recurring item has this identifier."""


class CronItemConflict(AsyncqError):
    """A recurring item cannot be stored, changed or removed, because of another item with its identifier.

    Attributes:
        source: `"stored"`: it is stored already. `"static"`: it is in the crontab of a worker; change it there.
    """

    def __init__(self, message: str, source: Literal["stored", "static"]) -> None:
        super().__init__(message)
        self.source: Literal["stored", "static"] = source


class StoreError(AsyncqError):
    """The database refused, for a reason without a class below.

    Attributes:
        sqlstate: The server's code; None if the error is not from the server.
    """

    def __init__(self, message: str, *, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class StoreUnavailable(StoreError):
    """The database cannot be reached, or the connection broke.

    Attributes:
        outcome: `"not_sent"`: the call certainly changed nothing. `"unknown"`: it may have been committed.
    """

    def __init__(
        self, message: str, *, outcome: Literal["not_sent", "unknown"] = "not_sent", sqlstate: str | None = None
    ) -> None:
        super().__init__(message, sqlstate=sqlstate)
        self.outcome: Literal["not_sent", "unknown"] = outcome


class AccessDenied(StoreError):
    """A wrong password, an unknown role or database, or a missing privilege."""


class TransactionUnusable(StoreError):
    """The caller's connection cannot write: no transaction, a failed one, or a read only one."""


class SchemaError(StoreError):
    """The database's schema and this release do not fit."""


class SchemaMissing(SchemaError):
    """The schema is not installed, or older than this release needs."""


class SchemaTooNew(SchemaError):
    """The database holds a breaking migration that this release does not know."""


class PoolExhausted(AsyncqError):
    """A handler waited too long for a connection: other handlers use all of them."""


class CodecFailed(AsyncqError):
    """The codec cannot encode or decode a payload; its error is the cause."""


class LifespanFailed(AsyncqError):
    """The lifespan of a worker failed at its start, or ended while the worker ran; its error is the cause."""


class RaisedInProcess(AsyncqError):
    """A handler in another process raised; the exception itself stays there.

    Attributes:
        type_name: The name of its type.
        error: Type, message and traceback, as in `last_error`.
    """

    def __init__(self, message: str, *, type_name: str, error: str) -> None:
        super().__init__(message)
        self.type_name = type_name
        self.error = error


class ProcessDied(AsyncqError):
    """The process in which a handler ran has died: it exited, or a signal ended it."""


class HandlerSignal(_Copied):
    """The base of verdicts, which a handler raises to decide about its job; they are not errors."""


class RetryAfter(HandlerSignal):
    """Fail this attempt, and retry after a delay that the handler chooses.

    Args:
        delay: The time until the next attempt; a timedelta, or a number of seconds, not negative.
        reason: The text for `last_error`.
        partition: Whether the other jobs of its partition wait too: those of its task, or with its key, if the task has
            a limit. Then no attempt is counted. For a service that refuses all requests with one key for a while. False
            by default.
    """

    partition = False  # also of a subclass that sets the delay itself

    def __init__(self, delay: timedelta | float, reason: str = "", *, partition: bool = False) -> None:
        super().__init__(reason)
        if not isinstance(partition, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"partition must be True or False, got {partition!r}")
        self.delay_s = seconds(delay)
        self.reason = reason
        self.partition = partition


class Snooze(HandlerSignal):
    """Run the same job again after a delay, without counting an attempt.

    Args:
        delay: The time until the next run; a timedelta, or a number of seconds, not negative.
    """

    def __init__(self, delay: timedelta | float) -> None:
        super().__init__()
        self.delay_s = seconds(delay)


class Discard(HandlerSignal):
    """Discard the job at once, even if it has attempts left.

    Args:
        reason: The text for `last_error`.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


def members_of(error: BaseException) -> list[BaseException]:
    """The errors of a group and of the groups in it, in their order; any other error alone."""
    found: list[BaseException] = []
    left = [error]
    while left:
        one = left.pop()
        if isinstance(one, BaseExceptionGroup):
            left.extend(reversed(cast("BaseExceptionGroup[BaseException]", one).exceptions))
        else:
            found.append(one)
    return found


def seconds(delay: timedelta | float, name: str = "a delay") -> float:
    """Convert a delay to seconds; ConfigurationError if it is negative, longer than a century, or no delay."""
    value: Any = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigurationError(f"{name} is a timedelta or a number of seconds, got {delay!r}")
    if not 0 <= value <= CENTURY_S:
        raise ConfigurationError(f"{name} lies between 0 and {CENTURY_S:.0f} seconds (100 years), got {delay!r}")
    return float(value)
