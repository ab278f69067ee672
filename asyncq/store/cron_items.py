"""Recurring items as administrators see them, on any connection: list, add, change, pause, resume, remove, run."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from asyncq.domain.cron.status import CronStatus, read_status
from asyncq.domain.job import Added
from asyncq.domain.states import JobState
from asyncq.store.crontabs import Definition
from asyncq.store.database import Connection, Database, Record
from asyncq.store.sizes import check_size

Act = Literal["pause", "resume", "remove"]


async def statuses(database: Database, connection: Connection, items: Sequence[str] | None) -> list[CronStatus]:
    """Read the state of all items (None), or of those with these identifiers, ordered by identifier."""
    rows = await _fetch(database, connection, "cron_status", items)
    return [_status(row) for row in rows]


async def stored(database: Database, connection: Connection, item: str) -> Definition | None:
    """Read the definition of a stored item; None if there is none."""
    rows = await _fetch(database, connection, "stored_item", item)
    return Definition(item, rows[0]["revision"], rows[0]["definition"]) if rows else None


async def add(database: Database, connection: Connection, item: str, definition: str, job: str | None) -> None:
    """Store an item."""
    await _fetch(database, connection, "add_cron_item", item, definition, job)


async def change(
    database: Database, connection: Connection, item: str, changes: str, job: str | None, revision: int | None
) -> bool:
    """Change a stored item, with a revision only if it still has that one. Returns whether it was changed."""
    rows = await _fetch(database, connection, "change_cron_item", item, changes, job, revision)
    return bool(rows[0]["changed"])


async def act(database: Database, connection: Connection, what: Act, item: str) -> CronStatus:
    """Pause, resume or remove an item; returns its state after that, or before its removal."""
    rows = await _fetch(database, connection, f"{what}_cron_item", item)
    return _status(rows[0])


async def run(database: Database, connection: Connection, item: str) -> Added:
    """Add the job of an item now; returns the result of the add."""
    row = (await _fetch(database, connection, "run_cron_item", item))[0]
    state = row["existing_state"]
    return Added(row["id"], row["outcome"], row["existing_id"], state and JobState(state))


def _status(row: Record) -> CronStatus:
    return read_status(row["document"], msgspec.json.decode(row["now"], type=datetime))


async def _fetch(database: Database, connection: Connection, query: str, *args: Any) -> list[Record]:
    check_size("items", args)
    return await database.fetch(connection, query, *args)
