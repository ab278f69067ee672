"""A connection for SQL as in sql/: the word `asyncq` means the test's schema."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from asyncq.store.statements import query, render

_numbers = itertools.count(1)


class Session:
    """One connection and one schema.

    Attributes:
        connection: The connection itself.
        schema: The schema's name.
    """

    def __init__(self, connection: asyncpg.Connection, schema: str) -> None:
        self.connection = connection
        self.schema = schema
        self._prepared: dict[str, Any] = {}

    async def rows(self, text: str, *args: Any) -> list[asyncpg.Record]:
        """All rows of a statement."""
        return await self.connection.fetch(render(text, self.schema), *args)

    async def row(self, text: str, *args: Any) -> asyncpg.Record:
        """The only row of a statement."""
        (row,) = await self.rows(text, *args)
        return row

    async def value(self, text: str, *args: Any) -> Any:
        """The first column of the only row."""
        return (await self.row(text, *args))[0]

    async def values(self, text: str, *args: Any) -> list[Any]:
        """The first column of all rows."""
        return [row[0] for row in await self.rows(text, *args)]

    async def execute(self, text: str) -> None:
        """Run statements without parameters."""
        await self.connection.execute(render(text, self.schema))

    async def run(self, name: str, *args: Any) -> list[asyncpg.Record]:
        """Run a statement of sql/queries, prepared once: most are large, and take longer to plan than to run."""
        if name not in self._prepared:
            self._prepared[name] = await self.connection.prepare(
                query(name, self.schema), name=f"{name}_{next(_numbers)}"
            )
        return await self._prepared[name].fetch(*args)

    async def refusal(self, text: str, *args: Any) -> asyncpg.PostgresError:
        """The error of a refused statement; the transaction around it continues."""
        try:
            async with self.connection.transaction():
                await self.rows(text, *args)
        except asyncpg.PostgresError as error:
            return error
        raise AssertionError(f"not refused: {text}")


# As all connections of asyncq: the server would compile a plan that shuns scans, which takes seconds.
# A statement that waits for a lock where it should not fails after a few seconds, instead of hanging.
SETTINGS = {"application_name": "test", "jit": "off", "lock_timeout": "5s"}


@asynccontextmanager
async def session(dsn: str, schema: str, *, user: str | None = None, **settings: str) -> AsyncIterator[Session]:
    """A session of its own, closed at the end.

    Args:
        dsn: The server.
        schema: The schema.
        user: The role that logs in; the one of the DSN by default.
        **settings: Settings of the connection.
    """
    connection = await asyncpg.connect(
        dsn, user=user, server_settings=SETTINGS | settings, max_cacheable_statement_size=0
    )
    try:
        yield Session(connection, schema)
    finally:
        await connection.close(timeout=5)


class KeptConnections:
    """Connections that tests use one after the other.

    A new connection first reads the catalog and compiles the functions that it calls, which takes longer than most
    tests do. At the end of a test its connection is reset. A connection that a test has broken, or has left in a
    transaction, is closed. No statement stays prepared, so that no plan of one test is used by another. The server
    counts the rows of a test before the next one begins; PostgreSQL 14 cannot, so there each connection is closed.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._free: list[asyncpg.Connection] = []

    @asynccontextmanager
    async def session(self, schema: str) -> AsyncIterator[Session]:
        """A session on a connection that nobody else uses."""
        self._free = [connection for connection in self._free if not connection.is_closed()]
        if self._free:
            connection = self._free.pop()
        else:
            # As the connections on which workers fetch and settle.
            settings = SETTINGS | {"plan_cache_mode": "force_generic_plan"}
            connection = await asyncpg.connect(self._dsn, server_settings=settings, statement_cache_size=0)
        try:
            yield Session(connection, schema)
        finally:
            is_old = connection.get_server_version().major < 15
            if is_old or connection.is_closed() or connection.is_in_transaction():
                await connection.close(timeout=5)
            else:
                await connection.reset(timeout=5)
                await connection.execute("select pg_stat_force_next_flush()", timeout=5)
                self._free.append(connection)

    async def close(self) -> None:
        """Close the connections."""
        for connection in self._free:
            await connection.close(timeout=5)
