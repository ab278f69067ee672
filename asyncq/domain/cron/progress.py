"""How far an item has come in a run of a worker: which slots are still to be looked at, and which of them were missed.

A worker that comes late, because its machine slept, its loop was blocked or the clock was set, adds what is at most an
hour old as if it had been there in time. What is older counts as missed: it is left out, unless the item has a `fill`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from asyncq.domain.cron.item import CronItem
from asyncq.domain.cron.slot import MOMENT, Known, Slot, missed_after, slots

CATCH_UP = timedelta(hours=1)


class Progress(msgspec.Struct, frozen=True):
    """How far an item has come.

    Attributes:
        after: Slots up to here are done with.
        missed_until: Later slots up to here were missed: their jobs say `backfilled`.
    """

    after: datetime
    missed_until: datetime


def begin(item: CronItem, known: Known, now: datetime, before: Progress | None = None) -> Progress:
    """Where an item begins, or, after the database was away, begins again.

    Args:
        item: The item.
        known: What the database knows of it; of a new one, that it is known since now.
        now: The time, with a time zone.
        before: How far it had come in this run; None at the start.

    Returns:
        Its progress: with a `fill`, what the database does not know of is looked at again.
    """
    if before is None:
        came = just_before = now - MOMENT
    else:
        bound = keep_up(item, before, now)
        came, just_before = bound.after, max(bound.after, bound.missed_until)
    return Progress(min(came, missed_after(item, known, now)), just_before)


def keep_up(item: CronItem, progress: Progress, now: datetime) -> Progress:
    """How far an item has come as seen from a time that may be much later than the last one, or earlier.

    Args:
        item: The item.
        progress: How far it had come.
        now: The time, with a time zone.

    Returns:
        Its progress: nothing is looked at that is both longer ago than an hour and than its `fill`. If the clock went
        back, slots come up again; those that became jobs the database refuses.
    """
    if progress.after > now:
        return Progress(now, min(progress.missed_until, now))
    farthest = now - max(item.fill_period, CATCH_UP) - MOMENT
    return Progress(max(progress.after, farthest), max(progress.missed_until, now - CATCH_UP - MOMENT))


def due(item: CronItem, progress: Progress, until: datetime) -> Iterator[Slot]:
    """Yield the slots that an item comes to next, in order.

    Args:
        item: The item.
        progress: How far it has come.
        until: The end, with a time zone; part of it.

    Yields:
        The slots.

    Raises:
        Exception: What the item's own function raises.
    """
    for slot in slots(item, progress.after, until):
        yield msgspec.structs.replace(slot, backfilled=True) if slot.at <= progress.missed_until else slot
