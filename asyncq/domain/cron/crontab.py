"""The recurring items of a worker: those of its tasks, and those of its crontab."""

from collections.abc import Iterable, Mapping
from typing import Any

from asyncq.domain.cron.item import CronItem, parse_cron_items
from asyncq.domain.cron.text import parse_crontab, several
from asyncq.domain.errors import CrontabProblem, InvalidCrontab
from asyncq.domain.task import Task

Crontab = str | CronItem | Iterable[str | CronItem]


def gather(crontab: Crontab | None, tasks: Mapping[str, Task[...]]) -> tuple[CronItem, ...]:
    """Collect the items of a worker: those of its tasks, then those of the crontab, with the defaults of known tasks.

    InvalidCrontab names all problems, of two items with the same identifier too.
    """
    items: list[Any] = [item for task in tasks.values() for item in task.cron_items]
    problems: list[CrontabProblem] = []
    for part in several(crontab):
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
