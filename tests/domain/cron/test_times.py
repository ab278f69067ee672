"""The five sets of an expression, and the rule that combines them."""

from datetime import date, datetime, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from asyncq.domain.cron.expression import expand
from asyncq.domain.cron.times import TimeDigest, Times, digest, weekday

ALL = Times(*(frozenset(range(low, high)) for low, high in ((0, 60), (0, 24), (1, 32), (1, 13), (0, 7))))


def numbers(low: int, high: int) -> st.SearchStrategy[frozenset[int]]:
    """A set of a field: few values, or all of them."""
    return st.one_of(
        st.frozensets(st.integers(low, high), min_size=1, max_size=3), st.just(frozenset(range(low, high + 1)))
    )


def test_a_digest_names_a_minute_as_the_fields_do() -> None:
    """Sunday is 0, as in a crontab, and not 6 as in Python."""
    sunday = datetime(2024, 5, 5, 4, 30, 59)  # noqa: DTZ001 - a clock on the wall

    assert TimeDigest(minute=30, hour=4, date=5, month=5, dow=0) == digest(sunday)
    assert [1, 2, 3, 4, 5, 6, 0] == [weekday(date(2024, 5, day)) for day in range(6, 13)]


@pytest.mark.parametrize(
    ("text", "day", "expected"),
    [
        ("0 0 13 * 5", date(2024, 5, 13), True),
        ("0 0 13 * 5", date(2024, 5, 3), True),
        ("0 0 13 * 5", date(2024, 5, 14), False),
        ("0 0 13 * *", date(2024, 5, 3), False),
        ("0 0 * * 5", date(2024, 5, 13), False),
        ("0 0 1-31 * 5", date(2024, 5, 13), False),
        ("0 0 13 * 0-6", date(2024, 5, 3), False),
        ("0 0 13 6 5", date(2024, 5, 13), False),
        ("0 0 13 6 5", date(2024, 5, 3), False),
        ("0 0 * * *", date(2024, 5, 3), True),
    ],
)
def test_when_both_days_are_restricted_either_is_enough(text: str, day: date, expected: bool) -> None:
    """Cron's oldest surprise. A field that holds everything restricts nothing; the month always counts."""
    assert expected == expand(text, "crontab", "x").holds(day)


@given(numbers(1, 31), numbers(1, 12), numbers(0, 6), st.dates(date(1990, 1, 1), date(2090, 1, 1)))
def test_the_days_are_those_that_it_holds_in_order(
    dates: frozenset[int], months: frozenset[int], dows: frozenset[int], start: date
) -> None:
    """The search for the next run uses them, and must not skip one."""
    times = Times(ALL.minutes, ALL.hours, dates, months, dows)
    assume(times.can_fire)
    expected = [day for day in (start + timedelta(number) for number in range(800)) if times.holds(day)]
    found = times.days(start)

    assert expected == [next(found) for _ in expected]


def test_the_days_end_with_the_calendar() -> None:
    """There is no error."""
    assert [date(9999, 12, 31)] == list(ALL.days(date(9999, 12, 31)))
    assert [] == list(expand("0 0 30 11 *", "crontab", "x").days(date(9999, 12, 1)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30 2 * * *", True),
        ("*/15 2-4 * * *", True),
        ("0 */4 * * *", True),
        ("* 2 * * *", False),
        ("30 * * * *", False),
        ("0 0-23 * * *", False),
        ("0-59 2 * * *", False),
        ("*/5 * * * *", False),
    ],
)
def test_a_time_of_the_day_has_both_its_minute_and_its_hour_restricted(text: str, expected: bool) -> None:
    """This decides the behaviour at changes of the clock."""
    assert expected == expand(text, "crontab", "x").is_fixed
