"""The recurring items of a worker: those that its tasks bring along, and those of its crontab."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, cast

from asyncq.domain.cron.item import CronItem, CronTask, parse_cron_items
from asyncq.domain.cron.text import parse_crontab
from asyncq.domain.errors import CrontabProblem, InvalidCrontab

Crontab = str | CronItem | Iterable[str | CronItem]


class RecurringTask(CronTask, Protocol):
    """A task that may bring items along; `Task` is one."""

    @property
    def cron_items(self) -> tuple[CronItem, ...]: ...


def gather(crontab: Crontab | None, tasks: Mapping[str, RecurringTask]) -> tuple[CronItem, ...]:
    """The items of a worker.

    Args:
        crontab: A text, an item, or a list of both; None for nothing but what the tasks bring along.
        tasks: The worker's tasks by name.

    Returns:
        The items: first those of the tasks, then those of the crontab, which have their task's defaults if it is here.

    Raises:
        InvalidCrontab: A text cannot be read, an item does not fit its task, or two have the same identifier; with all
            problems.
    """
    items: list[Any] = [item for task in tasks.values() for item in task.cron_items]
    problems: list[CrontabProblem] = []
    for part in _parts(crontab):
        if isinstance(part, str):
            try:
                items.extend(parse_crontab(part))
            except InvalidCrontab as invalid:
                problems.extend(invalid.problems)
        else:
            items.append(part)
    try:
        found = parse_cron_items(items, tasks)
    except InvalidCrontab as invalid:
        raise InvalidCrontab([*problems, *invalid.problems]) from invalid
    if problems:
        raise InvalidCrontab(problems)
    return found


def _parts(crontab: Crontab | None) -> Iterable[object]:
    if crontab is None:
        return ()
    # Whoever has no type checker may give anything: the check of the items says so.
    several = isinstance(crontab, Iterable) and not isinstance(crontab, str)
    return cast("Iterable[object]", crontab) if several else (crontab,)
