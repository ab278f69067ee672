"""Overlap: how an item handles a slot while its previous job waits or runs."""

import hashlib
from typing import Any

import msgspec
import pytest

from asyncq import CronItem, InvalidCrontab, UniquePolicy, parse_crontab, task
from asyncq.domain.cron.item import extra_of
from asyncq.domain.cron.overlap import OVERLAPS, overlap_policy


async def run() -> None:
    """Do nothing; all tasks of this file run it."""


@pytest.mark.parametrize(("overlap", "strategy"), [("skip", "ignore"), ("replace", "replace")])
def test_an_overlap_is_a_unique_policy_by_the_key_of_the_item(overlap: str, strategy: str) -> None:
    """The key is as strict as any: it separates two items of one task, and unites all jobs of one item."""
    item = CronItem("t", "* * * * *", identifier="a", overlap=overlap)
    asked = msgspec.json.decode(extra_of(item, item.template) or "")

    assert {"unique_key": "\\x" + hashlib.sha256(b"cron a").hexdigest(), "on_conflict": strategy} == asked
    assert overlap_policy("a", overlap) != overlap_policy("b", overlap)


@pytest.mark.parametrize("overlap", OVERLAPS)
def test_the_other_options_of_a_task_are_those_of_its_jobs(overlap: str) -> None:
    """They apply for each value of overlap."""
    options: Any = {"overlap": overlap}
    item = CronItem(task(max_attempts=3)(run), "* * * * *", priority=2, **options)
    asked = msgspec.json.decode(extra_of(item, item.template) or "")

    assert {"max_attempts": 3, "priority": 2}.items() <= asked.items()


def test_items_may_overlap_by_default() -> None:
    """This is usual for crontabs. The policy of the task then applies."""
    singleton = task(singleton=True)(run)
    plain, single = CronItem("t", "* * * * *"), CronItem(singleton, "* * * * *")

    assert ("allow", None) == (plain.overlap, extra_of(plain, plain.template))
    assert "ignore" in (extra_of(single, single.template) or "")
    assert None is overlap_policy("a", "allow")


@pytest.mark.parametrize("overlap", OVERLAPS)
def test_a_line_says_it_as_an_option(overlap: str) -> None:
    """It may be combined with other options."""
    [item] = parse_crontab(f"* * * * * t ?overlap={overlap}&id=x")

    assert overlap == item.overlap


def test_an_unknown_overlap_is_refused() -> None:
    """In a line and in code the error lists the known values."""
    wrong: Any = "queue"
    with pytest.raises(InvalidCrontab, match=r"column 14: overlap: 'queue' is unknown, expected allow, skip, replace"):
        parse_crontab("* * * * * t ?overlap=queue")
    with pytest.raises(InvalidCrontab, match="overlap is 'queue', expected allow, skip, replace"):
        CronItem("t", "* * * * *", overlap=wrong)


@pytest.mark.parametrize(
    ("made", "job_key", "other"),
    [
        (task(name="t", singleton=True)(run), None, "the unique policy of task 't'"),
        (task(name="t", unique=UniquePolicy())(run), None, "the unique policy of task 't'"),
        ("t", "k", "job_key"),
    ],
    ids=["singleton", "unique", "job-key"],
)
def test_a_second_answer_to_the_same_question_is_refused(made: Any, job_key: str | None, other: str) -> None:
    """Otherwise one of the two would silently be lost."""
    with pytest.raises(InvalidCrontab, match=f"overlap 'skip' goes without {other}: both say what becomes of a job"):
        CronItem(made, "* * * * *", overlap="skip", job_key=job_key)
