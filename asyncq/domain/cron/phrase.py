"""Time phrases: `4w3d2h1m` is four weeks, three days, two hours and a minute."""

import re
from datetime import timedelta

from asyncq.domain.errors import CENTURY_S

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PART = re.compile("([0-9]{1,12})([smhdw])")
_PHRASE = re.compile(f"(?:{_PART.pattern})+")


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
