"""Adds the jobs of slots, on its own connection: a transaction that holds a key of such a job delays nothing else."""

from collections.abc import Sequence

from asyncq.domain.cron.slot import Known, Slot
from asyncq.domain.events import CronAdded, CronBackfilled
from asyncq.engine.base.observers import Observers
from asyncq.engine.base.shield import shielded
from asyncq.store import crontabs as store
from asyncq.store.crontabs import AddedSlot, Told
from asyncq.store.database import Database, ReconnectingConnection

CHUNK = 1000  # slots in one transaction
LOCK_TIMEOUT_S = 2.0
DEADLINE_S = 30.0


class SlotAdder:
    """Adds the jobs of slots."""

    def __init__(self, database: Database, observers: Observers) -> None:
        # An item that waits for a lock fails alone, and is tried again, so that the others do not wait long.
        self.line = ReconnectingConnection(database, "cron", lock_timeout_s=LOCK_TIMEOUT_S, answer_s=DEADLINE_S)
        self._observers = observers
        self._envelopes = database.envelopes

    async def register(self, own: Sequence[str], stored: Sequence[str]) -> dict[str, Known]:
        """Register the items of the worker's own crontab; returns the records of these and of stored ones."""
        if not own and not stored:
            return {}
        async with shielded(self.line):
            return await store.register(self.line, own, stored)

    async def add(self, slots: Sequence[Slot], items: set[str]) -> dict[str, str]:
        """Add the jobs of slots, in their order, a chunk in each transaction; after an error earlier chunks are added.

        `items` receives the identifiers of items of which this call was the first to add a slot. Returns the items that
        failed, with their errors. Their later slots are skipped: they would hide the failed one.

        If cancelled, it waits for the chunk that was sent.
        """
        refused: dict[str, str] = {}
        while slots:
            chunk = store.first_slots(slots, CHUNK)
            slots = slots[len(chunk) :]
            async with shielded(self.line):
                added, failed = await store.add_slots(self.line, chunk, self._envelopes)
            self._report(CronBackfilled, [one for one in added if one.slot.backfilled])
            self._report(CronAdded, [one for one in added if not one.slot.backfilled])
            items.update(one.slot.item.identifier for one in added)
            refused |= failed
            slots = [slot for slot in slots if slot.item.identifier not in failed]
        return refused

    async def publish(self, items: Sequence[Told]) -> None:
        """Publish the next runs of items, for those who read their status."""
        async with shielded(self.line):
            await store.tell(self.line, items)

    def _report(self, kind: type[CronAdded | CronBackfilled], added: Sequence[AddedSlot]) -> None:
        if added:
            items = dict.fromkeys(one.slot.item.identifier for one in added)
            # Under a unique policy a slot may have been dropped.
            job_ids = [one.added.id for one in added if one.added.outcome in ("added", "updated")]
            self._observers.emit(kind(items=tuple(items), job_ids=tuple(job_ids)))
