"""Items as objects: what an item says is what comes back, and what is no item says why."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from asyncq import CronItem, InvalidCrontab, UniquePolicy, task
from asyncq.domain.cron.stored import MEMBERS, definition, fields_of, item_of, job_document
from asyncq.domain.task import Registry


@task(queue="mail", max_attempts=3, flags=["slow"])
async def send(to: str = "") -> None:
    """A task with defaults."""


ITEMS = [
    CronItem("t", "* * * * *"),
    CronItem(send, "@daily", payload={"to": "a@b.c"}),
    CronItem(
        "t",
        "0 8 * * 1",
        identifier="x",
        dialect="crontab",
        tz="Europe/Berlin",
        fill=timedelta(days=2),
        queue="q",
        max_attempts=7,
        priority=0,
        flags=["b", "a"],
        job_key="k",
        job_key_mode="preserve_run_at",
        payload={"digits": 12345678901234567890, "_cron": "ours"},
    ),
    CronItem("t", "H H * * *", overlap="skip"),
]


@pytest.mark.parametrize("item", ITEMS, ids=[item.identifier for item in ITEMS])
def test_what_is_stored_of_an_item_is_all_that_it_says(item: CronItem) -> None:
    """Its jobs are the same afterwards, and it is due at the same times."""
    text = msgspec.json.encode(definition(item)).decode()
    again = item_of(item.identifier, text, Registry([send]))

    assert definition(item) == definition(again)
    assert (item.template, item.when, str(item.zone)) == (again.template, again.when, str(again.zone))
    assert (item.fill_period, item.overlap) == (again.fill_period, again.overlap)
    assert definition(item).keys() <= {*MEMBERS}


def test_what_an_item_does_not_say_is_not_stored() -> None:
    """So that the defaults of its task count, also those that change."""
    assert {"task": "send", "expression": "@daily"} == definition(CronItem(send, "@daily"))


def test_a_function_is_not_stored() -> None:
    """Others see that there is none."""
    assert {"task": "t"} == definition(CronItem("t", lambda _: True))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "the definition cannot be read: Expected `object`, got `array`"),
        ('{"task": "t"}', "Object missing required field `expression`"),
        ('{"task": "t", "expression": 1}', "Expected `str`, got `int` - at `$.expression`"),
        ('{"task": "t", "expression": "@daily", "fill": "soon"}', "'soon' is not a time phrase"),
        ('{"task": "t", "expression": "@daily", "fill": 1e300}', "the definition cannot be read"),
        ('{"task": "t", "expression": "99 * * * *"}', "minute is 99, expected 0 to 59"),
        ('{"task": "t", "expression": "@daily", "tz": "Mars"}', "'Mars' is not a time zone"),
        ('{"task": "send", "expression": "@daily", "payload": {"to": 1}}', "payload of task 'send': Expected `str`"),
        ('{"task": "t", "expression": "@daily", "overlap": "x"}', "overlap is 'x', expected allow, skip, replace"),
    ],
    ids=ascii,
)
def test_what_is_no_item_says_why(text: str, said: str) -> None:
    """SQL stores what it cannot judge."""
    with pytest.raises(InvalidCrontab) as caught:
        item_of("x", text, Registry([send]))

    assert said in str(caught.value)


def test_a_fill_is_seconds_or_a_phrase() -> None:
    """SQL may say it as a crontab does."""
    texts = ('{"task": "t", "expression": "@daily", "fill": "1h30m"}', '{"task": "t", "expression": "@daily"}')

    assert [timedelta(minutes=90), timedelta(0)] == [fields_of(text)["fill"] for text in texts]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (CronItem("t", "@daily", priority=0), {"priority": 0}),
        (CronItem(send, "@daily", queue="q"), {"queue": "q", "max_attempts": 3, "flags": ("slow",)}),
        (CronItem(task(name="s", singleton=True)(send.handler), "@daily"), {"options": {"singleton": True}}),
    ],
    ids=["plain", "defaults", "policy"],
)
def test_the_job_of_an_item_has_the_defaults_of_its_task(item: CronItem, expected: dict[str, Any]) -> None:
    """Without what the definition says anyway: the payload, the time."""
    assert expected == job_document(item)


def test_a_policy_is_told_as_sql_takes_it() -> None:
    """By the names of `add_job` in SQL."""
    policy = UniquePolicy(keys=["args"], args_keys=["to"])
    made = task(name="s", unique=policy)(send.handler)
    told = msgspec.json.decode(msgspec.json.encode(job_document(CronItem(made, "@daily", payload={"to": "a"}))))

    assert (["args"], ["to"], "reject") == tuple(
        told["options"]["unique"][name] for name in ("keys", "args_keys", "on_conflict")
    )
