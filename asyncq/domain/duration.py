"""Durations in ISO 8601, such as `PT1H` or `P3W4DT5H6M7.5S`, and time phrases, such as `4w3d2h1m`.

`_period` is the same rule in SQL for the first ones.
"""

import re
from datetime import timedelta

from asyncq.domain.errors import CENTURY_S

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

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PART = re.compile("([0-9]{1,12})([smhdw])")
_PHRASE = re.compile(f"(?:{_PART.pattern})+")


def parse_duration(text: str) -> tuple[int, int, int]:
    """Read a duration as months, days and microseconds, which cannot be converted into each other.

    Only seconds may have a fraction, which is cut to microseconds. ValueError: the text is not a duration, or is longer
    than 36,600 days.
    """
    found = _PATTERN.fullmatch(text)
    if found is None or text.endswith(("P", "T")):
        raise ValueError(f"{text[:40]!r} is not an ISO 8601 duration, such as 'PT1H' or 'P7D'")
    *numbers, fraction = found.groups(default="0")
    years, months, weeks, days, hours, minutes, seconds = map(int, numbers)
    months += 12 * years
    days += 7 * weeks
    microseconds = (hours * 3600 + minutes * 60 + seconds) * _SECOND_US + int(fraction[:6].ljust(6, "0"))
    if months * _MONTH_US + days * _DAY_US + microseconds > LONGEST_DAYS * _DAY_US:
        raise ValueError(f"{text!r} is longer than {LONGEST_DAYS} days; leave it out for no end")
    return months, days, microseconds


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


def parse_time_phrase(text: str) -> timedelta:
    """Read numbers, each followed by its unit (s, m, h, d, w), in any order and added up, to 36,525 days at most.

    Source: the section "Recurring tasks" in the README of graphile-worker.
    """
    if not _PHRASE.fullmatch(text):
        raise ValueError(
            f"{text[:40]!r} is not a time phrase, expected numbers with a unit s, m, h, d or w, such as '3d12h'"
        )
    seconds = sum(int(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    if seconds > CENTURY_S:
        raise ValueError(f"{text[:40]!r} is longer than 36525 days (100 years)")
    return timedelta(seconds=seconds)
