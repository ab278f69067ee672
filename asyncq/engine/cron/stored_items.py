"""Reads the stored recurring items whose tasks the worker knows, and reports those that cannot be scheduled."""

from collections.abc import Collection, Mapping
from typing import Any

from asyncq.domain.base_types import write_json
from asyncq.domain.cron.item import CronItem, CronTask
from asyncq.domain.cron.status import words_of
from asyncq.domain.cron.stored import StoredItem, definition, item_of, job_document
from asyncq.domain.errors import InvalidCrontab
from asyncq.domain.events import CronItemRefused, CronItemShadowed
from asyncq.domain.outcome import clean_error, error_line
from asyncq.engine.base import user_code
from asyncq.engine.base.observers import Observers
from asyncq.store.crontabs import Definition, Told, stored_items
from asyncq.store.database import ReconnectingConnection


class StoredItems:
    """The stored items as this worker reads them."""

    def __init__(self, tasks: Mapping[str, CronTask], own: Collection[str], observers: Observers) -> None:
        self._tasks = tasks
        self._own = frozenset(own)
        self._observers = observers
        self._reported: set[tuple[str, int]] = set()
        self.unpublished: list[Told] = []

    async def read(self, line: ReconnectingConnection) -> list[StoredItem]:
        """Read all items that can be scheduled here."""
        found: list[StoredItem] = []
        refused: list[Told] = []
        seen: set[tuple[str, int]] = set()
        for stored in await stored_items(line, self._tasks, self._own):
            key = (stored.identifier, stored.revision)
            if stored.identifier in self._own:
                seen.add(key)
                if key not in self._reported:
                    self._observers.emit(CronItemShadowed(item=stored.identifier))
                continue
            made = await user_code.call(self._make, stored)
            if isinstance(made, user_code.Raised):
                error = made.error
                said = clean_error(words_of(error)) if isinstance(error, InvalidCrontab) else error_line(error)
                refused.append(Told(identifier=stored.identifier, revision=stored.revision, problem=said))
                seen.add(key)
                if key not in self._reported:
                    self._observers.emit(CronItemRefused(item=stored.identifier, error=said))
            else:
                found.append(StoredItem(made, stored.revision))
        self._reported, self.unpublished = seen, refused
        return found

    def _make(self, stored: Definition) -> CronItem:
        item = item_of(stored.identifier, stored.text, self._tasks)
        # Checked before its first slot: a task that cannot make its job is reported at once.
        _ = item.template
        return item


async def declaration(items: Collection[CronItem]) -> str:
    """The items of a worker's own crontab as JSON: identifier -> definition, with its job if that can be made."""
    said: dict[str, Any] = {}
    for item in items:
        job = await user_code.call(job_document, item)
        said[item.identifier] = definition(item) | ({} if isinstance(job, user_code.Raised) else {"job": job})
    return write_json(said).decode()
