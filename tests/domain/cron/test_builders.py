"""Expressions by name."""

from collections.abc import Callable
from typing import Any

import pytest

from asyncq.domain.cron.builders import daily, every, every_minute, hourly, monthly, weekly, yearly
from asyncq.domain.cron.expression import expand
from asyncq.domain.errors import InvalidCrontab


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (every_minute(), "* * * * *"),
        (every(minutes=5), "*/5 * * * *"),
        (every(minutes=1), "*/1 * * * *"),
        (every(hours=6), "0 */6 * * *"),
        (hourly(), "0 * * * *"),
        (hourly(minute=30), "30 * * * *"),
        (daily(), "0 0 * * *"),
        (daily(hour=8, minute=5), "5 8 * * *"),
        (weekly("sunday"), "0 0 * * 0"),
        (weekly("saturday", hour=23, minute=59), "59 23 * * 6"),
        (monthly(), "0 0 1 * *"),
        (monthly(day=31, hour=4), "0 4 31 * *"),
        (yearly(), "0 0 1 1 *"),
        (yearly(month=2, day=29, hour=1, minute=2), "2 1 29 2 *"),
    ],
)
def test_a_builder_writes_the_expression(actual: str, expected: str) -> None:
    """Plain text: it can be printed, compared, and written into a file."""
    assert expected == actual
    assert expand(actual, "crontab", "x").can_fire


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (every, "every takes either minutes or hours"),
        (lambda: every(minutes=5, hours=1), "every takes either minutes or hours"),
        (
            lambda: every(minutes=7),
            "minutes is 7, expected a number that divides 60: 1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30",
        ),
        (lambda: every(minutes=60), "minutes is 60, expected a number that divides 60"),
        (lambda: every(minutes=0), "minutes is 0, expected a number that divides 60"),
        (lambda: every(hours=5), "hours is 5, expected a number that divides 24: 1, 2, 3, 4, 6, 8, 12"),
        (lambda: every(hours=True), "hours is True, expected a number that divides 24"),
        (lambda: hourly(minute=60), "minute is 60, expected 0 to 59"),
        (lambda: daily(hour=24), "hour is 24, expected 0 to 23"),
        (lambda: daily(minute=-1), "minute is -1, expected 0 to 59"),
        (lambda: weekly("monday", hour=24), "hour is 24, expected 0 to 23"),
        (lambda: monthly(day=0), "day is 0, expected 1 to 31"),
        (lambda: yearly(month=13), "month is 13, expected 1 to 12"),
        (lambda: yearly(month=2, day=30), "day is 30, expected 1 to 29"),
        (lambda: yearly(month=4, day=31), "day is 31, expected 1 to 30"),
    ],
)
def test_a_builder_refuses_a_schedule_that_cron_cannot_express(build: Callable[[], str], said: str) -> None:
    """Every seven minutes is not possible in cron: after 56 the next minute would be 0."""
    with pytest.raises(InvalidCrontab) as caught:
        build()

    assert str(caught.value).startswith(f"the crontab cannot be used: {said}")


def test_a_weekday_has_an_english_name() -> None:
    """A number would be that of cron for some and that of Python for others."""
    wrong: Any = 1

    with pytest.raises(InvalidCrontab, match="weekday is 1, expected one of sunday, monday, tuesday"):
        weekly(wrong)
