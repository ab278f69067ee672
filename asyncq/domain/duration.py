"""Durations in ISO 8601, such as `PT1H` or `P3W4DT5H6M7.5S`; period.sql is the same rule in SQL."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, datetime, timedelta

import msgspec

# A hundred years; longer ones would lead out of the times that Python and PostgreSQL know.
LONGEST_DAYS = 36_600

_SECOND_US = 1_000_000
_DAY_US = 86_400 * _SECOND_US
# For the limit alone: twelve months are 366 days.
_MONTH_US = 61 * _DAY_US // 2

_NUMBER = "([0-9]{1,10})"
_PATTERN = re.compile(
    f"P(?:{_NUMBER}Y)?(?:{_NUMBER}M)?(?:{_NUMBER}W)?(?:{_NUMBER}D)?"
    rf"(?:T(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}(?:\.([0-9]{{1,9}}))?S)?)?"
)


class Duration(msgspec.Struct, frozen=True):
    """A duration in the three units that do not convert into each other.

    Attributes:
        months: Calendar months, a year being twelve.
        days: Days, a week being seven; in UTC each has 24 hours.
        microseconds: The rest.
    """

    months: int = 0
    days: int = 0
    microseconds: int = 0

    def after(self, instant: datetime) -> datetime:
        """The instant this much later, by the calendar of UTC.

        Args:
            instant: With a time zone.

        Returns:
            The later instant, in UTC: first the months, at most to the last day of theirs, then the days and the rest.
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
            Only seconds have a fraction; what is below a microsecond is cut off.

    Returns:
        The duration.

    Raises:
        ValueError: It is none, or longer than 36,600 days.
    """
    found = _PATTERN.fullmatch(text)
    if found is None or text.endswith(("P", "T")):
        raise ValueError(f"{text[:40]!r} is no ISO 8601 duration, such as 'PT1H' or 'P7D'")
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
    """A timedelta as ISO 8601 writes it.

    Args:
        delta: Not negative.

    Returns:
        The text, such as `P1DT30M`; what is nothing is left out.

    Raises:
        ValueError: It is negative.
    """
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
