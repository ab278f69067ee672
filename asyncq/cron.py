"""`CronAdmin`: reads and changes recurring items, on the client's pool or on the caller's connection."""

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
from asyncq.domain.job import Added, JobKeyMode
from asyncq.domain.stored_text import is_storable
from asyncq.domain.task import Registry
from asyncq.store import cron_items as store
from asyncq.store.callers import changing, reading
from asyncq.store.database import CallersConnection, Connection, Database


class CronChanges(TypedDict, total=False):
    """The fields of a stored item that can be changed, named as in `CronItem`. None restores a default."""

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
    """Reads and changes recurring items; `client.cron` is one.

    *Static* items are in the crontabs of workers: they can be paused, resumed and run. *Stored* items are in the
    database: they can also be changed and removed. Workers that know the task notice a change within a second, or,
    without LISTEN, within one poll. With `connection=` a change is part of the caller's transaction, which must be
    open. Until it ends, no slot of the item becomes a job.

    Args:
        database: The database of the items.
        acquire: Opens a connection for a call.
        tasks: The tasks that exist; None accepts any name.
    """

    def __init__(
        self, database: Database, acquire: Callable[[], AbstractAsyncContextManager[Connection]], tasks: Registry | None
    ) -> None:
        self._database = database
        self._acquire = acquire
        self._tasks = tasks

    async def list_items(self) -> list[CronStatus]:
        """Read all items: stored ones, static ones of live workers, and names of static ones that no live worker has.

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
            identifier: The identifier of the item.
            connection: A connection of the caller, as in `Client.add_job`; the client's pool by default.

        Returns:
            The item as it is now.

        Raises:
            CronItemNotFound: No item has the identifier.
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        sought = _sought(identifier)
        async with reading(connection, self._acquire) as mine:
            return await self._status(mine, sought)

    async def add(
        self, item: CronItem, *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> CronStatus:
        """Store an item: from now on workers that know its task add its jobs. No earlier slot is filled.

        Args:
            item: The item; its `match` is an expression.
            connection: As in `get_item`.
            autocommit: Whether `connection` may be outside of a transaction, where the change is committed at once;
                False by default.

        Returns:
            The item as it is now.

        Raises:
            InvalidCrontab: Its `match` is a function, or its payload does not fit its task.
            UnknownTask: The client was given tasks, and none has this name.
            CronItemConflict: A stored item, or one in the crontab of a live worker, has this identifier.
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
        """Change fields of a stored item. It keeps its history and its pause; slots before now are not filled.

        Args:
            identifier: The identifier of the item.
            connection: As in `get_item`.
            autocommit: As in `add`.
            **changes: Fields of a `CronItem`; None restores a default.

        Returns:
            The item as it is now.

        Raises:
            InvalidCrontab: The changed item would be invalid; nothing was changed.
            UnknownTask: The client was given tasks, and none has this name.
            CronItemNotFound: No item has the identifier.
            CronItemConflict: The item is not stored, but in the crontab of workers.
            TypeError: An item has no such field.
            StoreError: The database cannot be used.

        Concurrent changes of different fields all take effect. If cancelled, the outcome is unknown unless the caller's
        transaction rolls back.
        """
        if unknown := changes.keys() - CronChanges.__annotations__.keys():
            names = ", ".join(sorted(CronChanges.__annotations__))
            raise TypeError(f"an item has no field {min(unknown)!r} that can be changed, expected one of {names}")
        identifier = _sought(identifier)
        async with changing(connection, self._acquire, autocommit) as mine:
            while True:
                found = await store.stored(self._database, mine, identifier)
                if found is None:
                    # The server knows which item has the identifier, and raises with its name.
                    await store.change(self._database, mine, identifier, "{}", None, None)
                    continue
                item = self._bound(_changed(identifier, found.text, changes))
                # Another release may have stored this item: the error is not one of this call.
                if not changes.keys().isdisjoint(("task", "payload")):
                    checked(item)
                said = _text(dict.fromkeys(MEMBERS) | definition(item))
                if await store.change(self._database, mine, identifier, said, _job(item), found.revision):
                    return await self._status(mine, identifier)

    async def pause(
        self, identifier: str, *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> CronStatus:
        """Pause an item: from now on its slots become no jobs, even after a worker restarts; waiting jobs still run.

        Args:
            identifier: The identifier of the item.
            connection: As in `get_item`.
            autocommit: As in `add`.

        Returns:
            The item as it is now. If it was paused before, it keeps the time of that pause.

        Raises:
            CronItemNotFound: No item has the identifier.
            StoreError: The database cannot be used.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        return await self._act("pause", identifier, connection, autocommit)

    async def resume(
        self, identifier: str, *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> CronStatus:
        """Resume an item; slots that were due during the pause are not filled.

        Args:
            identifier: The identifier of the item.
            connection: As in `get_item`.
            autocommit: As in `add`.

        Returns:
            The item as it is now.

        Raises:
            CronItemNotFound: No item has the identifier.
            StoreError: The database cannot be used.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        return await self._act("resume", identifier, connection, autocommit)

    async def remove(
        self, identifier: str, *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> CronStatus:
        """Remove a stored item, or forget a static one that no live worker has. Its jobs stay.

        Args:
            identifier: The identifier of the item.
            connection: As in `get_item`.
            autocommit: As in `add`.

        Returns:
            The item as it was.

        Raises:
            CronItemNotFound: No item has the identifier.
            CronItemConflict: The item is in the crontab of a live worker.
            StoreError: The database cannot be used.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        return await self._act("remove", identifier, connection, autocommit)

    async def run(
        self, identifier: str, *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> Added:
        """Add the job of an item now, paused or not. It uses up none of its slots, and respects its overlap policy.

        Args:
            identifier: The identifier of the item.
            connection: As in `get_item`.
            autocommit: As in `add`.

        Returns:
            The id of the job and the outcome of the add: `"deduplicated"` if the item says `skip` and its last job has
            not ended.

        Raises:
            CronItemNotFound: No stored item, and none in the crontab of a live worker, has the identifier.
            DuplicateJob: The unique policy of its task refuses it.
            StoreError: The database cannot be used.

        If no worker has read a stored item yet, its job lacks the defaults of the task. If cancelled, the outcome is
        unknown unless the caller's transaction rolls back.
        """
        sought = _sought(identifier)
        async with changing(connection, self._acquire, autocommit) as mine:
            return accepted(await store.run(self._database, mine, sought))

    def _bound(self, item: Any) -> CronItem:
        """Bind the item to its task, if the client knows tasks."""
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
    """Check the identifier of an item that must exist: no item has one that PostgreSQL cannot store."""
    if not isinstance(identifier, str):
        raise InvalidCrontab([CrontabProblem(f"identifier must be a str, got {identifier!r}", "identifier")])
    if not is_storable(identifier):
        raise _not_found(identifier)
    return identifier


def _not_found(identifier: str) -> CronItemNotFound:
    return CronItemNotFound(f"there is no recurring item {identifier!r}")


def _changed(identifier: str, text: str, changes: Mapping[str, Any]) -> CronItem:
    fields = {**fields_of(text), "identifier": identifier, **changes}
    # Without a default, a missing field is reported by CronItem; the others get their defaults.
    kept: dict[str, Any] = {
        name: value for name, value in fields.items() if value is not None or name in ("task", "match")
    }
    return CronItem(**kept)


def _text(document: Mapping[str, Any]) -> str:
    return write_json(document).decode()


def _job(item: CronItem) -> str | None:
    """The job of the item with the defaults of its task, if the task is known here."""
    return None if isinstance(item.task, str) else _text(job_document(item))
