"""The recurring items of one run: how far each has come, its next slots, and when a failed one is tried again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from asyncq.domain.cron.item import CronItem
from asyncq.domain.cron.progress import Progress, begin, due, keep_up
from asyncq.domain.cron.slot import MOMENT, Known, Slot, next_run
from asyncq.domain.cron.stored import StoredItem
from asyncq.engine.base import user_code
from asyncq.engine.base.backoff import backoff_s
from asyncq.engine.cron.stored_items import job_text
from asyncq.store.crontabs import Told

WINDOW = timedelta(days=1)  # so much is looked at in one go: a function of the user's is asked about each minute
FIRST_RETRY_S = 0.2
SLOWEST_RETRY_S = 60.0


class Entry:
    """An item, and how far it has come.

    Args:
        item: The item.
        progress: How far.
        revision: Of a stored item: that of its definition as it was read.

    Attributes:
        failures: How many looks or adds of it failed in a row.
        retry_at: When it is tried again, as the event loop counts; 0 if it has not failed.
    """

    def __init__(self, item: CronItem, progress: Progress, revision: int | None = None) -> None:
        self.item = item
        self.progress = progress
        self.revision = revision
        self.failures = 0
        self.retry_at = 0.0

    @property
    def after(self) -> datetime:
        """Slots up to here are done with."""
        return self.progress.after

    async def look(self, until: datetime) -> list[Slot] | user_code.Raised:
        """Its next slots up to a time, or what its function raised."""

        def find() -> list[Slot]:
            # Before its first slot: a task that cannot make its job fails here, alone.
            _ = self.item.template
            found = due(self.item, self.progress, until)
            if self.revision is None:
                return [*found]
            return [msgspec.structs.replace(slot, revision=self.revision) for slot in found]

        found: list[Slot] | user_code.Raised = await user_code.call(find)
        return found

    async def tell(self, now: datetime) -> Told:
        """What is told of it: when it is due next, and, if it is stored, its job with the defaults of its task."""

        def find() -> Told:
            # A function is asked when its minutes come, and not before.
            following = None if callable(self.item.match) else next_run(self.item, now)
            job = None if self.revision is None else job_text(self.item)
            return Told(identifier=self.item.identifier, revision=self.revision, next_run=following, job=job)

        found: Told | user_code.Raised = await user_code.call(find)
        if isinstance(found, user_code.Raised):
            return Told(identifier=self.item.identifier, revision=self.revision)
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
    """All items of a run, in their order: those of the worker's own crontab, then stored ones.

    Args:
        items: Those of its own crontab.
    """

    def __init__(self, items: Iterable[CronItem]) -> None:
        self._own = tuple(items)
        self._stored: dict[str, StoredItem] = {}
        self._entries: dict[str, Entry] = {}
        self._has_begun = False

    @property
    def own(self) -> tuple[str, ...]:
        """The identifiers of the worker's own items."""
        return tuple(item.identifier for item in self._own)

    @property
    def identifiers(self) -> tuple[str, ...]:
        """Those of all items."""
        return (*self.own, *self._stored)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The items that have begun."""
        return tuple(self._entries.values())

    def store(self, stored: Sequence[StoredItem]) -> tuple[Sequence[str], Sequence[str]]:
        """Take the stored items over as they are now.

        Args:
            stored: All of them; none has an identifier of the worker's own crontab.

        Returns:
            The identifiers of those that are new or were changed, which have to begin; and of those that are gone.
        """
        before, self._stored = self._stored, {one.item.identifier: one for one in stored}
        gone = before.keys() - self._stored.keys()
        # One that was removed before it had begun, and stored again as it was, has no entry.
        changed = [
            name
            for name, one in self._stored.items()
            if name not in self._entries or name not in before or before[name].revision != one.revision
        ]
        for name in (*gone, *changed):
            self._entries.pop(name, None)
        return changed, sorted(gone)

    def begin(self, known: Mapping[str, Known], now: datetime) -> None:
        """Put each of these items where it begins, or begins again.

        Args:
            known: What the database knows of each; others stay where they are.
            now: The time.
        """
        items = [(item, None) for item in self._own] + [(one.item, one.revision) for one in self._stored.values()]
        entries: dict[str, Entry] = {}
        for item, revision in items:
            name = item.identifier
            entry = self._entries.get(name)
            if name not in known:
                if entry is not None:
                    entries[name] = entry
                continue
            before = self._before(known[name]) if entry is None else entry.progress
            entries[name] = Entry(item, begin(item, known[name], now, before), revision)
        self._entries = entries
        self._has_begun = True

    def _before(self, known: Known) -> Progress | None:
        """How far an item has come that is new here: a stored one is due since it was stored, heard of or not."""
        if not self._has_begun or known.not_before is None:
            return None
        just_before = known.not_before - MOMENT
        return Progress(just_before, just_before)

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
