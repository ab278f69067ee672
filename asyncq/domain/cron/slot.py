"""Slots: an item with a minute at which it is due; each becomes one job, whichever worker is first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from asyncq.domain.cron.item import MARK, CronItem
from asyncq.domain.cron.schedule import instants
from asyncq.domain.cron.times import Times
from asyncq.domain.job import JobSpec

# From one 29 February to the next one it is at most eight years: 2096 to 2104.
_FARTHEST = timedelta(days=8 * 366)
# A function can only be asked minute by minute.
_FARTHEST_OF_FUNCTION = timedelta(days=31)
MOMENT = timedelta(microseconds=1)


class Slot(msgspec.Struct, frozen=True):
    """A minute at which an item is due.

    Attributes:
        item: The item.
        at: The minute, in UTC.
        backfilled: Whether no worker was there when it was due.
        revision: Of a stored item: that of its definition as it was read.
    """

    item: CronItem
    at: datetime
    backfilled: bool = False
    revision: int | None = None


class Known(msgspec.Struct, frozen=True):
    """What the database knows of an item.

    Attributes:
        since: When it was seen first.
        last: Its last slot that became a job, None if none did.
        not_before: Slots before it are never made up for: the item was paused, or another one, until then.
    """

    since: datetime
    last: datetime | None = None
    not_before: datetime | None = None


def slots(item: CronItem, after: datetime, until: datetime) -> Iterator[Slot]:
    """Yield the slots of an item in an interval, in order.

    Args:
        item: The item.
        after: The start, with a time zone; not part of the interval.
        until: The end, with a time zone; part of it.

    Yields:
        The slots.

    Raises:
        ValueError: A time has no time zone.
        Exception: What the item's own function raises.
    """
    for at in instants(item.when, item.zone, after, until):
        yield Slot(item, at)


def next_run(item: CronItem, after: datetime) -> datetime | None:
    """When an item is due next.

    Args:
        item: The item.
        after: The start, with a time zone; the answer is later.

    Returns:
        The minute, in UTC. None if there is none within eight years, or within 31 days when `match` is a function.

    Raises:
        ValueError: The time has no time zone.
        Exception: What the item's own function raises.
    """
    farthest = _FARTHEST if isinstance(item.when, Times) else _FARTHEST_OF_FUNCTION
    return next(instants(item.when, item.zone, after, after + farthest), None)


def missed_after(item: CronItem, known: Known, start: datetime) -> datetime:
    """After which moment an item may have missed slots before a start.

    Args:
        item: The item.
        known: What the database knows of it; one that is known since the start has missed nothing.
        start: When the scheduler starts, with a time zone; a slot at this very moment is not missed yet.

    Returns:
        Its last job, or else the moment just before it was seen first, but nothing that is longer ago than `fill`, or
        than it was resumed or changed; the moment just before the start if it missed nothing.

    Source: `scheduleCronJobs` and the option `fill` of graphile-worker.
    """
    if not item.fill_period:
        return start - MOMENT
    since = known.since - MOMENT if known.last is None else known.last
    if known.not_before is not None:
        since = max(since, known.not_before - MOMENT)
    return min(start - MOMENT, max(since, start - item.fill_period - MOMENT))


def in_order(found: Iterable[Slot]) -> list[Slot]:
    """Slots of several items by their time; those of the same minute stay in the order of the items."""
    return sorted(found, key=_at)


def job_of(slot: Slot) -> JobSpec:
    """The job of a slot.

    Args:
        slot: The slot.

    Returns:
        The spec: due at the slot's time, not now; its payload is the item's with `_cron: {ts, backfilled}`, last.
    """
    members: dict[str, object] = {name: value for name, value in slot.item.members.items() if name != MARK}
    ts = slot.at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
    members[MARK] = {"ts": f"{ts}Z", "backfilled": slot.backfilled}
    payload = msgspec.json.encode(members).decode()
    return msgspec.structs.replace(slot.item.template, payload=payload, run_at=slot.at)


def _at(slot: Slot) -> datetime:
    return slot.at
