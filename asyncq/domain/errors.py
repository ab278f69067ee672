"""Every error that asyncq raises, one class for each decision that the caller has to take.

    AsyncqError
    ├── ConfigurationError      the program is wrong: mend the code or the options
    │   ├── TaskError           a handler cannot be served, or two tasks share a name
    │   ├── InvalidCrontab      recurring jobs that cannot be understood; lists every problem
    │   └── UnsupportedServer   the server is too old, or the database not UTF8
    ├── InvalidJob              bad input: mend the call
    │   └── UnknownTask         no task of this name was given to the client
    ├── DuplicateJob            another job bars it: nothing to mend, the work is under way
    ├── JobNotFound             there is no such job (any more)
    ├── ClaimLost               this run holds its job no longer: roll back, it was cancelled or given to another
    ├── CronItemNotFound        there is no such recurring item
    ├── CronItemConflict        an item of this identifier is stored already, or belongs to a worker's crontab
    ├── StoreError              the database said no
    │   ├── StoreUnavailable    it cannot be reached, or the connection broke: try again later
    │   ├── AccessDenied        wrong password, missing role or privilege: mend the credentials
    │   ├── TransactionUnusable the caller's own connection takes no writes (aborted, read only, no transaction)
    │   └── SchemaError         the database and this release do not fit
    │       ├── SchemaMissing   run `asyncq migrate`
    │       └── SchemaTooNew    upgrade asyncq
    └── PoolExhausted           every connection for handlers is taken

RetryAfter, Snooze and Discard are no errors of asyncq: a handler raises them to say how its job goes on.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

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
    """An option or a combination of options that cannot work."""


class TaskError(ConfigurationError):
    """A handler whose signature cannot be served, or two tasks of one name."""


@dataclass(frozen=True, slots=True)
class CrontabProblem:
    """One thing that is wrong with a crontab.

    Attributes:
        said: What is wrong, what was expected.
        field: What it is about: `match`, `payload`, or the name of an option of `CronItem`.
        item: The identifier of the item, if it was made in code, or read without a mistake.
        line: The line of the text, from 1; None if there is no text.
        column: The character of the line, from 1; without a line that of the expression; None if there is none.
    """

    said: str
    field: str = ""
    item: str | None = None
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        places = [
            f"item {self.item!r}" if self.item is not None else "",
            f"line {self.line}" if self.line is not None else "",
            f"column {self.column}" if self.column is not None else "",
        ]
        place = ", ".join(part for part in places if part)
        return f"{place}: {self.said}" if place else self.said


class InvalidCrontab(ConfigurationError):
    """Recurring jobs that cannot be understood; none of them is scheduled.

    Attributes:
        problems: Everything that is wrong, in the order of the text or the items.
        source: Where the text came from, such as the path of the file; empty if it is not known.
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
    """A PostgreSQL server that is older than asyncq supports, or a database whose encoding is not UTF8."""


