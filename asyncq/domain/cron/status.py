"""`CronStatus`: a recurring item as the database knows it."""

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

    `CronItem` explains the other fields.

    Attributes:
        identifier: The name of the item.
        source: `"stored"`: in the database. `"static"`: in the crontab of live workers, or, if `task` is None, of
            workers that are gone.
        task: The name of its task.
        expression: Its cron expression; None if it has a function.
        payload: The payload as JSON text.
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


# The members of a definition that are not in the options.
_MEMBERS = ("task", "expression", "dialect", "tz", "overlap")


def read_status(document: str, now: datetime) -> CronStatus:
    """Read the SQL type `cron_item` as JSON, and compute the next run, unless a function of a worker decides it."""
    members = msgspec.json.decode(document, type=dict[str, msgspec.Raw])
    payload = members.pop("payload")
    fields: dict[str, Any] = {name: msgspec.json.decode(value) for name, value in members.items()}
    fields["task"] = fields.pop("task_identifier")
    options: dict[str, Any] = fields.pop("options") or {}
    problem, following, fill = fields["problem"], None, timedelta(0)
    if fields["expression"] is not None:
        definition = options | {name: fields[name] for name in _MEMBERS} | {"payload": payload}
        try:
            item = item_of(fields["identifier"], msgspec.json.encode(definition).decode(), {})
            fill, following = item.fill_period, next_run(item, now)
        except InvalidCrontab as invalid:
            problem = problem or words_of(invalid)
    fields |= {name: value for name, value in options.items() if name in JOB_OPTIONS}
    fields |= {name: _in_utc(fields[name]) for name in ("paused_at", "known_since", "last_run")}
    fields |= {
        "payload": None if fields["task"] is None else bytes(payload).decode(),
        "fill": fill,
        "problem": problem,
        "next_run": following if fields["paused_at"] is None and problem is None else None,
    }
    # Not converted by their types: an item with a wrong option is shown too, with its problem.
    fields |= {name: tuple(fields.get(name) or ()) for name in ("flags", "workers")}
    return CronStatus(**fields)


def words_of(invalid: InvalidCrontab) -> str:
    """The problems of one item, in a sentence without its name."""
    return "; ".join(
        problem.said if problem.column is None else f"column {problem.column}: {problem.said}"
        for problem in invalid.problems
    )


def _in_utc(moment: str | None) -> datetime | None:
    return None if moment is None else datetime.fromisoformat(moment).astimezone(UTC)
