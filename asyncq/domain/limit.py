"""Limits: how many jobs may run at once over all workers, and how many may start in a time.

    concurrency          rate                   the limit of the task
    Limit(3)                                    3 of its jobs at once
    Limit(3, by="a")                            3 at once of each value of a
    Limit(3, by="a")     Rate(9, per=1)         the same, and 9 of its jobs may start in a second
    Limit(3)             Rate(9, 1, by="a")     3 of its jobs at once, and 9 starts in a second of each value of a

A limit with a key holds for each partition. A job has one partition, so each key of a task is the same member. A limit
without a key is a total over all partitions: it counts jobs with a queue too, whose partition is that of the queue.
"""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from asyncq.domain.errors import ConfigurationError
from asyncq.domain.job import CONTROL, INT2, MAX_NAME
from asyncq.domain.options import whole_number
from asyncq.domain.signature import Signature
from asyncq.domain.stored_text import is_storable
from asyncq.domain.time_limit import Duration, number_of_s

MAX_BY = 128
MAX_RATE = 100_000
SHORTEST_PER_S = 0.1
LONGEST_PER_S = 86_400.0
A_RATE = "a Rate, as Rate(100, per='1 min')"

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Limit:
    """How many jobs of a task may run at once, over all workers: `concurrency=` of `@task`.

    Args:
        at_once: How many jobs, 1 to 32,767; with `by` so many of each key.
        by: The member of the payload that is the key, such as `"tenant_id"`, or its path, such as `"customer.id"`. Jobs
            without it share one key. None, the default, is one key for all jobs.
        name: The name of the limit, 1 to 128 characters. Tasks with one name share the limit: their jobs with one key
            are counted together. The name of the task by default.
        total: How many jobs at once over all keys, 1 to 32,767; no such limit by default.

    Raises:
        ConfigurationError: A number is outside of its range, a text is not valid, or `total` is given without `by`.
    """

    at_once: int
    by: str | None = field(default=None, kw_only=True)
    name: str | None = field(default=None, kw_only=True)
    total: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _number("at_once of a Limit", self.at_once)
        if self.by is not None:
            _path("by of a Limit", self.by)
        if self.name is not None:
            check_name("the name of a Limit", self.name)
        if self.total is not None:
            _number("total of a Limit", self.total)
            if self.by is None:
                raise ConfigurationError("total of a Limit is the limit over all keys: it needs by=")


@dataclass(frozen=True, slots=True, init=False)
class Rate:
    """How many jobs of a task may start in a time, over all workers: `rate=` of `@task`. A burst of all is let through.

    Args:
        count: How many jobs may start, 1 to 100,000; with `by` so many of each key.
        per: In which time, 0.1 s to a day: seconds, a timedelta, or text such as `"1 min"`. Never more than `count`
            start in any such time.
        by: The member of the payload that is the key, as in a `Limit`; one key for all jobs by default.

    Attributes:
        per_s: The time in seconds.

    Raises:
        ConfigurationError: A number is outside of its range, or `per` is no duration.
    """

    count: int
    per_s: float
    by: str | None

    def __init__(self, count: int, per: Duration, *, by: str | None = None) -> None:
        per_s = number_of_s(per, "per of a Rate")
        if not SHORTEST_PER_S <= per_s <= LONGEST_PER_S:
            raise ConfigurationError(f"per of a Rate must lie between 0.1 seconds and a day, got {per!r}")
        if by is not None:
            _path("by of a Rate", by)
        object.__setattr__(self, "count", _number("count of a Rate", count, MAX_RATE))
        object.__setattr__(self, "per_s", float(per_s))
        object.__setattr__(self, "by", by)


@dataclass(frozen=True, slots=True)
class Queue:
    """The limit of a named queue, in the list of tasks of a worker; its jobs run one after the other by default.

    Args:
        name: The name of the queue, 1 to 128 characters.
        concurrency: How many of its jobs may run at once over all workers, 1 to 32,767; 1 by default.
        rate: How many of its jobs may start in a time, a `Rate` without `by`; no such limit by default.

    Raises:
        ConfigurationError: A value is not valid.
    """

    name: str
    concurrency: int | None = field(default=None, kw_only=True)
    rate: Rate | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_name("the name of a Queue", self.name)
        if self.name == "default":
            raise ConfigurationError("queue 'default' is reserved for jobs without a queue; choose another name")
        if self.concurrency is not None:
            _number("concurrency of a Queue", self.concurrency)
        if self.rate is not None:
            _check_kind(Rate, "rate of a Queue", self.rate, A_RATE)
            if self.rate.by is not None:
                raise ConfigurationError("rate of a Queue has no by=: its jobs are one partition")


