"""`CronAdmin`: looks at recurring items and changes them, on the client's pool or on the caller's connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any, TypedDict, Unpack

import msgspec

from asyncq.domain.adding import accepted
from asyncq.domain.base_types import write_json
from asyncq.domain.cron.expression import Dialect
from asyncq.domain.cron.item import CronItem, CronTask, checked
from asyncq.domain.cron.overlap import Overlap
from asyncq.domain.cron.status import CronStatus
from asyncq.domain.cron.stored import MEMBERS, definition, fields_of, job_document
from asyncq.domain.errors import CronItemNotFound, CrontabProblem, InvalidCrontab
from asyncq.domain.job import Added, JobKeyMode, is_storable
from asyncq.domain.task import Registry
from asyncq.store import cron_items as store
from asyncq.store.callers import changing, reading
from asyncq.store.database import CallersConnection, Connection, Database


class CronChanges(TypedDict, total=False):
    """What can be changed of a stored item: the fields of a `CronItem`. None gives a field its default back."""

    task: str | CronTask
    match: str
    payload: Mapping[str, Any] | msgspec.Struct | None
    dialect: Dialect | None
    tz: str | None
    fill: timedelta | float | None
    overlap: Overlap | None
    queue: str | None
    max_attempts: int | None
    priority: int | None
    flags: Iterable[str] | None
    job_key: str | None
    job_key_mode: JobKeyMode | str | None


class CronAdmin:
    """Looks at recurring items and changes them; `client.cron` is one.

    *Static* items are those in the crontabs of workers: they can be paused, resumed and run. *Stored* ones are in the
    database; they can be changed and removed too, and workers that know their task take a change over within a second,
    or, if they do not listen, within one poll. With `connection=` a change is part of the caller's transaction, which
    has to be open: no slot of the item becomes a job until it ends.

    Args:
        database: Where the items are.
        acquire: Opens a connection for a call.
        tasks: The tasks that there are; None takes any name.
    """

    def __init__(
        self,
        database: Database,
        acquire: Callable[[], AbstractAsyncContextManager[Connection]],
        tasks: Registry | None,
    ) -> None:
        self._database = database
        self._acquire = acquire
        self._tasks = tasks

    async def list_items(self) -> list[CronStatus]:
        """Read all items: stored ones, static ones of live workers, and the names of those of workers that are gone.

        Returns:
            The items, in the order of their identifiers.

        Raises:
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        async with self._acquire() as mine:
            return await store.statuses(self._database, mine, None)

    async def get_item(self, identifier: str, *, connection: CallersConnection | None = None) -> CronStatus:
        """Read one item.

        Args:
            identifier: Its identifier.
            connection: An asyncpg connection of the caller's, for its transaction; the client's pool by default.

        Returns:
            What is known of it.

        Raises:
            CronItemNotFound: There is no such item.
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        sought = _sought(identifier)
        async with reading(connection, self._acquire) as mine:
            return await self._status(mine, sought)

    async def add(
        self, item: CronItem, *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> CronStatus:
        """Store an item: from now on workers that know its task add its jobs. It has missed nothing.

        Args:
            item: The item; its `match` is an expression.
            connection: As in `get_item`.
            autocommit: Whether `connection` may be in no transaction, where the change is committed at once; False by
                default.

        Returns:
            What is known of it now.

        Raises:
            InvalidCrontab: Its `match` is a function, or its payload does not fit its task.
            UnknownTask: The client was given tasks, and none has this name.
            CronItemConflict: An item of this identifier is stored already, or in the crontab of a live worker.
            StoreError: The database cannot be used.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        item = checked(self._bound(item))
        async with changing(connection, self._acquire, autocommit) as mine:
            await store.add(self._database, mine, item.identifier, _text(definition(item)), _job(item))
            return await self._status(mine, item.identifier)

    async def change(
        self,
        identifier: str,
        *,
        connection: CallersConnection | None = None,
        autocommit: bool = False,
        **changes: Unpack[CronChanges],
    ) -> CronStatus:
        """Change fields of a stored item. It keeps its history and its pause, but makes up for nothing before now.

        Args:
            identifier: Its identifier.
            connection: As in `get_item`.
            autocommit: As in `add`.
            **changes: Fields of a `CronItem`; None gives a field its default back.

        Returns:
            What is known of it now.

        Raises:
            InvalidCrontab: It would be no item that can be scheduled; nothing was changed.
            UnknownTask: The client was given tasks, and none has this name.
            CronItemNotFound: There is no such item.
            CronItemConflict: It is not stored, but in the crontab of workers.
            TypeError: There is no such field.
            StoreError: The database cannot be used.

        Changes of different fields at the same time all count. If cancelled, the outcome is unknown unless the caller's
        transaction rolls back.
        """
        if unknown := changes.keys() - CronChanges.__annotations__.keys():
            names = ", ".join(sorted(CronChanges.__annotations__))
            raise TypeError(f"an item has no field {min(unknown)!r} that can be changed; there are {names}")
        identifier = _sought(identifier)
        async with changing(connection, self._acquire, autocommit) as mine:
            while True:
                found = await store.stored(self._database, mine, identifier)
                if found is None:
                    # The server knows what there is instead, and says so.
                    await store.change(self._database, mine, identifier, "{}", None, None)
                    continue
                item = self._bound(_changed(identifier, found.text, changes))
                # An item that another release stored is no fault of this call.
                if not changes.keys().isdisjoint(("task", "payload")):
                    checked(item)
                said = _text(dict.fromkeys(MEMBERS) | definition(item))
                if await store.change(self._database, mine, identifier, said, _job(item), found.revision):
                    return await self._status(mine, identifier)

    async def pause(
        self, identifier: str, *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> CronStatus:
        """Pause an item: from now on no slot of it becomes a job, whatever is started anew. Jobs that wait still run.

        Args:
            identifier: Its identifier.
            connection: As in `get_item`.
            autocommit: As in `add`.

        Returns:
            What is known of it now; of one that was paused before, with the time of that.

        Raises:
            CronItemNotFound: There is no such item.
            StoreError: The database cannot be used.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        return await self._act("pause", identifier, connection, autocommit)

    async def resume(
        self, identifier: str, *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> CronStatus:
        """Resume an item; what was due during the pause is never made up for.

        Args:
            identifier: Its identifier.
            connection: As in `get_item`.
            autocommit: As in `add`.

        Returns:
            What is known of it now.

        Raises:
            CronItemNotFound: There is no such item.
            StoreError: The database cannot be used.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        return await self._act("resume", identifier, connection, autocommit)

    async def remove(
        self, identifier: str, *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> CronStatus:
        """Remove a stored item; or forget a static one that no live worker has. Its jobs stay.

        Args:
            identifier: Its identifier.
            connection: As in `get_item`.
            autocommit: As in `add`.

        Returns:
            What it was.

        Raises:
            CronItemNotFound: There is no such item.
            CronItemConflict: It is in the crontab of a live worker.
            StoreError: The database cannot be used.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        return await self._act("remove", identifier, connection, autocommit)

    async def run(
        self, identifier: str, *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> Added:
        """Add the job of an item now, paused or not; none of its slots is used up, and its overlap is honoured.

        Args:
            identifier: Its identifier.
            connection: As in `get_item`.
            autocommit: As in `add`.

        Returns:
            The job that stands for it, and what the add came to: `"deduplicated"` if the item says `skip` and its last
            job has not ended.

        Raises:
            CronItemNotFound: There is no such item that is stored, or in the crontab of a live worker.
            DuplicateJob: The unique policy of its task rejects it.
            StoreError: The database cannot be used.

        A stored item that no worker has read yet is added without the defaults of its task. If cancelled, the outcome
        is unknown unless the caller's transaction rolls back.
        """
        sought = _sought(identifier)
        async with changing(connection, self._acquire, autocommit) as mine:
            return accepted(await store.run(self._database, mine, sought))

    def _bound(self, item: Any) -> CronItem:
        """The item with its task, if the client knows tasks."""
        if not isinstance(item, CronItem):
            raise InvalidCrontab([CrontabProblem(f"an item must be a CronItem, got {item!r}")])
        if not isinstance(item.match, str):
            said = "match is a function, which cannot be stored; expected a cron expression"
            raise InvalidCrontab([CrontabProblem(said, "match", item.identifier)])
        if self._tasks is None:
            return item
        known = self._tasks.find(item.task_name)
        return msgspec.structs.replace(item, task=known) if isinstance(item.task, str) else item

    async def _act(
        self, what: store.Act, identifier: str, connection: CallersConnection | None, autocommit: bool
    ) -> CronStatus:
        sought = _sought(identifier)
        async with changing(connection, self._acquire, autocommit) as mine:
            return await store.act(self._database, mine, what, sought)

    async def _status(self, connection: Connection, identifier: str) -> CronStatus:
        found = await store.statuses(self._database, connection, [identifier])
        if not found:
            raise _not_found(identifier)
        return found[0]


def _sought(identifier: Any) -> str:
    """Check the identifier of an item that has to exist; no item has one that PostgreSQL cannot store."""
    if not isinstance(identifier, str):
        raise InvalidCrontab([CrontabProblem(f"identifier must be a str, got {identifier!r}", "identifier")])
    if not is_storable(identifier):
        raise _not_found(identifier)
    return identifier


def _not_found(identifier: str) -> CronItemNotFound:
    return CronItemNotFound(f"there is no recurring item {identifier!r}")


def _changed(identifier: str, text: str, changes: Mapping[str, Any]) -> CronItem:
    fields = {**fields_of(text), "identifier": identifier, **changes}
    # What has to be there is told by the item, as missing; the rest gets its default.
    kept: dict[str, Any] = {
        name: value for name, value in fields.items() if value is not None or name in ("task", "match")
    }
    return CronItem(**kept)


def _text(document: Mapping[str, Any]) -> str:
    return write_json(document).decode()


def _job(item: CronItem) -> str | None:
    """Its job with the defaults of its task, if the task is known here."""
    return None if isinstance(item.task, str) else _text(job_document(item))
