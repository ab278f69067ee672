"""The progress of an item in a run of a worker: which slots are still to be read, and which of them were missed.

A worker may be late, because its machine slept, its loop was blocked or the clock was set. It adds slots that are at
most an hour old as if it were in time. Older slots were missed: they are skipped, unless the item has a `fill`.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from asyncq.domain.cron.item import CronItem
from asyncq.domain.cron.slot import MOMENT, Known, Slot, missed_after, slots

CATCH_UP = timedelta(hours=1)


class Progress(msgspec.Struct, frozen=True):
    """The progress of an item: slots up to `after` are done, later ones up to `missed_until` are `backfilled`."""

    after: datetime
    missed_until: datetime


def begin(item: CronItem, known: Known, now: datetime, before: Progress | None = None) -> Progress:
    """The progress of an item at the start, or after an outage of the database.

    A new item is known since now. With a `fill`, slots that the database does not know are read again.
    """
    if before is None:
        came = just_before = now - MOMENT
    else:
        bound = keep_up(item, before, now)
        came, just_before = bound.after, max(bound.after, bound.missed_until)
    return Progress(min(came, missed_after(item, known, now)), just_before)


def keep_up(item: CronItem, progress: Progress, now: datetime) -> Progress:
    """Move the progress of an item to the current time, which may be much later than the last one, or earlier.

    Slots that are older than an hour and than its `fill` are skipped. If the clock went back, slots come again; the
    database refuses those that have become jobs.
    """
    if progress.after > now:
        return Progress(now, min(progress.missed_until, now))
    farthest = now - max(item.fill_period, CATCH_UP) - MOMENT
    return Progress(max(progress.after, farthest), max(progress.missed_until, now - CATCH_UP - MOMENT))


def due(item: CronItem, progress: Progress, until: datetime) -> Iterator[Slot]:
    """Yield the next slots of an item, in order, up to and including `until`; its own function may raise."""
    for slot in slots(item, progress.after, until):
        yield msgspec.structs.replace(slot, backfilled=True) if slot.at <= progress.missed_until else slot
