"""Connections: single ones that a worker keeps, and pools; each with an application_name that says what it is for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from asyncq.domain.errors import ConfigurationError, PoolExhausted, UnsupportedServer
from asyncq.store.failures import calling, connecting
from asyncq.store.statements import check_schema, query

CONNECT_TIMEOUT_S = 10.0
OLDEST_SERVER = 140000


class Database:
    """Where the jobs are: a DSN and a schema.

    Args:
        dsn: A DSN as asyncpg takes it, with several hosts if need be.
        schema: The schema's name.

    Raises:
        ConfigurationError: The schema's name cannot be used.
    """

    def __init__(self, dsn: str, schema: str) -> None:
        if not isinstance(dsn, str) or not dsn:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError("a DSN is needed, such as postgresql://user@host/database")
        self.dsn = dsn
        self.schema = check_schema(schema)

    async def connect(self, role: str, *, generic_plans: bool = False) -> asyncpg.Connection:
        """Open a connection.

        Args:
            role: What it is for; its application_name becomes `asyncq <role>`.
            generic_plans: Plan each statement once: for large statements that run all the time on few rows, whose
                planning costs more than they do.

        Returns:
            The connection.

        Raises:
            StoreUnavailable: The server cannot be reached.
            AccessDenied: It refused the credentials.
            UnsupportedServer: It is older than PostgreSQL 14.

        If cancelled, no connection stays open.
        """
        settings = {"application_name": f"{self.schema} {role}"}
        if generic_plans:
            settings["plan_cache_mode"] = "force_generic_plan"
        with connecting(self.dsn):
            connection = await asyncpg.connect(self.dsn, timeout=CONNECT_TIMEOUT_S, server_settings=settings)
        check_server(connection)
        return connection

    def pool(self, role: str, size: int, *, reset: Callable[[Any], Any] | None = None) -> asyncpg.Pool:
        """A pool that opens connections on demand, up to size; it has to be awaited.

        Args:
            role: What it is for.
            size: How many connections at most.
            reset: What to do when a connection comes back; the driver's reset by default.
        """
        return asyncpg.create_pool(
            self.dsn,
            min_size=0,
            max_size=size,
            max_inactive_connection_lifetime=30.0,
            timeout=CONNECT_TIMEOUT_S,
            reset=reset,
            server_settings={"application_name": f"{self.schema} {role}"},
        )

    def query(self, name: str) -> str:
        """A statement of sql/queries for this schema."""
        return query(name, self.schema)


class Line:
    """One connection that is kept, and opened again when it broke; callers wait for each other.

    Args:
        database: Where to.
        role: What it is for.
        generic_plans: See `Database.connect`.
    """

    def __init__(self, database: Database, role: str, *, generic_plans: bool = False) -> None:
        self._database = database
        self._role = role
        self._generic_plans = generic_plans
        self._free = asyncio.Lock()
        self._connection: asyncpg.Connection | None = None

    @property
    def is_open(self) -> bool:
        """Whether a connection is open now."""
        return self._connection is not None and not self._connection.is_closed()

    async def connection(self) -> asyncpg.Connection:
        """The connection, opened if need be."""
        if self._connection is None or self._connection.is_closed():
            self._connection = None
            self._connection = await self._database.connect(self._role, generic_plans=self._generic_plans)
        return self._connection

    async def fetch(self, name: str, *args: Any) -> list[asyncpg.Record]:
        """Run a statement of sql/queries.

        Args:
            name: The file's name without its ending.
            *args: Its parameters.

        Returns:
            Its rows.

        Raises:
            StoreError: See `failures.calling`.

        If cancelled, the server is asked to stop; whether it did is unknown. Callers shield what must not be lost.
        """
        async with self._free:
            connection = await self.connection()
            with calling(self._database.schema):
                return await connection.fetch(self._database.query(name), *args)

    async def close(self) -> None:
        """Close the connection, if one is open; within a second or by force."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            try:
                await connection.close(timeout=1.0)
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                connection.terminate()


class HandlerPool:
    """The connections that handlers share, opened when the first one asks.

    Args:
        database: Where to.
        size: How many at most.
        wait_s: How long one waits for a connection.
    """

    def __init__(self, database: Database, size: int, wait_s: float) -> None:
        self._database = database
        self._size = size
        self._wait_s = wait_s
        self._pool: asyncpg.Pool | None = None

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[asyncpg.Connection]:
        """A connection for as long as the block lasts.

        Raises:
            PoolExhausted: None became free in time.
            StoreUnavailable: The server cannot be reached.
        """
        if self._pool is None:
            self._pool = self._database.pool("handlers", self._size)
        pool = self._pool
        with connecting(self._database.dsn):
            await pool
        try:
            connection = await pool.acquire(timeout=self._wait_s)
        except TimeoutError as error:
            raise PoolExhausted(
                f"no connection for a handler became free within {self._wait_s:g} s: all {self._size} are held by other "
                "handlers; hold them for a shorter time, or raise pool_size"
            ) from error
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            with connecting(self._database.dsn):
                raise
        try:
            yield connection  # pyright: ignore[reportReturnType]
        finally:
            await pool.release(connection)

    async def close(self) -> None:
        """Close all connections; those that are still held are cut after a second."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            async with asyncio.timeout(1.0):
                await pool.close()
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            pool.terminate()


def check_server(connection: asyncpg.Connection) -> None:
    """Refuse servers that are too old.

    Raises:
        UnsupportedServer: It is older than PostgreSQL 14.
    """
    version = connection.get_server_version()
    if version.major * 10000 < OLDEST_SERVER:
        raise UnsupportedServer(f"asyncq needs PostgreSQL 14 or newer, this server is {version.major}.{version.minor}")


def default_dsn() -> str | None:
    """The DSN of the environment: DATABASE_URL, else an empty DSN when PG* variables say where to, else None."""
    if dsn := os.environ.get("DATABASE_URL"):
        return dsn
    if os.environ.get("PGDATABASE") or os.environ.get("PGHOST") or os.environ.get("PGSERVICE"):
        return "postgresql://"
    return None
