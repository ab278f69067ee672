"""Helpers for slots in SQL: minutes of one hour, written as numbers."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg

from tests.support.session import Session

HOUR = datetime(2024, 5, 1, 12, tzinfo=UTC)

Pair = tuple[str, int]


def at(minute: int) -> datetime:
    """A slot."""
    return HOUR + timedelta(minutes=minute)


async def due(sql: Session, *pairs: Pair) -> list[Pair]:
    """Find the due slots of items, and lock the items. Returns the due ones, in order."""
    items, minutes = [item for item, _ in pairs], [at(minute) for _, minute in pairs]
    revisions = [None] * len(pairs)
    ords = await sql.value(
        "select due from asyncq._due_slots($1::text[], $2::timestamptz[], $3::bigint[])", items, minutes, revisions
    )
    return [pairs[ord_ - 1] for ord_ in ords]


async def add_slots(sql: Session, *pairs: Pair, **columns: Sequence[Any]) -> list[asyncpg.Record]:
    """Add the jobs of slots: the task is the item's name, unless a column says otherwise."""
    items = [item for item, _ in pairs]
    return await sql.run(
        "add_slots",
        items,
        [at(minute) for _, minute in pairs],
        columns.get("revisions", [None] * len(pairs)),
        columns.get("identifiers", items),
        *(columns.get(name, [None] * len(pairs)) for name in ("payloads", "queue_names", "extras")),
    )


async def jobs(sql: Session) -> list[Pair]:
    """The task and the slot of each job, in the order of their ids."""
    rows = await sql.rows("select task_identifier, run_at from asyncq.jobs order by id")
    return [(row[0], (row[1] - HOUR) // timedelta(minutes=1)) for row in rows]


async def last(sql: Session) -> list[Pair]:
    """The last slot of each item that has one."""
    rows = await sql.rows("""
        select identifier, last_execution from asyncq.known_crontabs where last_execution is not null order by 1""")
    return [(row[0], (row[1] - HOUR) // timedelta(minutes=1)) for row in rows]
