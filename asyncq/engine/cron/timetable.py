"""The recurring items of one run: the progress of each, its next slots, and the retry of a failed one."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from asyncq.domain.base_types import write_json
from asyncq.domain.cron.item import CronItem
from asyncq.domain.cron.progress import Progress, begin, due, keep_up
from asyncq.domain.cron.slot import MOMENT, Known, Slot, next_run
from asyncq.domain.cron.stored import StoredItem, job_document
from asyncq.engine.base import user_code
from asyncq.engine.base.backoff import backoff_s
from asyncq.store.crontabs import Told

WINDOW = timedelta(days=1)  # the longest time in one step, because a user's function is called for each minute
FIRST_RETRY_S = 0.2
SLOWEST_RETRY_S = 60.0


class Entry:
    """An item and its progress."""

    def __init__(self, item: CronItem, progress: Progress, revision: int | None = None) -> None:
        self.item = item
        self.progress = progress
        self.revision = revision
        self.failures = 0
        self.retry_at = 0.0

    @property
    def after(self) -> datetime:
        """The time up to which its slots are done."""
        return self.progress.after

    async def look(self, until: datetime) -> list[Slot] | user_code.Raised:
        """Its next slots up to a time, or the error of its function."""

        def find() -> list[Slot]:
            # Checked before its first slot: a task that cannot make its job fails here, alone.
            _ = self.item.template
            found = due(self.item, self.progress, until)
            if self.revision is None:
                return [*found]
            return [msgspec.structs.replace(slot, revision=self.revision) for slot in found]

        return await user_code.call(find)

    async def state(self, now: datetime) -> Told:
        """Its state to publish: the next run, and, if it is stored, its job with the defaults of its task."""

        def find() -> Told:
            # A function is called when its minutes are due, and not before.
            following = None if callable(self.item.match) else next_run(self.item, now)
            job = None if self.revision is None else write_json(job_document(self.item)).decode()
            return Told(identifier=self.item.identifier, revision=self.revision, next_run=following, job=job)

        found: Told | user_code.Raised = await user_code.call(find)
        if isinstance(found, user_code.Raised):
            return Told(identifier=self.item.identifier, revision=self.revision)
        return found

    def done(self, until: datetime) -> None:
        """Record that its slots up to a time are jobs now, of this worker or of another one."""
        self.progress = Progress(until, self.progress.missed_until)
        self.failures, self.retry_at = 0, 0.0

    def failed(self, now_s: float) -> float:
        """Record a failure; its progress stays. Returns the seconds until the next try."""
        self.failures += 1
        wait_s = backoff_s(self.failures, FIRST_RETRY_S, SLOWEST_RETRY_S)
        self.retry_at = now_s + wait_s
        return wait_s


class Timetable:
    """All items of a run, in their order: those of the worker's own crontab, then stored ones."""

    def __init__(self, items: Iterable[CronItem]) -> None:
        self._own = tuple(items)
        self._stored: dict[str, StoredItem] = {}
        self._entries: dict[str, Entry] = {}
        self._has_begun = False

    @property
    def own(self) -> tuple[str, ...]:
        return tuple(item.identifier for item in self._own)

    @property
    def identifiers(self) -> tuple[str, ...]:
        return (*self.own, *self._stored)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The items that have begun."""
        return tuple(self._entries.values())

    def store(self, stored: Sequence[StoredItem]) -> tuple[Sequence[str], Sequence[str]]:
        """Replace the stored items, none of which has an identifier of the worker's own crontab.

        Returns the identifiers of new or changed items, which have to begin, and of removed ones.
        """
        before, self._stored = self._stored, {one.item.identifier: one for one in stored}
        gone = before.keys() - self._stored.keys()
        # An item that was removed before it had begun, and stored again unchanged, has no entry.
        changed = [
            name
            for name, one in self._stored.items()
            if name not in self._entries or name not in before or before[name].revision != one.revision
        ]
        for name in (*gone, *changed):
            self._entries.pop(name, None)
        return changed, sorted(gone)

    def begin(self, known: Mapping[str, Known], now: datetime) -> None:
        """Set the start of items of which the database has records, at the beginning or after an outage."""
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
        """The progress of an item that is new here: a stored one is due since it was stored."""
        if not self._has_begun or known.not_before is None:
            return None
        just_before = known.not_before - MOMENT
        return Progress(just_before, just_before)

    def behind(self, now: datetime, now_s: float) -> list[Entry]:
        """The items to handle now, without those that failed a moment ago; `now_s` is the event loop's clock."""
        entries = self._entries.values()
        for entry in entries:
            entry.progress = keep_up(entry.item, entry.progress, now)
        return [entry for entry in entries if entry.after < now and entry.retry_at <= now_s]

    def next_retry_s(self, now_s: float) -> float | None:
        """The seconds until a failed item is tried again; None if none has failed."""
        return min((entry.retry_at - now_s for entry in self._entries.values() if entry.failures), default=None)


def next_window(entries: Iterable[Entry], now: datetime) -> datetime:
    """The end of the next step of the items that are behind: all together, so that their jobs are added in order."""
    return min(now, min(entry.after for entry in entries) + WINDOW)
