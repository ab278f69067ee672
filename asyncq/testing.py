"""The kit for tests, ours and our users': a schema for the test, run due jobs, assert what was added, move the clock."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from asyncq.store.database import Database
from asyncq.store.migrate import migrate


@asynccontextmanager
async def temporary_schema(dsn: str, prefix: str = "t") -> AsyncIterator[str]:
    """A schema of its own for a test, installed, and dropped at the end.

    Args:
        dsn: A database in which schemas may be created.
        prefix: How its name begins.

    Yields:
        The schema's name.

    Raises:
        StoreError: The database cannot be used.
    """
    schema = f"{prefix}_{secrets.token_hex(6)}"
    database = Database(dsn, schema)
    await migrate(database)
    try:
        yield schema
    finally:
        connection = await database.connect("testing")
        try:
            await connection.execute("set client_min_messages = warning")
            await connection.execute(f"drop schema {schema} cascade")
        finally:
            await connection.close(timeout=5.0)
