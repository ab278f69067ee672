"""Durations in ISO 8601, such as `PT1H` or `P3W4DT5H6M7.5S`; `_period` is the same rule in SQL."""

import re
from calendar import monthrange
from datetime import UTC, datetime, timedelta

import msgspec

# A hundred years; longer ones would leave the range of times in Python and PostgreSQL.
LONGEST_DAYS = 36_600

_SECOND_US = 1_000_000
_DAY_US = 86_400 * _SECOND_US
# Only for the limit: twelve months count as 366 days.
_MONTH_US = 61 * _DAY_US // 2

_NUMBER = "([0-9]{1,10})"
_PATTERN = re.compile(
    f"P(?:{_NUMBER}Y)?(?:{_NUMBER}M)?(?:{_NUMBER}W)?(?:{_NUMBER}D)?"
    rf"(?:T(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}(?:\.([0-9]{{1,9}}))?S)?)?"
)


class Duration(msgspec.Struct, frozen=True):
    """A duration in three units that cannot be converted into each other.

    Attributes:
        months: Calendar months; a year has twelve.
        days: Days; a week has seven, and in UTC each has 24 hours.
        microseconds: The rest.
    """

    months: int = 0
    days: int = 0
    microseconds: int = 0

    def after(self, instant: datetime) -> datetime:
        """Add the duration to an instant, by the calendar of UTC.

        Months are added first, at most to the last day of the month, then days, then the rest.
        """
        start = instant.astimezone(UTC)
        years, month = divmod(start.month - 1 + self.months, 12)
        year, month = start.year + years, month + 1
        start = start.replace(year=year, month=month, day=min(start.day, monthrange(year, month)[1]))
        return start + timedelta(days=self.days, microseconds=self.microseconds)


def parse_duration(text: str) -> Duration:
    """Read an ISO 8601 duration.

    Args:
        text: `P`, then years, months, weeks and days, then `T` with hours, minutes and seconds; at least one of them.
            Only seconds may have a fraction, which is cut to microseconds.

    Raises:
        ValueError: The text is not a duration, or is longer than 36,600 days.
    """
    found = _PATTERN.fullmatch(text)
    if found is None or text.endswith(("P", "T")):
        raise ValueError(f"{text[:40]!r} is not an ISO 8601 duration, such as 'PT1H' or 'P7D'")
    *numbers, fraction = found.groups(default="0")
    years, months, weeks, days, hours, minutes, seconds = map(int, numbers)
    duration = Duration(
        12 * years + months,
        7 * weeks + days,
        (hours * 3600 + minutes * 60 + seconds) * _SECOND_US + int(fraction[:6].ljust(6, "0")),
    )
    if duration.months * _MONTH_US + duration.days * _DAY_US + duration.microseconds > LONGEST_DAYS * _DAY_US:
        raise ValueError(f"{text!r} is longer than {LONGEST_DAYS} days; leave it out for no end")
    return duration


def write_duration(delta: timedelta) -> str:
    """Write a timedelta, not a negative one, as an ISO 8601 duration such as `P1DT30M`, without parts that are 0."""
    if delta < timedelta(0):
        raise ValueError(f"{delta!r} is negative")
    minutes, seconds = divmod(delta.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{delta.microseconds:06}".rstrip("0") if delta.microseconds else ""
    time = "".join(
        f"{number}{unit}"
        for number, unit in ((hours, "H"), (minutes, "M"), (f"{seconds}{fraction}", "S"))
        if number not in (0, "0")
    )
    date = f"{delta.days}D" if delta.days else ""
    return f"P{date}T{time}" if time else f"P{date}" if date else "PT0S"
