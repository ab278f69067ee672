"""`CronStatus`: what is known of a recurring item."""

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
    """A recurring item as it was when it was read. What is not said has the default of the item's task.

    Attributes:
        identifier: Its name.
        source: `"stored"` in the database; `"static"` in the crontab of workers: of live ones, or, when `task` is None,
            of workers that are gone.
        task: The name of its task.
        expression: When it is due; None if a function says so.
        dialect: How the expression is written.
        tz: The zone in which it is meant.
        payload: The payload as JSON text.
        fill: How far back missed slots are made up for.
        overlap: What becomes of a slot while a job of the item waits or runs.
        queue: The named queue of its jobs.
        max_attempts: Total attempts.
        priority: Lower first.
        flags: Names that a worker may forbid.
        job_key: The key of its jobs.
        job_key_mode: What an add does when a job has the key.
        paused_at: Since when it is paused; None if it is not.
        known_since: Since when it is known.
        last_run: Its last slot that became a job.
        next_run: Its next slot; None while it is paused, if it cannot be scheduled, or if a function says when it is
            due.
        problem: Why it cannot be scheduled.
        workers: The ids of the live workers that add its jobs: none means that nobody does.
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
    """What a document of the database says, and when the item is due next.

    Args:
        document: The SQL type `cron_item` as JSON.
        now: The time, with a time zone.

    Returns:
        The status. When the item is due next is worked out here if that is possible: it needs no worker.
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
    """What is wrong with one item, in a sentence without its name."""
    return "; ".join(
        problem.said if problem.column is None else f"column {problem.column}: {problem.said}"
        for problem in invalid.problems
    )


def _in_utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)
