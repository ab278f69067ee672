"""Time zones by name, and the minutes of their clocks as instants."""

import zoneinfo
from bisect import bisect_left
from datetime import UTC, datetime, timedelta, tzinfo

from asyncq.domain.hints import hint

_MINUTE = timedelta(minutes=1)


def find_zone(name: str) -> tzinfo:
    """Find a time zone by its IANA name, or raise ValueError with advice; `UTC` needs no time zone data."""
    if name == "UTC":
        return UTC
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"a zone is a name such as 'Europe/Berlin', got {name!r}")
    try:
        return zoneinfo.ZoneInfo(name)
    # The name of a folder of the data (`Europe`), or of a file that is not a zone.
    except (KeyError, ValueError, OSError):
        known = zoneinfo.available_timezones()
    if not known:
        raise ValueError(
            f"the zone {name!r} cannot be looked up: this machine has no time zone data; install the package tzdata"
        )
    said = hint(name, known) or "; expected an IANA name such as 'Europe/Berlin'"
    raise ValueError(f"{name!r} is not a time zone{said}")


def instant_of(wall: datetime, zone: tzinfo) -> datetime:
    """Convert a local minute to UTC: the first of two equal ones; for a skipped one the first minute after the gap."""
    first = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if first.astimezone(zone).replace(tzinfo=None) == wall:
        # In the far past offsets had seconds.
        return first + timedelta(seconds=-first.second % 60)
    # In a gap the two folds are the two offsets, read before it and after it.
    before = wall.replace(tzinfo=zone, fold=1).astimezone(UTC).replace(second=0, microsecond=0)
    offset = before.astimezone(zone).utcoffset()

    def is_over(minute: int) -> bool:
        return (before + minute * _MINUTE).astimezone(zone).utcoffset() != offset

    return before + bisect_left(range((first - before) // _MINUTE), x=True, key=is_over) * _MINUTE