class TaskLimit(msgspec.Struct, frozen=True, kw_only=True):
    """The limit of a task, as its options say it.

    Attributes:
        name: Its name; None for that of the task.
        at_once: How many jobs of each key may run at once; None for any number.
        total: The same over all keys.
        rate: How many jobs of each key may start in `per_s` seconds; None for any number.
        total_rate: The same over all keys, in `total_per_s` seconds.
        fair: Whether the keys take turns.
        by: The path of the key in the payload; None for one key.
    """

    name: str | None = None
    at_once: int | None = None
    total: int | None = None
    rate: int | None = None
    per_s: float | None = None
    total_rate: int | None = None
    total_per_s: float | None = None
    fair: bool = False
    by: Path | None = None


def limit_of(concurrency: Any, rate: Any, fair: Any) -> TaskLimit | None:
    """The limit by the options of a task; None without any. ConfigurationError if they are not valid together."""
    if concurrency is rate is fair is None:
        return None
    limit: Limit | None = concurrency
    if isinstance(concurrency, int):
        limit = Limit(_number("concurrency", concurrency))
    elif concurrency is not None:
        _check_kind(Limit, "concurrency", concurrency, "a number or a Limit, as Limit(3, by='tenant_id')")
    if rate is not None:
        _check_kind(Rate, "rate", rate, A_RATE)
    if fair is not None:
        _path("fair", fair)
    by = _one_key(limit, rate, fair)
    given: dict[str, Any] = {}
    if limit is not None and limit.by is None:
        given |= {"total": limit.at_once}
    elif limit is not None:
        given |= {"at_once": limit.at_once, "total": limit.total}
    if rate is not None and rate.by is None:
        given |= {"total_rate": rate.count, "total_per_s": rate.per_s}
    elif rate is not None:
        given |= {"rate": rate.count, "per_s": rate.per_s}
    name = None if limit is None else limit.name
    return TaskLimit(name=name, fair=fair is not None, by=None if by is None else tuple(by.split(".")), **given)


def check_by(limit: TaskLimit | None, signature: Signature, queue: str | None) -> None:
    """Raise ConfigurationError if no job of a task can have the key of its limit; `queue` is that of the task."""
    if limit is None or limit.by is None:
        return
    key = f"the key {'.'.join(limit.by)!r} of its limit"
    if fault := signature.fault_of_path(limit.by):
        raise ConfigurationError(f"{key} is no member of the payload: {fault}")
    if queue is not None:
        said = f"a job has one partition, and queue {queue!r} is that of its jobs"
        raise ConfigurationError(f"{key} would count none of them: {said}; use a limit without a key, or no queue")


def _one_key(limit: Limit | None, rate: Rate | None, fair: str | None) -> str | None:
    """The path of the key in the options of a task; None without a key. ConfigurationError if they have two keys."""
    keys = {"concurrency": limit and limit.by, "rate": rate and rate.by, "fair": fair}
    given = {option: by for option, by in keys.items() if by is not None}
    if not given:
        return None
    first, by = next(iter(given.items()))
    for option, other in given.items():
        if other != by:
            said = f"{first} has the key {by!r}, {option} has {other!r}"
            raise ConfigurationError(f"{said}: a job has one partition, so it needs one key for both")
    return by


def _number(name: str, value: Any, most: int = INT2) -> int:
    try:
        return whole_number(name, value, 1, most)
    except ConfigurationError as error:
        if type(value) is int and value == 0:
            raise ConfigurationError(f"{error}; to start no jobs, pause it instead") from None
        raise


def _path(name: str, value: Any) -> None:
    _text(name, value, MAX_BY)
    if not all(value.split(".")):
        raise ConfigurationError(f"{name} must be names of members with dots between them, got {value!r}")


def check_name(name: str, value: Any) -> None:
    """Raise ConfigurationError unless a value can be the name of a limit or a queue; `name` is the option."""
    _text(name, value, MAX_NAME)
    if CONTROL.search(value):
        raise ConfigurationError(f"{name} holds a control character: {value!r}")


def _text(name: str, value: Any, most: int) -> None:
    if not isinstance(value, str):
        raise ConfigurationError(f"{name} must be a str, got {value!r}")
    if not 1 <= len(value) <= most:
        raise ConfigurationError(f"{name} must have 1 to {most} characters, got {len(value)}")
    if not is_storable(value):
        raise ConfigurationError(f"{name} {value!r} holds a character that PostgreSQL cannot store as text")


def _check_kind(kind: type[Any], name: str, value: Any, expected: str) -> None:
    if not isinstance(value, kind):
        raise ConfigurationError(f"{name} must be {expected}, got {value!r}")
