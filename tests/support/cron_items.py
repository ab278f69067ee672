"""Helpers for recurring items in SQL."""

import json
from typing import Any

import asyncpg

from tests.support.session import Session


async def add_item(
    sql: Session,
    item: str = "a",
    expression: str = "* * * * *",
    *,
    task: str = "t",
    payload: Any = None,
    **options: Any,
) -> asyncpg.Record:
    """Store an item; returns its status."""
    return await sql.row(
        "select added.* from asyncq.add_cron_item($1, $2, $3, $4::text::json, $5::text::jsonb) as added",
        item,
        task,
        expression,
        None if payload is None else json.dumps(payload),
        json.dumps(options),
    )


async def declare(sql: Session, *, tasks: tuple[str, ...] = (), lease_s: float = 3600.0, **items: Any) -> int:
    """A worker whose own crontab has these items; returns its id."""
    [row] = await sql.run("register_worker", lease_s, 1, 1, "h", list(tasks), 0, None, [])
    worker: int = row["id"]
    await sql.run("declare_cron", worker, json.dumps(items))
    return worker


async def revision(sql: Session, item: str = "a") -> int:
    """The revision of a stored item."""
    found: int = await sql.value("select revision from asyncq._cron_items where identifier = $1", item)
    return found


async def known(sql: Session, item: str = "a") -> asyncpg.Record:
    """The stored state of an item."""
    return await sql.row("select * from asyncq.known_crontabs where identifier = $1", item)
