"""Opens single connections and pools; each application_name says the purpose of a connection."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

import asyncpg
from asyncpg.types import ServerVersion

from asyncq.domain.codec import Envelopes
from asyncq.domain.errors import ConfigurationError, PoolExhausted, StoreUnavailable, UnsupportedServer
from asyncq.store.adapters.kinds import PsycopgConnection, PsycopgCursor, SqlalchemyConnection
from asyncq.store.dsn import read_dsn, warn_of_ignored
from asyncq.store.failures import UNTIDY, calling, connecting, cut_off, is_closed, on_our_own
from asyncq.store.hosts import Hosts
from asyncq.store.limits import own_limits
from asyncq.store.own import OwnConnection
from asyncq.store.pooled import PooledConnection, assignments, prelude
from asyncq.store.schema import Schema
from asyncq.store.sessions import check_mode, check_own_session
from asyncq.store.sizes import check_size

# The layers above name the driver's types by these.
Connection = asyncpg.Connection
Pool = asyncpg.Pool
Record = asyncpg.Record
if TYPE_CHECKING:
    AsyncpgConnection = asyncpg.Connection[Any] | asyncpg.pool.PoolConnectionProxy[Any]
else:
    AsyncpgConnection = asyncpg.Connection | asyncpg.pool.PoolConnectionProxy
# The connections that an argument `connection` takes.
CallersConnection = AsyncpgConnection | SqlalchemyConnection | PsycopgConnection | PsycopgCursor

CONNECT_TIMEOUT_S = 10.0
OLDEST_SERVER = 14
ENCODING = "UTF8"
PUT_BACK_S = 5.0
# After a handler was cancelled: another worker may run its job within half a second.
PUT_BACK_CANCELLED_S = 0.2
ANSWER_S = 5.0
LONGEST_ANSWER_S = 60.0
HANG_UP_S = 1.0
# The time limit of a statement in the server, longer than a worker waits for any answer: it ends statements of dead
# workers.
STATEMENT_S = 2 * LONGEST_ANSWER_S
SETTINGS = {
    # A database or a role may have another default; asyncq's statements are written for this level.
    "default_transaction_isolation": "read committed",
    # For a fetch from large tables the planner would choose jit, which takes a hundred times as long.
    "jit": "off",
    # A plan is kept: one made for empty tables has to be right for full ones.
    "enable_seqscan": "off",
}


class Database(Schema):
    """The DSN and the schema that hold the jobs.

    ConfigurationError if the schema's name or a parameter of the DSN cannot be used, or if the DSN names a service that
    does not exist.

    Attributes:
        dsn: The DSN as a URI that asyncpg reads, from any form that `read_dsn` accepts.
        is_pooled: Whether the DSN leads to a pooler by transaction, which `statement_cache_size=0` in it says.
        connect_timeout_s: How long an attempt to connect may take; 10 s unless the DSN says otherwise.
        has_session_locks: Whether a session can hold an advisory lock; the probe of the server decides.
    """

    def __init__(self, dsn: str, schema: str, envelopes: Envelopes | None = None) -> None:
        if not isinstance(dsn, str) or not dsn:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError("a DSN is needed, such as postgresql://user@host/database")
        read = read_dsn(dsn)
        warn_of_ignored(read, stacklevel=3)
        self.dsn, self._statement_cache_size = read.uri, read.statement_cache_size
        self.connect_timeout_s = read.connect_timeout_s or CONNECT_TIMEOUT_S
        self._hosts = Hosts(self.dsn, read.service, self.connect_timeout_s, read.connect_timeout_s)
        self.is_pooled = self._statement_cache_size == 0
        self._has_own_sessions = False
        self.has_session_locks = not self.is_pooled
        super().__init__(schema, envelopes)

    async def connect(
        self, role: str, *, generic_plans: bool = False, lock_timeout_s: float | None = None
    ) -> asyncpg.Connection:
        """Open a connection, whose application_name is `<schema> <role>`.

        With `generic_plans` each statement is planned once: for large, frequent statements on few rows, which take
        longer to plan than to run. A statement waits for a lock for up to `lock_timeout_s`, without a limit by default.

        UnsupportedServer if the server is older than PostgreSQL 14, or the database's encoding is not UTF8.
        ConfigurationError if the DSN leads to a pooler by transaction, without `statement_cache_size=0`.

        If cancelled, no connection stays open.
        """
        # With the usual path, a role that may create functions in its schemas could shadow built-in ones.
        settings = SETTINGS | {"search_path": "pg_catalog, pg_temp"}
        if generic_plans:
            # These statements read a few rows in the order of an index; a bitmap scan reads all matches, unordered. A
            # plan made on a small table may pick another index and sort, and is kept when the table is large.
            settings |= {"plan_cache_mode": "force_generic_plan", "enable_bitmapscan": "off", "enable_sort": "off"}
        with connecting(self.dsn):
            connection = await self._open(**self._how(role))
            settings |= own_limits(connection, statement_s=STATEMENT_S, lock_s=lock_timeout_s or 0)
            if not self.is_pooled:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    await _set(connection, settings)
        if self.is_pooled:
            cast(PooledConnection, connection).prelude = prelude(settings)
        try:
            check_server(connection.get_server_version())
            check_encoding(getattr(connection.get_settings(), "server_encoding", None))
        except UnsupportedServer:
            await hang_up(connection)
            raise
        return connection

    @asynccontextmanager
    async def connected(self, role: str) -> AsyncGenerator[asyncpg.Connection]:
        """A connection for as long as the block lasts; see `connect`. It is closed within a second, or by force."""
        connection = await self.connect(role)
        try:
            yield connection
        finally:
            await hang_up(connection)

    def pool(
        self,
        role: str,
        size: int,
        *,
        reset: Callable[[Any], Any] | None = None,
        init: Callable[[Any], Any] | None = None,
    ) -> asyncpg.Pool:
        """Return a pool that opens connections on demand; it has to be awaited.

        `reset` is called when a connection is released (the driver's by default), `init` with a new one, unless a
        pooler is between.
        """
        return asyncpg.create_pool(
            self.dsn,
            min_size=0,
            max_size=size,
            max_inactive_connection_lifetime=30.0,
            reset=reset,
            init=None if self.is_pooled else init,
            connect=self._open,
            **self._how(role),
        )

    async def _open(self, *_: object, **how: Any) -> asyncpg.Connection:
        """Open a connection: all connections of asyncq are opened here; a pool passes its DSN.

        A pooler by transaction is refused unless the DSN has `statement_cache_size=0`. A pooler by statement is refused
        if it reports its mode.
        """
        connection = await self._hosts.connect(**how)
        try:
            check_mode(connection, is_pooled=self.is_pooled)
            if not (self.is_pooled or self._has_own_sessions):
                async with asyncio.timeout(self.connect_timeout_s):
                    await check_own_session(connection, lambda: self._hosts.connect(**how))
                self._has_own_sessions = True
        except BaseException:
            connection.terminate()
            raise
        return connection

    def _how(self, role: str) -> dict[str, Any]:
        how: dict[str, Any] = {
            "server_settings": {"application_name": f"{self.schema} {role}"},
            "connection_class": PooledConnection if self.is_pooled else OwnConnection,
            # No limit: otherwise each call of a statement of more than 15 KiB is planned.
            "max_cacheable_statement_size": 0,
        }
        if self._statement_cache_size is not None:
            how["statement_cache_size"] = self._statement_cache_size
        return how


class ReconnectingConnection:
    """One connection that reconnects after a failure; callers use it one after the other.

    After `answer_s` without an answer it counts as dead, and the next caller gets a new one. A statement that had no
    answer gets twice the time the next time, up to a minute.
    """

    def __init__(
        self,
        database: Database,
        role: str,
        *,
        generic_plans: bool = False,
        lock_timeout_s: float | None = None,
        answer_s: float | None = None,
    ) -> None:
        self._database = database
        self._connect = partial(database.connect, role, generic_plans=generic_plans, lock_timeout_s=lock_timeout_s)
        self._answer_s = ANSWER_S if answer_s is None else answer_s
        self._deadlines_s: dict[str, float] = {}  # of statements that were not answered the last time
        self._free = asyncio.Lock()
        self._connection: asyncpg.Connection | None = None

    @property
    def is_open(self) -> bool:
        return self._connection is not None and not self._connection.is_closed()

    async def connection(self) -> asyncpg.Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = None
            self._connection = await self._connect()
        return self._connection

    async def fetch(self, name: str, *args: Any) -> list[asyncpg.Record]:
        """Run a statement of sql/queries, named by its file without the ending, and return its rows.

        If cancelled, it is unknown whether the server ran the statement. Callers shield statements that must not be
        lost.
        """
        check_size("parameters", args)
        async with self._free:
            connection = await self.connection()
            deadline_s = self._deadlines_s.get(name, self._answer_s)
            with on_our_own(connection), calling(self._database.schema):
                try:
                    async with asyncio.timeout(deadline_s):
                        rows = await connection.fetch(self._database.query(name), *args)
                except (asyncio.CancelledError, TimeoutError):
                    # The connection may be dead: the next statement would wait for this one.
                    connection.terminate()
                    self._deadlines_s[name] = min(2 * deadline_s, max(LONGEST_ANSWER_S, self._answer_s))
                    raise
            self._deadlines_s.pop(name, None)
            return rows

    async def ready(self) -> None:
        """Open the connection if needed. Unlike `fetch`, this can be cancelled without loss."""
        if not self.is_open:
            async with self._free:
                await self.connection()

    async def rest(self) -> None:
        """Close the connection until it is needed again, unless a statement runs."""
        if not self._free.locked():
            await self.close()

    async def close(self) -> None:
        """Close the connection after the running statement, within a second or by force."""
        try:
            # Without the lock the driver would cancel the running statement.
            async with asyncio.timeout(HANG_UP_S), self._free:
                if self._connection is not None:
                    await hang_up(self._connection)
        except TimeoutError:
            if self._connection is not None:
                self._connection.terminate()
        self._connection = None


class HandlerPool:
    """The connections that handlers share; the first use opens the pool."""

    def __init__(self, database: Database, size: int, wait_s: float) -> None:
        self._database = database
        self._size = size
        self._wait_s = wait_s
        self._pool: asyncpg.Pool | None = None
        self._is_closed = False

    @asynccontextmanager
    async def acquire(self) -> AsyncGenerator[asyncpg.Connection]:
        """Yield a connection until the block ends; raises as `take`.

        If cancelled, the connection is closed unless the server confirms soon that it stopped the statement. A longer
        wait, on a dead connection, would delay the end of the handler.
        """
        connection = await self.take()
        pool, limit_s = self._pool, PUT_BACK_S
        try:
            yield connection
        except asyncio.CancelledError:
            limit_s = PUT_BACK_CANCELLED_S
            raise
        finally:
            await put_back(pool, connection, limit_s)

    async def take(self) -> asyncpg.Connection:
        """Return a connection, which the caller gives to `put_back`.

        PoolExhausted if no connection became free in time, StoreUnavailable if the pool is closed. If cancelled, no
        connection was taken.
        """
        if self._is_closed:
            raise StoreUnavailable("the connections for handlers are closed: the worker has stopped")
        if self._pool is None:
            self._pool = self._database.pool("handlers", self._size)
        pool = self._pool
        with connecting(self._database.dsn):
            await pool
            try:
                connection = await pool.acquire(timeout=self._wait_s)
            except TimeoutError as error:
                # While the pool may still open connections, the server is the one that did not answer.
                if pool.get_size() < self._size:
                    raise
                raise PoolExhausted(
                    f"no connection for a handler became free within {self._wait_s:g} s: all {self._size} are held by "
                    "other handlers; hold them for a shorter time, or raise pool_size"
                ) from error
        return cast(asyncpg.Connection, connection)

    async def put_back(self, connection: asyncpg.Connection) -> None:
        """Release a connection within seconds; closes it if that fails. Never raises for a broken connection."""
        await put_back(self._pool, connection, PUT_BACK_S)

    async def close(self) -> None:
        """Close all connections; those still in use are closed by force after a second."""
        self._is_closed = True
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            async with asyncio.timeout(1.0):
                await pool.close()
        except UNTIDY:
            pool.terminate()


async def put_back(pool: Pool | None, connection: Connection, limit_s: float) -> None:
    """Release a connection to its pool; never raises for a broken one. After `limit_s` it is closed by force."""
    try:
        if pool is not None:
            # A proxy has every method of a connection. A timeout around the call would leave the driver's task running.
            await pool.release(cast(Any, connection), timeout=limit_s)
    except UNTIDY:
        cut_off(connection)


async def _set(connection: asyncpg.Connection, settings: Mapping[str, str]) -> None:
    """Set the settings of a session after the login: a pooler by session would refuse them in the login."""
    try:
        await connection.execute(assignments("set", settings))
    except BaseException:
        connection.terminate()
        raise


async def set_up(connection: asyncpg.Connection) -> None:
    """Set what `connect` sets for full tables, after the login, in which a pooler by session would refuse it."""
    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        await connection.execute(assignments("set", SETTINGS))


async def hang_up(connection: asyncpg.Connection) -> None:
    """Close a connection, within a second or by force; nothing if it is closed, or was released to its pool."""
    if is_closed(connection):
        return
    try:
        await connection.close(timeout=HANG_UP_S)
    except UNTIDY:
        connection.terminate()


def check_server(version: ServerVersion) -> None:
    """Raise UnsupportedServer for servers older than PostgreSQL 14."""
    if version.major < OLDEST_SERVER:
        # asyncpg reads 13.5 as 13.0.5.
        said = f"{version.major}.{version.micro}"
        raise UnsupportedServer(f"asyncq needs PostgreSQL {OLDEST_SERVER} or newer, this server is {said}")


def check_encoding(encoding: str | None) -> None:
    """Raise UnsupportedServer for a reported encoding but UTF8, in which no worker could store every error text."""
    if encoding is not None and encoding.replace("-", "").upper() != ENCODING:
        raise UnsupportedServer(
            f"asyncq needs a database whose encoding is {ENCODING}, this one's is {encoding}; "
            f"create another one: create database ... encoding '{ENCODING}' template template0"
        )


def default_dsn() -> str | None:
    """The DSN of the environment: DATABASE_URL, else that of PGSERVICE, else an empty one with PGHOST or PGDATABASE."""
    if dsn := os.environ.get("DATABASE_URL"):
        return dsn
    if service := os.environ.get("PGSERVICE"):
        # Parameters that the service lacks come from the environment.
        return f"postgresql://?service={quote(service, safe='')}"
    if os.environ.get("PGDATABASE") or os.environ.get("PGHOST"):
        return "postgresql://"
    return None
