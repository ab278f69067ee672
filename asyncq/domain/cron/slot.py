"""Slots: an item with a minute at which it is due; each becomes one job, added by the first worker."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from asyncq.domain.cron.item import MARK, CronItem
from asyncq.domain.cron.schedule import instants
from asyncq.domain.cron.times import Times
from asyncq.domain.job import JobSpec

# Two 29 Februaries are at most eight years apart: 2096 and 2104.
_FARTHEST = timedelta(days=8 * 366)
# A function can only be called minute by minute.
_FARTHEST_OF_FUNCTION = timedelta(days=31)
MOMENT = timedelta(microseconds=1)


class Slot(msgspec.Struct, frozen=True):
    """A minute, in UTC, at which an item is due; `backfilled` if no worker ran then.

    `revision` is that of the definition of a stored item.
    """

    item: CronItem
    at: datetime
    backfilled: bool = False
    revision: int | None = None


class Known(msgspec.Struct, frozen=True):
    """The database's record of an item: since when it is known, and its last slot that became a job.

    Slots before `not_before` are never filled: the item was paused or changed then.
    """

    since: datetime
    last: datetime | None = None
    not_before: datetime | None = None


def slots(item: CronItem, after: datetime, until: datetime) -> Iterator[Slot]:
    """Yield the slots of an item after `after`, up to and including `until`, in order; its own function may raise."""
    for at in instants(item.when, item.zone, after, until):
        yield Slot(item, at)


def next_run(item: CronItem, after: datetime) -> datetime | None:
    """The next time at which an item is due.

    Args:
        item: The item.
        after: The start, with a time zone; the result is later.

    Returns:
        The minute, in UTC. None if there is none within eight years, or within 31 days if `match` is a function.

    Raises:
        ValueError: The time has no time zone.
        Exception: The error of the item's own function.
    """
    farthest = _FARTHEST if isinstance(item.when, Times) else _FARTHEST_OF_FUNCTION
    return next(instants(item.when, item.zone, after, after + farthest), None)


def missed_after(item: CronItem, known: Known, start: datetime) -> datetime:
    """The moment after which an item may have missed slots before a start, at which a slot is not missed yet.

    Its last job, else the moment just before it was first seen; but nothing before `fill`, a resume or a change. The
    moment just before the start if it missed nothing, as a new item.

    Source: `scheduleCronJobs` and the option `fill` of graphile-worker.
    """
    if not item.fill_period:
        return start - MOMENT
    since = known.since - MOMENT if known.last is None else known.last
    if known.not_before is not None:
        since = max(since, known.not_before - MOMENT)
    return min(start - MOMENT, max(since, start - item.fill_period - MOMENT))


def in_order(found: Iterable[Slot]) -> list[Slot]:
    """Sort slots of several items by time; slots of the same minute keep the order of the items."""
    return sorted(found, key=lambda slot: slot.at)


def job_of(slot: Slot) -> JobSpec:
    """The job of a slot, due at the slot's time, not now; its payload ends with `_cron: {ts, backfilled}`."""
    members: dict[str, object] = {name: value for name, value in slot.item.members.items() if name != MARK}
    ts = slot.at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
    members[MARK] = {"ts": f"{ts}Z", "backfilled": slot.backfilled}
    payload = msgspec.json.encode(members).decode()
    return msgspec.structs.replace(slot.item.template, payload=payload, run_at=slot.at)
