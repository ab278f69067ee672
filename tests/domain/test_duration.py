"""ISO 8601 durations: read and written."""

from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from asyncq.domain.duration import LONGEST_DAYS, parse_duration, write_duration
from tests.support.vectors import BAD_PERIODS, PERIODS


@pytest.mark.parametrize(("text", "parts"), PERIODS.items())
def test_a_duration_is_months_days_and_microseconds(text: str, parts: tuple[int, int, int]) -> None:
    """The three do not convert into each other: a month has no number of days."""
    assert parts == parse_duration(text)


@pytest.mark.parametrize("text", BAD_PERIODS, ids=ascii)
def test_an_invalid_or_too_long_duration_is_refused(text: str) -> None:
    """A misread period would let duplicates in, or keep jobs out for a century."""
    with pytest.raises(ValueError, match=r"is not an ISO 8601 duration|is longer than 36600 days"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        (timedelta(0), "PT0S"),
        (timedelta(hours=1), "PT1H"),
        (timedelta(days=7), "P7D"),
        (timedelta(days=1, minutes=30), "P1DT30M"),
        (timedelta(hours=36), "P1DT12H"),
        (timedelta(seconds=7.5), "PT7.5S"),
        (timedelta(microseconds=1), "PT0.000001S"),
        (timedelta(hours=2, seconds=59, microseconds=999_990), "PT2H59.99999S"),
        (timedelta(days=LONGEST_DAYS), "P36600D"),
    ],
    ids=str,
)
def test_a_timedelta_is_written_without_zero_parts(delta: timedelta, expected: str) -> None:
    """The text is stored in the database, where people read it."""
    assert expected == write_duration(delta)


def test_a_negative_timedelta_is_refused() -> None:
    """A window that ends before it begins is a mistake in the sign."""
    with pytest.raises(ValueError, match="is negative"):
        write_duration(timedelta(microseconds=-1))


@given(st.timedeltas(timedelta(0), timedelta(days=LONGEST_DAYS)))
@example(timedelta(days=LONGEST_DAYS) - timedelta(microseconds=1))
def test_a_timedelta_comes_back_from_its_text(delta: timedelta) -> None:
    """A day counts as 24 hours in UTC, as in a timedelta."""
    months, days, microseconds = parse_duration(write_duration(delta))

    assert (0, delta) == (months, timedelta(days=days, microseconds=microseconds))
