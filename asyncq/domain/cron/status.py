"""`CronStatus`: a recurring item as the database knows it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

from asyncq.domain.cron.expression import Dialect
from asyncq.domain.cron.item import JOB_OPTIONS
from asyncq.domain.cron.overlap import Overlap
from asyncq.domain.cron.slot import next_run
from asyncq.domain.cron.stored import item_of
from asyncq.domain.errors import InvalidCrontab


class CronStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A recurring item as it was when it was read. A missing value is the default of the item's task.

    Attributes:
        identifier: The name of the item.
        source: `"stored"`: in the database. `"static"`: in the crontab of live workers, or, if `task` is None, of
            workers that are gone.
        task: The name of its task.
        expression: Its cron expression; None if it has a function.
        dialect: The syntax of the expression.
        tz: The zone of the expression.
        payload: The payload as JSON text.
        fill: How far back missed slots are filled.
        overlap: What happens to a slot while a job of the item waits or runs.
        queue: The named queue of its jobs.
        max_attempts: The number of attempts in all.
        priority: Lower first.
        flags: Names that a worker may forbid.
        job_key: The key of its jobs.
        job_key_mode: The effect of an add when a job has the key.
        paused_at: When it was paused; None if it is not paused.
        known_since: When it was first seen.
        last_run: Its last slot that became a job.
        next_run: Its next slot; None while it is paused, if it cannot be scheduled, or if a function says when it is
            due.
        problem: The reason why it cannot be scheduled; None if it can.
        workers: The ids of the live workers that add its jobs; without any, no job is added.
    """

    identifier: str
    source: Literal["static", "stored"]
    task: str | None = None
    expression: str | None = None
    dialect: Dialect | None = None
    tz: str | None = None
    payload: str | None = None
    fill: timedelta = timedelta(0)
    overlap: Overlap | None = None
    queue: str | None = None
    max_attempts: int | None = None
    priority: int | None = None
    flags: tuple[str, ...] = ()
    job_key: str | None = None
    job_key_mode: str | None = None
    paused_at: datetime | None = None
    known_since: datetime | None = None
    last_run: datetime | None = None
    next_run: datetime | None = None
    problem: str | None = None
    workers: tuple[str, ...] = ()


class _Document(msgspec.Struct):
    """The SQL type `cron_item` as JSON."""

    identifier: str
    source: Literal["static", "stored"]
    task_identifier: str | None
    expression: str | None
    dialect: Dialect | None
    tz: str | None
    payload: msgspec.Raw
    options: dict[str, Any] | None
    overlap: Overlap | None
    paused_at: datetime | None
    known_since: datetime | None
    last_run: datetime | None
    next_run: datetime | None
    problem: str | None
    workers: tuple[str, ...]


_documents = msgspec.json.Decoder(_Document)


def read_status(document: str, now: datetime) -> CronStatus:
    """Read a document of the database, and compute when the item is due next.

    Args:
        document: The SQL type `cron_item` as JSON.
        now: The time, with a time zone.

    Returns:
        The status. The next run is computed here, without a worker, unless a function decides it.
    """
    read = _documents.decode(document)
    problem, following = read.problem, None
    options: dict[str, Any] = {name: value for name, value in (read.options or {}).items() if name in JOB_OPTIONS}
    options["flags"] = tuple(options.get("flags", ()))
    fill = timedelta(0)
    if read.expression is not None:
        try:
            item = item_of(read.identifier, _definition(read), {})
            fill, following = item.fill_period, next_run(item, now)
        except InvalidCrontab as invalid:
            problem = problem or words_of(invalid)
    return CronStatus(
        identifier=read.identifier,
        source=read.source,
        task=read.task_identifier,
        expression=read.expression,
        dialect=read.dialect,
        tz=read.tz,
        payload=None if read.task_identifier is None else bytes(read.payload).decode(),
        fill=fill,
        overlap=read.overlap,
        paused_at=_in_utc(read.paused_at),
        known_since=_in_utc(read.known_since),
        last_run=_in_utc(read.last_run),
        next_run=None if read.paused_at is not None or problem is not None else following,
        problem=problem,
        workers=read.workers,
        **options,
    )


def _definition(read: _Document) -> str:
    said: dict[str, Any] = {
        "task": read.task_identifier,
        "expression": read.expression,
        "dialect": read.dialect,
        "tz": read.tz,
        "payload": read.payload,
        "overlap": read.overlap,
    }
    return msgspec.json.encode({**(read.options or {}), **said}).decode()


def words_of(invalid: InvalidCrontab) -> str:
    """The problems of one item, in a sentence without its name."""
    return "; ".join(
        problem.said if problem.column is None else f"column {problem.column}: {problem.said}"
        for problem in invalid.problems
    )


def _in_utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)
