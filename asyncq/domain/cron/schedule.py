"""The instants at which a pattern is due, in the zone of its item. At a change of the clocks:

    a time of the day (`30 2 * * *`)       once a day: a skipped time at the first minute after the gap, a repeated time
                                           the first time
    a rhythm (`*/5 * * * *`, `* 2 * * *`)  in real time: nothing in a gap, twice in a repeated hour

Users expect that a daily job is neither skipped nor run twice, and that "every five minutes" is a real interval. It is
the rule of Debian's cron. An instant is always a whole minute of UTC.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta, tzinfo
from itertools import pairwise

from asyncq.domain.cron.times import Matcher, Times, digest
from asyncq.domain.cron.zone import instant_of

_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)


def instants(pattern: Times | Matcher, zone: tzinfo, after: datetime, until: datetime) -> Iterator[datetime]:
    """Yield the instants in UTC after `after`, up to and including `until`, at which a pattern is due, in order.

    A function as the pattern is called for each minute. Times need a zone.
    """
    if after.utcoffset() is None or until.utcoffset() is None:
        raise ValueError(f"an interval needs times with a zone, got {after.isoformat()} and {until.isoformat()}")
    after, until = after.astimezone(UTC), until.astimezone(UTC)
    if not isinstance(pattern, Times):
        found = _by_function(pattern, zone, after, until)
    elif pattern.is_fixed:
        found = _times_of_day(pattern, zone, after, until)
    else:
        found = _rhythm(pattern, zone, after, until)
    for instant in found:
        if instant > until:
            return
        if instant > after:
            yield instant


def _by_function(matches: Matcher, zone: tzinfo, after: datetime, until: datetime) -> Iterator[datetime]:
    instant = after.replace(second=0, microsecond=0)
    while instant <= until:
        if matches(digest(instant.astimezone(zone))):
            yield instant
        instant += _MINUTE


def _times_of_day(times: Times, zone: tzinfo, after: datetime, until: datetime) -> Iterator[datetime]:
    """Day by day: each time of a day is one instant; times in a gap are the same instant."""
    clock = [hour * _HOUR + minute * _MINUTE for hour in sorted(times.hours) for minute in sorted(times.minutes)]
    last: datetime | None = None
    for day in times.days(after.astimezone(zone).date()):
        midnight = datetime.combine(day, time(0))
        start = instant_of(midnight, zone)
        may_start_now = instant_of(midnight + _DAY, zone) - start == _DAY
        for at in clock:
            instant = start + at if may_start_now else instant_of(midnight + at, zone)
            if instant > until:
                return
            if instant != last:
                yield instant
            last = instant


def _rhythm(times: Times, zone: tzinfo, after: datetime, until: datetime) -> Iterator[datetime]:
    """Hour by hour of UTC; days without a match are skipped."""
    minutes = sorted(times.minutes)
    hour = after.replace(minute=0, second=0, microsecond=0)
    while hour <= until:
        local = hour.astimezone(zone)
        day = next(times.days(local.date()), None)
        if day is None:
            return
        if day - local.date() > _DAY:
            # No zone is more than a day away from UTC.
            hour = max(hour + _HOUR, datetime.combine(day - _DAY, time(0), UTC))
            continue
        for start, end in pairwise(_turns(hour, local, zone)):
            yield from _in_piece(times, minutes, start, (end - start) // _MINUTE, zone)
        hour += _HOUR


def _turns(hour: datetime, local: datetime, zone: tzinfo) -> list[datetime]:
    """The minutes of an hour of UTC at which the local hour or the local clock changes, with its start and end."""
    end = hour + _HOUR
    if local.utcoffset() != (end - _MINUTE).astimezone(zone).utcoffset():
        return [hour + minute * _MINUTE for minute in range(61)]
    turn = hour + (60 - local.minute) * _MINUTE
    return [hour, end] if turn == end else [hour, turn, end]


def _in_piece(times: Times, minutes: list[int], start: datetime, length: int, zone: tzinfo) -> Iterator[datetime]:
    """The matches in a piece that is within one local hour."""
    local = start.astimezone(zone)
    if local.hour in times.hours and times.holds(local.date()):
        for minute in minutes:
            if local.minute <= minute < local.minute + length:
                yield start + (minute - local.minute) * _MINUTE
