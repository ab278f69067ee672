"""The recurring items of one run: how far each has come, its next slots, and when a failed one is tried again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from asyncq.domain.cron.item import CronItem
from asyncq.domain.cron.progress import Progress, begin, due, keep_up
from asyncq.domain.cron.slot import Known, Slot
from asyncq.engine import isolation
from asyncq.engine.backoff import backoff_s

WINDOW = timedelta(days=1)  # so much is looked at in one go: a function of the user's is asked about each minute
FIRST_RETRY_S = 0.2
SLOWEST_RETRY_S = 60.0


class Entry:
    """An item, and how far it has come.

    Args:
        item: The item.
        progress: How far.

    Attributes:
        failures: How many looks or adds of it failed in a row.
        retry_at: When it is tried again, as the event loop counts; 0 if it has not failed.
    """

    def __init__(self, item: CronItem, progress: Progress) -> None:
        self.item = item
        self.progress = progress
        self.failures = 0
        self.retry_at = 0.0

    @property
    def after(self) -> datetime:
        """Slots up to here are done with."""
        return self.progress.after

    async def look(self, until: datetime) -> list[Slot] | isolation.Raised:
        """Its next slots up to a time, or what its function raised."""

        def find() -> list[Slot]:
            # Before its first slot: a task that cannot make its job fails here, alone.
            _ = self.item.template
            return [*due(self.item, self.progress, until)]

        found: list[Slot] | isolation.Raised = await isolation.call(find)
        return found

    def done(self, until: datetime) -> None:
        """Its slots up to a time are jobs now, of this worker or of another one."""
        self.progress = Progress(until, self.progress.missed_until)
        self.failures, self.retry_at = 0, 0.0

    def failed(self, now_s: float) -> float:
        """It stays where it is; returns after how many seconds it is tried again."""
        self.failures += 1
        wait_s = backoff_s(self.failures, FIRST_RETRY_S, SLOWEST_RETRY_S)
        self.retry_at = now_s + wait_s
        return wait_s


class Timetable:
    """All items of a run, in their order.

    Args:
        items: The items.
    """

    def __init__(self, items: Iterable[CronItem]) -> None:
        self._items = tuple(items)
        self._entries: dict[str, Entry] = {}

    @property
    def identifiers(self) -> tuple[str, ...]:
        """Those of the items."""
        return tuple(item.identifier for item in self._items)

    def begin(self, known: Mapping[str, Known], now: datetime) -> None:
        """Put each item where it begins, or begins again."""
        before = {name: entry.progress for name, entry in self._entries.items()}
        for item in self._items:
            name = item.identifier
            self._entries[name] = Entry(item, begin(item, known.get(name), now, before.get(name)))

    def behind(self, now: datetime, now_s: float) -> list[Entry]:
        """The items that are to be looked at; not those that failed a moment ago.

        Args:
            now: The time.
            now_s: The same as the event loop counts.
        """
        entries = self._entries.values()
        for entry in entries:
            entry.progress = keep_up(entry.item, entry.progress, now)
        return [entry for entry in entries if entry.after < now and entry.retry_at <= now_s]

    def next_retry_s(self, now_s: float) -> float | None:
        """In how many seconds a failed item is tried again; None if none has failed."""
        return min((entry.retry_at - now_s for entry in self._entries.values() if entry.failures), default=None)


def next_window(entries: Iterable[Entry], now: datetime) -> datetime:
    """Up to when slots are looked for in one go: all items together, so that their jobs come in order.

    Args:
        entries: The items that are behind; at least one.
        now: The time.
    """
    return min(now, min(entry.after for entry in entries) + WINDOW)
