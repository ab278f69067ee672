"""The items of a worker: from its tasks and from its crontab, checked together."""

from typing import Any

import pytest

from asyncq.domain.cron.crontab import gather
from asyncq.domain.cron.item import CronItem
from asyncq.domain.errors import InvalidCrontab
from asyncq.domain.task import Registry, task


@task(queue="nightly", cron="H H * * *")
async def rollup(day: str = "today") -> None:
    """A task with an item of its own."""


@task(queue="mail")
async def send_email(to: str = "") -> None:
    """A task without."""


REGISTRY = Registry([rollup, send_email])


@pytest.mark.parametrize(
    ("crontab", "expected"),
    [
        (None, ["rollup"]),
        ("* * * * * send_email\n* * * * * other", ["rollup", "send_email", "other"]),
        (CronItem("other", "* * * * *"), ["rollup", "other"]),
        ([CronItem("other", "* * * * *"), "* * * * * send_email"], ["rollup", "other", "send_email"]),
        ((), ["rollup"]),
    ],
    ids=["none", "text", "item", "both", "nothing"],
)
def test_the_items_of_tasks_come_first_then_those_of_the_crontab(crontab: Any, expected: list[str]) -> None:
    """The order is fixed, since it is that of the jobs of one minute."""
    assert expected == [item.identifier for item in gather(crontab, REGISTRY)]


def test_an_item_that_only_names_its_task_takes_the_defaults_of_the_task() -> None:
    """Its queue, its attempts: as if the job had been added in code."""
    _, mail, other = gather("* * * * * send_email\n* * * * * other", REGISTRY)

    assert ("mail", None) == (mail.template.queue, other.template.queue)


@pytest.mark.parametrize(
    ("crontab", "problems"),
    [
        (["60 * * * * a", "* 24 * * * b"], ["minute is 60, expected 0 to 59", "hour is 24, expected 0 to 23"]),
        (
            ["60 * * * * a", CronItem("other", "* * * * *"), CronItem("other", "* * * * *")],
            ["minute is 60, expected 0 to 59", "two items, of the tasks 'other' and 'other', have this identifier"],
        ),
        ("0 4 * * * rollup", ["two items, of the tasks 'rollup' and 'rollup', have this identifier"]),
        ("0 4 * * * send_email {to: 5}", ["Expected `str`, got `int`"]),
        ([5], ["an item must be a CronItem, got 5"]),
        (5, ["an item must be a CronItem, got 5"]),
    ],
    ids=["two-texts", "text-and-items", "of-the-task-too", "payload", "no-item", "no-crontab"],
)
def test_all_problems_are_reported_at_once(crontab: Any, problems: list[str]) -> None:
    """A deployment must not fail again for each typo."""
    with pytest.raises(InvalidCrontab) as raised:
        gather(crontab, REGISTRY)

    found = [problem.said for problem in raised.value.problems]
    assert [] == [pair for pair in zip(problems, found, strict=True) if pair[0] not in pair[1]]


def test_an_item_that_does_not_fit_its_task_is_reported_with_its_line() -> None:
    """A long text may have many items of one task, so the line is needed."""
    text = "# each day\n0 4 * * * send_email ?id=daily {to: 5}\n0 4 * * * rollup"
    with pytest.raises(InvalidCrontab) as raised:
        gather(text, REGISTRY)

    assert [("daily", 2), ("rollup", 3)] == [(problem.item, problem.line) for problem in raised.value.problems]
