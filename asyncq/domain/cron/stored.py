"""Stored recurring items: an item <-> its definition, a JSON object.

The members of that object are those of sql/functions/cron/check_cron_item.sql.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from asyncq.domain.cron.item import JOB_OPTIONS, MARK, CronItem, CronTask
from asyncq.domain.deduplication import options
from asyncq.domain.duration import parse_time_phrase
from asyncq.domain.errors import CrontabProblem, InvalidCrontab

_DEFAULTS = {"dialect": "extended", "tz": "UTC", "overlap": "allow"}
_OPTIONS = ("dialect", "tz", "overlap", "queue", "max_attempts", "priority", "job_key", "job_key_mode")


class StoredItem(msgspec.Struct, frozen=True):
    """A stored item with the revision of its definition; a slot is only added under the same one."""

    item: CronItem
    revision: int


class _Definition(msgspec.Struct):
    task: str
    expression: str
    payload: dict[str, msgspec.Raw] = {}
    dialect: str = "extended"
    tz: str = "UTC"
    fill: float | str = 0
    overlap: str = "allow"
    queue: str | None = None
    max_attempts: int | None = None
    priority: int | None = None
    flags: tuple[str, ...] | None = None
    job_key: str | None = None
    job_key_mode: str | None = None


# The members of a definition.
MEMBERS = _Definition.__struct_fields__
_definitions = msgspec.json.Decoder(_Definition)


def definition(item: CronItem) -> dict[str, Any]:
    """The members of an item that differ from their defaults; without an expression if `match` is a function."""
    said: dict[str, Any] = {"task": item.task_name}
    if isinstance(item.match, str):
        said["expression"] = item.match
    if payload := {name: value for name, value in item.members.items() if name != MARK}:
        said["payload"] = payload
    if item.fill_period:
        said["fill"] = item.fill_period.total_seconds()
    for name in _OPTIONS:
        value = getattr(item, name)
        if value is not None and value != _DEFAULTS.get(name):
            said[name] = value
    if item.flags:
        said["flags"] = sorted(set(item.flags))
    return said


def job_document(item: CronItem) -> dict[str, Any]:
    """The members of a definition that concern the job, with its task's defaults, and `options` for SQL's `add_job`."""
    spec = item.template
    said = {name: getattr(spec, name) for name in JOB_OPTIONS} | {"options": options(spec)}
    return {name: value for name, value in said.items() if value or value == 0}


def fields_of(text: str) -> dict[str, Any]:
    """The fields of a `CronItem` in a definition as JSON, with the task's name; raises InvalidCrontab."""
    try:
        read = _definitions.decode(text)
        fill = parse_time_phrase(read.fill) if isinstance(read.fill, str) else timedelta(seconds=read.fill)
    except (msgspec.MsgspecError, ValueError, OverflowError) as error:
        raise InvalidCrontab([CrontabProblem(f"the definition cannot be read: {error}")]) from error
    fields = msgspec.structs.asdict(read) | {"match": read.expression, "fill": fill}
    del fields["expression"]
    return fields


def item_of(identifier: str, text: str, tasks: Mapping[str, CronTask]) -> CronItem:
    """Make the item of a definition as JSON, or raise InvalidCrontab; an item of an unknown task gets no defaults."""
    fields = fields_of(text)
    fields |= {"identifier": identifier, "task": tasks.get(fields["task"], fields["task"])}
    return CronItem(**fields)
