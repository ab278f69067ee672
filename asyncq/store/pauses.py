"""Pauses and resumes, and reads what is paused, on any connection."""

from typing import Any

from asyncq.domain.pause import Pause
from asyncq.store.database import Connection
from asyncq.store.schema import Schema

Target = tuple[str | None, str | None, str | None, str | None, str | None, str | None]
"""The arguments of the SQL functions in their order: task, queue, limit, key, reason, by."""


async def pause(database: Schema, connection: Connection, target: Target) -> Pause:
    """Pause; returns the pause."""
    (row,) = await database.fetch(connection, "pause", *target)
    return _pause(row)


async def resume(database: Schema, connection: Connection, target: Target) -> Pause | None:
    """Resume; returns the pause that has ended, None if there was none."""
    (row,) = await database.fetch(connection, "resume", *target)
    return None if row["what"] is None else _pause(row)


async def paused(database: Schema, connection: Connection, older_s: float | None = None) -> list[Pause]:
    """Read what is paused, or has been for so many seconds, the earliest pause first."""
    return [_pause(row) for row in await database.fetch(connection, "pauses", older_s)]


def _pause(row: Any) -> Pause:
    return Pause(row["what"], row["name"], row["key"], row["paused_at"], row["paused_by"], row["reason"])
