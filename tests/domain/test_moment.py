"""Moments as the server keeps them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from asyncq.domain.moment import datetime_of, moment_of, read_moment

MOMENTS = [
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(2000, 1, 1, tzinfo=UTC),
    datetime(2026, 11, 20, 12, 34, 56, 789012, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
]


@pytest.mark.parametrize("at", MOMENTS, ids=str)
def test_a_moment_is_exact_from_one_end_of_the_calendar_to_the_other(at: datetime) -> None:
    """A cursor that is off by a microsecond would find a job twice, or never."""
    assert at == datetime_of(moment_of(at))


@pytest.mark.parametrize("at", MOMENTS, ids=str)
def test_a_moment_is_read_as_the_server_sends_it(at: datetime) -> None:
    """It is negative before the year 2000."""
    sent = moment_of(at).to_bytes(8, "big", signed=True)

    assert moment_of(at) == read_moment(sent)


def test_moments_are_in_the_order_of_their_times() -> None:
    """Jobs run in this order."""
    assert MOMENTS == sorted(MOMENTS, key=moment_of)