class InvalidJob(AsyncqError):
    """A job that breaks a rule; nothing was added.

    Attributes:
        code: The SQLSTATE that the SQL functions raise for the same rule, such as `GWBID`.
        field: The argument that breaks the rule.
        limit: The limit that was broken, if the rule is one.
        length: The length, size or value that was given, if the rule is a limit.
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
    """A task name that the client was not given.

    Attributes:
        name: That name.
        nearest: The known name that is most like it, None if none is.
    """

    def __init__(self, name: str, nearest: str | None) -> None:
        hint = f"; did you mean {nearest!r}?" if nearest else ""
        super().__init__(f"no task is called {name!r}{hint}", code="GWBID", field="identifier")
        self.name = name
        self.nearest = nearest


class DuplicateJob(AsyncqError):
    """A job that may not exist beside another one, as its unique policy says; nothing was added.

    Attributes:
        existing_id: The id of the other job.
        existing_state: Its state.
    """

    def __init__(self, existing_id: int, existing_state: JobState) -> None:
        super().__init__(f"job {existing_id}, which is {existing_state}, bars another one like it")
        self.existing_id = existing_id
        self.existing_state = existing_state


class JobNotFound(AsyncqError):
    """There is no job with this id, or it has ended well and was removed.

    Attributes:
        job_id: The id.
    """

    def __init__(self, job_id: int) -> None:
        super().__init__(f"there is no job {job_id}: it never was, or it ended and was removed")
        self.job_id = job_id


class ClaimLost(AsyncqError):
    """A run that holds its job no longer: it was cancelled, or taken over after its worker was declared dead.

    Let it out of the handler, so that the transaction is rolled back.

    Attributes:
        job_id: The job's id.
    """

    def __init__(self, job_id: int) -> None:
        super().__init__(
            f"this run does not hold job {job_id} any more: it was cancelled, or taken over by another worker; "
            "roll back what was done for it"
        )
        self.job_id = job_id


class CronItemNotFound(AsyncqError):
    """There is no recurring item of this identifier."""


class CronItemConflict(AsyncqError):
    """A recurring item cannot be stored, changed or removed, because of what there is under its identifier.

    Attributes:
        source: `"stored"`: it is stored already. `"static"`: it is in the crontab of a worker; mend it there.
    """

    def __init__(self, message: str, source: Literal["stored", "static"]) -> None:
        super().__init__(message)
        self.source: Literal["stored", "static"] = source


class StoreError(AsyncqError):
    """The database refused, in a way that has no class of its own below.

    Attributes:
        sqlstate: The server's code, or None when it did not come from the server.
    """

    def __init__(self, message: str, *, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class StoreUnavailable(StoreError):
    """The database cannot be reached, or the connection broke.

    Attributes:
        outcome: `"not_sent"` when the call certainly changed nothing, `"unknown"` when it may have been committed.
    """

    def __init__(
        self, message: str, *, outcome: Literal["not_sent", "unknown"] = "not_sent", sqlstate: str | None = None
    ) -> None:
        super().__init__(message, sqlstate=sqlstate)
        self.outcome: Literal["not_sent", "unknown"] = outcome


class AccessDenied(StoreError):
    """A wrong password, an unknown role or database, or a missing privilege."""


class TransactionUnusable(StoreError):
    """The caller's connection takes no writes: in no transaction, after a failed statement, or in a read only one."""


class SchemaError(StoreError):
    """The database's schema and this release do not fit."""


class SchemaMissing(SchemaError):
    """The schema is not installed, or older than this release needs."""


class SchemaTooNew(SchemaError):
    """The database holds a breaking migration that this release does not know."""


class PoolExhausted(AsyncqError):
    """A handler waited too long for a connection: every one is held by another handler."""


class HandlerSignal(_Copied):
    """The base of what a handler raises to say how its job goes on: a verdict, not an error."""


class RetryAfter(HandlerSignal):
    """Fail this attempt and try again after a delay of the handler's choice.

    Args:
        delay: The time until the next attempt; a timedelta, or a number of seconds, not negative.
        reason: What goes into `last_error`.
    """

    def __init__(self, delay: timedelta | float, reason: str = "") -> None:
        super().__init__(reason)
        self.delay_s = seconds(delay)
        self.reason = reason


class Snooze(HandlerSignal):
    """Run the same job again after a delay, without counting an attempt.

    Args:
        delay: The time until then; a timedelta, or a number of seconds, not negative.
    """

    def __init__(self, delay: timedelta | float) -> None:
        super().__init__()
        self.delay_s = seconds(delay)


class Discard(HandlerSignal):
    """Fail the job for good at once, whatever attempts are left.

    Args:
        reason: What goes into `last_error`.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


def seconds(delay: timedelta | float, name: str = "a delay") -> float:
    """The delay in seconds.

    Args:
        delay: A timedelta or a number of seconds.
        name: What the error calls it.

    Returns:
        The seconds, not negative.

    Raises:
        ConfigurationError: The delay is negative, not finite, longer than a century, or no delay at all.
    """
    value: Any = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigurationError(f"{name} is a timedelta or a number of seconds, got {delay!r}")
    if not 0 <= value <= CENTURY_S:
        raise ConfigurationError(f"{name} lies between 0 and {CENTURY_S:.0f} seconds (100 years), got {delay!r}")
    return float(value)
