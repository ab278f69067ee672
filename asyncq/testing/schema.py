"""A schema of its own for a test: installed, marked as one whose clock may be moved, dropped at the end."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from asyncq.store.database import Database
from asyncq.store.failures import calling
from asyncq.store.migrate import migrate

MARK = "asyncq.testing"
DROP_PATIENCE_S = 10


@asynccontextmanager
async def temporary_schema(dsn: str, prefix: str = "t") -> AsyncGenerator[str]:
    """A schema of its own for a test, installed, and dropped at the end.

    Args:
        dsn: A database in which schemas may be created.
        prefix: How its name begins; `t` by default, at most 27 characters.

    Yields:
        The schema's name.

    Raises:
        ConfigurationError: The prefix cannot begin a schema's name.
        StoreError: The database cannot be used; or, at the end, a connection still holds a lock in the schema: some
            transaction was left open.

    If cancelled in the block, the schema is dropped too.

    As a fixture, with anyio's plugin for pytest:

        @pytest.fixture
        async def schema(dsn: str) -> AsyncIterator[str]:
            async with temporary_schema(dsn) as name:
                yield name
    """
    schema = f"{prefix}_{secrets.token_hex(6)}"
    database = Database(dsn, schema)
    await migrate(database)
    try:
        await _execute(database, f"comment on schema {schema} is '{MARK}'")
        yield schema
    finally:
        await _execute(database, f"drop schema {schema} cascade")


async def _execute(database: Database, statement: str) -> None:
    connection = await database.connect("testing")
    try:
        with calling(database.schema):
            await connection.execute(f"set lock_timeout = '{DROP_PATIENCE_S}s'; set client_min_messages = warning")
            await connection.execute(statement)
    finally:
        await connection.close(timeout=5.0)
