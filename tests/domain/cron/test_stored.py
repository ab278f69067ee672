"""Items as objects: they are read as they were stored, and an invalid one has an error."""

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
def test_an_item_is_stored_with_all_its_fields(item: CronItem) -> None:
    """Its jobs and its times are the same afterwards."""
    text = msgspec.json.encode(definition(item)).decode()
    again = item_of(item.identifier, text, Registry([send]))

    assert definition(item) == definition(again)
    assert (item.template, item.when, str(item.zone)) == (again.template, again.when, str(again.zone))
    assert (item.fill_period, item.overlap) == (again.fill_period, again.overlap)
    assert definition(item).keys() <= {*MEMBERS}


def test_fields_that_an_item_leaves_out_are_not_stored() -> None:
    """The defaults of its task then apply, even if they change."""
    assert {"task": "send", "expression": "@daily"} == definition(CronItem(send, "@daily"))


def test_a_function_is_not_stored() -> None:
    """Other readers see that the item has none."""
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
def test_an_invalid_item_has_an_error(text: str, said: str) -> None:
    """SQL stores what it cannot check."""
    with pytest.raises(InvalidCrontab) as caught:
        item_of("x", text, Registry([send]))

    assert said in str(caught.value)


def test_a_fill_is_seconds_or_a_phrase() -> None:
    """SQL accepts the forms of a crontab."""
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
    """Fields that the definition has anyway are left out: the payload, the time."""
    assert expected == job_document(item)


def test_a_policy_has_the_form_that_sql_expects() -> None:
    """Its members have the names of `add_job` in SQL."""
    policy = UniquePolicy(keys=["args"], args_keys=["to"])
    made = task(name="s", unique=policy)(send.handler)
    told = msgspec.json.decode(msgspec.json.encode(job_document(CronItem(made, "@daily", payload={"to": "a"}))))

    assert (["args"], ["to"], "reject") == tuple(
        told["options"]["unique"][name] for name in ("keys", "args_keys", "on_conflict")
    )
