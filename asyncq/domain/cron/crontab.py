"""The recurring items of a worker: those of its tasks, and those of its crontab."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, cast

from asyncq.domain.cron.item import CronItem, CronTask, parse_cron_items
from asyncq.domain.cron.text import parse_crontab
from asyncq.domain.errors import CrontabProblem, InvalidCrontab

Crontab = str | CronItem | Iterable[str | CronItem]


class RecurringTask(CronTask, Protocol):
    """A task that may have items; `Task` is one."""

    @property
    def cron_items(self) -> tuple[CronItem, ...]: ...


def gather(crontab: Crontab | None, tasks: Mapping[str, RecurringTask]) -> tuple[CronItem, ...]:
    """Collect the items of a worker: those of its tasks, then those of the crontab, with the defaults of known tasks.

    InvalidCrontab names all problems, of two items with the same identifier too.
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
    # Without a type checker a caller may pass anything; the check of the items reports it.
    several = isinstance(crontab, Iterable) and not isinstance(crontab, str)
    return cast("Iterable[object]", crontab) if several else (crontab,)
