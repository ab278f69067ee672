"""Makes the schemas of the tests and takes them back, on one connection that is kept.

Each new connection begins with empty caches and reads the catalog into them first, which costs more than the schema
does. The connection has a thread and an event loop of its own, so that it outlives those of a test.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import asyncpg
from anyio.from_thread import BlockingPortal, start_blocking_portal

from asyncq.store.statements import render
from asyncq.testing.schema import drop, install

LEFT = """
select 'claim of job ' || id as what from asyncq._all_jobs() where locked_by is not null
union all
select 'queue ' || name from asyncq._queues
union all
select 'worker ' || id from asyncq._workers
union all
select law || coalesce(' job ' || job_id, '') || ' ' || said from asyncq.violations()
"""
# The server is older, since `grow_up` waits: a silent worker of a new schema is dead at once. Free locks do not count.
RUN = "update asyncq._server_runs set since = clock_timestamp() - interval '10 seconds'"
OPEN = "select 'connection ' || application_name from pg_catalog.pg_stat_activity where application_name ^@ $1"


class Landlord:
    """Lets schemas on a server.

    Args:
        dsn: The server.
        portal: The way into the thread of the connection.
    """

    def __init__(self, dsn: str, portal: BlockingPortal) -> None:
        self._dsn = dsn
        self._portal = portal
        self._connection: asyncpg.Connection | None = None

    @asynccontextmanager
    async def schema(self) -> AsyncGenerator[str]:
        """An installed schema; it is dropped at the end."""
        name = f"t_{secrets.token_hex(6)}"
        await self._do(install, name)
        try:
            await self._do(_execute, render(RUN, name))
            yield name
        finally:
            await self._do(drop, name)

    async def connections(self, schema: str) -> list[str]:
        """The open connections of a schema, by their names."""
        return await self._do(_names, OPEN, f"{schema} ")

    async def claims(self, schema: str) -> list[str]:
        """What workers hold in a schema, and themselves, and what breaks a law of the store."""
        return await self._do(_names, render(LEFT, schema))

    async def _do(self, work: Callable[..., Awaitable[Any]], *args: str) -> Any:
        """Do something on the connection, in its thread."""

        async def do() -> Any:
            if self._connection is None or self._connection.is_closed():
                self._connection = await asyncpg.connect(self._dsn, server_settings={"application_name": "landlord"})
            return await work(self._connection, *args)

        return await asyncio.wrap_future(self._portal.start_task_soon(do))

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            await self._connection.close(timeout=5)


async def _execute(connection: asyncpg.Connection, query: str) -> None:
    await connection.execute(query)


async def _names(connection: asyncpg.Connection, query: str, *args: str) -> list[str]:
    return [row[0] for row in await connection.fetch(query, *args)]


async def grow_up(dsn: str) -> None:
    """Wait until a server is older than the return window, in which no worker is declared dead."""
    connection = await asyncpg.connect(dsn, server_settings={"application_name": "landlord"})
    try:
        await connection.execute("""
            select pg_sleep_until(pg_postmaster_start_time() + interval '10.1 seconds')
            where pg_postmaster_start_time() + interval '10.1 seconds' > clock_timestamp()""")
    finally:
        await connection.close(timeout=5)


@contextmanager
def landlord_of(dsn: str) -> Generator[Landlord]:
    """The landlord of a server, for as long as the block lasts."""
    with start_blocking_portal("asyncio") as portal:
        landlord = Landlord(dsn, portal)
        yield landlord
        portal.call(landlord.close)
