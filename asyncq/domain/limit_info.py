"""Limits as the database knows them: their values, those that were declared, and the partitions."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal

import msgspec

from asyncq.domain.errors import InvalidJob
from asyncq.domain.job import check_is_text, check_number, check_storable
from asyncq.domain.limit import A_RATE, Rate

Kind = Literal["limit", "queue"]

CODE = "22023"  # that of the SQL functions


class LimitValues(msgspec.Struct, frozen=True, kw_only=True):
    """What a limit allows; None is no limit.

    Attributes:
        at_once: How many jobs of each key may run at once; of a queue, how many of its jobs.
        total: How many jobs of all keys may run at once.
        rate: How many jobs of each key may start in `per_s` seconds; of a queue, how many of its jobs.
        per_s: The seconds of `rate`.
        total_rate: How many jobs of all keys may start in `total_per_s` seconds.
        total_per_s: The seconds of `total_rate`.
        fair: Whether the keys take turns.
    """

    at_once: int | None = None
    total: int | None = None
    rate: int | None = None
    per_s: float | None = None
    total_rate: int | None = None
    total_per_s: float | None = None
    fair: bool = False


def phrase(values: LimitValues, kind: Kind) -> str:
    """The values of a limit or a queue as a phrase."""
    return ", ".join(_parts(values, "" if kind == "queue" else " of each key")) or "no limit"


def _parts(values: LimitValues, of_each: str) -> Iterator[str]:
    if values.at_once is not None:
        yield f"{values.at_once} at once{of_each}"
    if values.total is not None:
        yield f"{values.total} at once"
    if values.rate is not None:
        yield f"{values.rate} starts in {values.per_s:g} s{of_each}"
    if values.total_rate is not None:
        yield f"{values.total_rate} starts in {values.total_per_s:g} s"
    if values.fair:
        yield "keys take turns"


class LimitInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A limit of tasks, or a queue that has a limit.

    Attributes:
        kind: `limit` or `queue`.
        name: Its name.
        values: What it allows now.
        declared: What the last worker declared; None if none did.
        overrides: What was set by hand in place of that, by the names of the values; None for no limit.
        tasks: The tasks that have it.
        by: The members of their payloads that are the key.
        declared_by: The worker that declared it.
        declared_at: When; None for a queue.
        set_by: The name of the session or person that set values by hand.
        set_at: When.
        paused_at: Since when it is paused; None if it is not.
        running: How many of its jobs run.
        waiting: How many of its jobs wait, counted to 1,000.
        full: How many keys have as many running jobs as they may.
    """

    kind: Kind
    name: str
    values: LimitValues
    declared: LimitValues | None
    overrides: dict[str, int | float | bool | None]
    tasks: tuple[str, ...]
    by: tuple[str, ...]
    declared_by: str | None
    declared_at: datetime | None
    set_by: str | None
    set_at: datetime | None
    paused_at: datetime | None
    running: int
    waiting: int
    full: int


class PartitionInfo(msgspec.Struct, frozen=True):
    """A key of a limit, or a queue.

    Attributes:
        key: The key, at most 128 characters of it; the name of the queue; None if it is not known.
        waiting: How many of its jobs wait, counted to 1,000.
        running: How many of its jobs run.
        may: How many may run at once; None for any number.
        next_at: When the next job may start, if it waits for a time.
        why: Why its next job does not start now: `paused`, `backed_off`, `rate`, `partition_full`; None if it may.
    """

    key: str | None
    waiting: int
    running: int
    may: int | None
    next_at: datetime | None
    why: str | None


class Given(msgspec.Struct, frozen=True):
    """Values that are set by hand, as the SQL functions take them."""

    at_once: int | None
    rate: int | None
    per_s: float | None
    total: int | None
    total_rate: int | None
    total_per_s: float | None
    unlimited: list[str]


def limit_values(name: Any, by: Any, *, at_once: Any, rate: Any, total: Any, total_rate: Any) -> Given:
    """Read the values of a limit that are to be set: UNSET leaves one as it is, None is no limit; raises InvalidJob."""
    check_texts(name=name, by=by)
    given = {"at_once": at_once, "rate": rate, "total": total, "total_rate": total_rate}
    for field, value in given.items():
        if value is None or value is msgspec.UNSET:
            continue
        if field in ("at_once", "total"):
            _check_int(field, value)
        elif not isinstance(value, Rate):
            raise InvalidJob(f"{field} must be {A_RATE}, got {value!r}", code=CODE, field=field)
        elif value.by is not None:
            said = f"{field} has no by=: the key of a limit is that of its tasks"
            raise InvalidJob(said, code=CODE, field=field)
    values = {field: None if value is msgspec.UNSET else value for field, value in given.items()}
    return Given(
        at_once=values["at_once"],
        rate=values["rate"] and values["rate"].count,
        per_s=values["rate"] and values["rate"].per_s,
        total=values["total"],
        total_rate=values["total_rate"] and values["total_rate"].count,
        total_per_s=values["total_rate"] and values["total_rate"].per_s,
        unlimited=[field for field, value in given.items() if value is None],
    )


def _check_int(field: str, value: Any) -> None:
    """Raise InvalidJob unless a value is an int of 32 bits; the server checks its range."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidJob(f"{field} must be an int, got {type(value).__name__}", code=CODE, field=field)
    check_number(field, value, -(2**31), 2**31 - 1, CODE)


def partition_values(
    limit: Any, key: Any, by: Any, *, at_once: Any, rate: Any, weight: Any
) -> tuple[int | None, int | None, float | None, float | None]:
    """Read the values of a key that are to be set; None leaves one as it is; raises InvalidJob."""
    check_texts(key=key)
    unset = msgspec.UNSET
    given = limit_values(
        limit,
        by,
        at_once=unset if at_once is None else at_once,
        rate=unset if rate is None else rate,
        total=unset,
        total_rate=unset,
    )
    if weight is not None and (not isinstance(weight, int | float) or isinstance(weight, bool)):
        raise InvalidJob(f"weight must be a number, got {type(weight).__name__}", code=CODE, field="weight")
    return given.at_once, given.rate, given.per_s, weight


def check_partitions(limit: Any, most: Any) -> None:
    """Raise InvalidJob for arguments of a listing that no server could read."""
    check_texts(limit=limit)
    _check_int("most", most)


def check_texts(**texts: Any) -> None:
    """Raise InvalidJob for a name, key or author that is no storable str; None is not checked."""
    for field, text in texts.items():
        if text is not None:
            check_is_text(field, text, CODE)
            check_storable(field, text, CODE)
