"""A schema for one test: installed, marked as one whose clock may be moved, dropped at the end."""

import secrets
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio

from asyncq.store.database import Connection, Database
from asyncq.store.failures import calling
from asyncq.store.migrate import migrate_on

MARK = "asyncq.testing"
DROP_PATIENCE_S = 10
CLEAN_UP_S = 30.0  # including the connection; cancel scopes around it do not end it


@asynccontextmanager
async def temporary_schema(dsn: str, prefix: str = "t") -> AsyncGenerator[str]:
    """Install a schema for one test, and drop it at the end.

    Args:
        dsn: A database in which schemas may be created.
        prefix: The beginning of its name; `t` by default, at most 27 characters.

    Yields:
        The schema's name.

    Raises:
        ConfigurationError: A schema's name cannot begin with the prefix.
        StoreError: The database cannot be used. Or, at the end, another connection holds a lock in the schema, because
            a transaction was left open.

    If cancelled, in the block or before, the schema is dropped too.

    As a fixture, with anyio's plugin for pytest:

        @pytest.fixture
        async def schema(dsn: str) -> AsyncIterator[str]:
            async with temporary_schema(dsn) as name:
                yield name
    """
    database = Database(dsn, f"{prefix}_{secrets.token_hex(6)}")
    async with AsyncExitStack() as stack:
        async with database.connected("testing") as connection:
            stack.push_async_callback(_clean_up, database)
            await install(connection, database.schema)
        yield database.schema


async def _clean_up(database: Database) -> None:
    with calling(database.schema), anyio.fail_after(CLEAN_UP_S, shield=True):
        async with database.connected("testing") as connection:
            await drop(connection, database.schema)


async def install(connection: Connection, schema: str) -> None:
    """Install a schema whose clock may be moved."""
    with calling(schema):
        await migrate_on(connection, schema)
        await connection.execute(f"comment on schema {schema} is '{MARK}'")


async def drop(connection: Connection, schema: str) -> None:
    """Drop a schema with everything in it; StoreError if another connection holds a lock in it for ten seconds."""
    with calling(schema):
        await connection.execute(f"set lock_timeout = '{DROP_PATIENCE_S}s'; set client_min_messages = warning")
        await connection.execute(f"drop schema if exists {schema} cascade")
