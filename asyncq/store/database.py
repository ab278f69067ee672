"""Connections: single ones that a worker keeps, and pools; each with an application_name that says what it is for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import asyncpg
from asyncpg.types import ServerVersion

from asyncq.domain.errors import (
    ConfigurationError,
    PoolExhausted,
    StoreUnavailable,
    UnsupportedServer,
)
from asyncq.store.dsn import read_dsn, warn_of_ignored, with_service
from asyncq.store.failures import UNTIDY, calling, connecting, on_our_own
from asyncq.store.hosts import Hosts
from asyncq.store.limits import own_limits
from asyncq.store.own import OwnConnection
from asyncq.store.pooled import PooledConnection, assignments, prelude
from asyncq.store.services import dsn_of_service, read_service
from asyncq.store.sessions import check_mode, check_own_session
from asyncq.store.sizes import check_size
from asyncq.store.statements import check_schema, query

# The layers above name the driver's types by these.
Connection = asyncpg.Connection
Pool = asyncpg.Pool
Record = asyncpg.Record
if TYPE_CHECKING:
    CallersConnection = asyncpg.Connection[Any] | asyncpg.pool.PoolConnectionProxy[Any]
else:
    CallersConnection = asyncpg.Connection | asyncpg.pool.PoolConnectionProxy

CONNECT_TIMEOUT_S = 10.0
OLDEST_SERVER = 14
ENCODING = "UTF8"
PUT_BACK_S = 5.0
# Of a handler that was cancelled: others may take its job over within half a second.
PUT_BACK_CANCELLED_S = 0.2
ANSWER_S = 5.0
LONGEST_ANSWER_S = 60.0
HANG_UP_S = 1.0
# The time limit of a statement in the server: longer than a worker waits for any answer, and a statement whose worker
# has died ends.
STATEMENT_S = 2 * LONGEST_ANSWER_S
# Another index is not as good as the one that has the order because all that it brings can be sorted, though that was
# cheap while the table was small.
SHUN_SORTS = {"enable_sort": "off"}


class Database:
    """Where the jobs are: a DSN and a schema.

    Args:
        dsn: A DSN in any form that `read_dsn` accepts, possibly with several hosts; `statement_cache_size=0` marks a
            pooler by transaction.
        schema: The schema's name.

    Attributes:
        dsn: The DSN as a URI that asyncpg reads.
        schema: The schema's name.
        is_pooled: Whether it leads to such a pooler.
        connect_timeout_s: How long an attempt to connect may take; 10 s unless the DSN says otherwise.
        has_session_locks: Whether a session can hold an advisory lock; the probe of the server decides.

    Raises:
        ConfigurationError: The schema's name or a parameter of the DSN cannot be used, or the DSN names a service that
            does not exist.
    """

    def __init__(self, dsn: str, schema: str) -> None:
        if not isinstance(dsn, str) or not dsn:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError("a DSN is needed, such as postgresql://user@host/database")
        read = read_dsn(dsn)
        service = read_service(read.uri)
        read = with_service(read, service)
        warn_of_ignored(read, stacklevel=3)
        self.dsn, self._statement_cache_size = read.uri, read.statement_cache_size
        self.connect_timeout_s = read.connect_timeout_s or CONNECT_TIMEOUT_S
        self._hosts = Hosts(self.dsn, service, self.connect_timeout_s, read.connect_timeout_s)
        self.is_pooled = self._statement_cache_size == 0
        self._has_own_sessions = False
        self.has_session_locks = not self.is_pooled
        self.schema = check_schema(schema)

    async def connect(
        self,
        role: str,
        *,
        generic_plans: bool = False,
        lock_timeout_s: float | None = None,
    ) -> asyncpg.Connection:
        """Open a connection.

        Args:
            role: What it is for; its application_name becomes `<schema> <role>`.
            generic_plans: Plan each statement once: for large statements that run all the time on few rows, whose
                planning costs more than they do.
            lock_timeout_s: How long a statement waits for a lock; as long as it takes by default.

        Returns:
            The connection.

        Raises:
            StoreUnavailable: The server cannot be reached.
            AccessDenied: It refused the credentials.
            UnsupportedServer: It is older than PostgreSQL 14, or the database's encoding is not UTF8.
            ConfigurationError: The DSN leads to a pooler by transaction, without `statement_cache_size=0`.

        If cancelled, no connection stays open.
        """
        settings = {
            # A database or a role may default to another isolation: every statement of ours is made for this one.
            "default_transaction_isolation": "read committed",
            # Over large tables the planner thinks that a fetch is worth compiling, which takes a hundred times as long.
            "jit": "off",
            # Who may create functions in a schema of the usual path would otherwise choose what ours call.
            "search_path": "pg_catalog, pg_temp",
            # Plans are kept: one that was made while the tables were empty has to be right when they are full.
            "enable_seqscan": "off",
        }
        if generic_plans:
            # They take a few rows in the order of an index; a bitmap of all that match has none.
            settings |= {"plan_cache_mode": "force_generic_plan", "enable_bitmapscan": "off"}
            settings |= SHUN_SORTS
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
            check_encoding(encoding_of(connection))
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
        """A pool that opens connections on demand, up to size; it has to be awaited.

        Args:
            role: What it is for.
            size: How many connections at most.
            reset: What to do when a connection comes back; the driver's reset by default.
            init: What to do with a new connection that leads to the server itself.
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
        """Open a connection: all connections of asyncq are opened here, and a pool calls it with its DSN.

        A pooler by transaction is refused unless the DSN has `statement_cache_size=0`; one by statement always, if it
        says so.
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
        """The driver's options for a connection."""
        how: dict[str, Any] = {
            "server_settings": {"application_name": f"{self.schema} {role}"},
            "connection_class": PooledConnection if self.is_pooled else OwnConnection,
        }
        if self._statement_cache_size is not None:
            how["statement_cache_size"] = self._statement_cache_size
        return how

    def query(self, name: str) -> str:
        """A statement of sql/queries for this schema."""
        return query(name, self.schema)


class ReconnectingConnection:
    """One connection that is kept, and opened again when it broke; callers wait for each other.

    Args:
        database: Where to.
        role: What it is for.
        generic_plans: See `Database.connect`.
        lock_timeout_s: See `Database.connect`.
        answer_s: How long a statement may go without an answer before its connection counts as dead, for the sake of
            those that wait for the line; 5 s by default. Where it was too short, twice as long the next time, up to a
            minute.
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
        self._role = role
        self._generic_plans = generic_plans
        self._lock_timeout_s = lock_timeout_s
        self._answer_s = ANSWER_S if answer_s is None else answer_s
        self._deadlines_s: dict[str, float] = {}  # of statements that were not answered the last time
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
            self._connection = await self._database.connect(
                self._role, generic_plans=self._generic_plans, lock_timeout_s=self._lock_timeout_s
            )
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
            InvalidJob: The parameters exceed 256 MiB; nothing was sent.

        If cancelled, the server is asked to stop; whether it did is unknown. Callers shield what must not be lost.
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
                    # Without an answer in time the link may be dead: the next statement would wait for the end of this.
                    connection.terminate()
                    self._deadlines_s[name] = min(2 * deadline_s, max(LONGEST_ANSWER_S, self._answer_s))
                    raise
            self._deadlines_s.pop(name, None)
            return rows

    async def ready(self) -> None:
        """Open the connection if need be: connecting may take long, and, unlike `fetch`, be cancelled without loss.

        Raises:
            StoreError: See `failures.connecting`.
        """
        if not self.is_open:
            async with self._free:
                await self.connection()

    async def rest(self) -> None:
        """Close the connection until it is needed again, unless somebody uses it now."""
        if not self._free.locked():
            await self.close()

    async def close(self) -> None:
        """Close the connection, if one is open, when the statement that runs has ended; within a second or by force."""
        try:
            # The driver would cancel the statement, whose caller waits for it.
            async with asyncio.timeout(HANG_UP_S), self._free:
                if self._connection is not None:
                    await hang_up(self._connection)
        except TimeoutError:
            if self._connection is not None:
                self._connection.terminate()
        self._connection = None


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
        self._is_closed = False

    @asynccontextmanager
    async def acquire(self) -> AsyncGenerator[asyncpg.Connection]:
        """A connection for as long as the block lasts.

        Raises:
            PoolExhausted: None became free in time.
            StoreUnavailable: The server cannot be reached, or the pool is closed.

        If cancelled, the connection is closed unless the server soon says that it has stopped what it did: a caller
        that waits for a link that is dead has not ended, and counts on having ended.
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
        """A connection, to be given to `put_back`; raises as `acquire` does.

        If cancelled, none was taken.
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
                # With fewer connections than allowed it is the server that did not answer.
                if pool.get_size() < self._size:
                    raise
                raise PoolExhausted(
                    f"no connection for a handler became free within {self._wait_s:g} s: all {self._size} are held by "
                    "other handlers; hold them for a shorter time, or raise pool_size"
                ) from error
        return cast(asyncpg.Connection, connection)

    async def put_back(self, connection: asyncpg.Connection) -> None:
        """Take a connection back, within seconds or by closing it; never raises for what is wrong with it."""
        await put_back(self._pool, connection, PUT_BACK_S)

    async def close(self) -> None:
        """Close all connections for good; those that are still held are cut after a second."""
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
    """Give a connection back to its pool; never raises for what is wrong with it.

    Args:
        pool: The pool; None if there is none any more.
        connection: It.
        limit_s: How long the driver may take to look after it; then it is cut off.
    """
    try:
        if pool is not None:
            # A proxy has every method of a connection. The driver's own limit: one around it would leave a task behind.
            await pool.release(cast(Any, connection), timeout=limit_s)
    except UNTIDY:
        cut_off(connection)


def is_closed(connection: asyncpg.Connection) -> bool:
    """Whether a connection is closed, or was of a pool that has it back."""
    try:
        return connection.is_closed()
    except asyncpg.InterfaceError:
        return True  # A proxy whose connection has broken cannot be asked anything.


def cut_off(connection: asyncpg.Connection) -> None:
    """Close a connection by force, at once; nothing if it is closed, or was of a pool that has it back."""
    if not is_closed(connection):
        connection.terminate()


async def _set(connection: asyncpg.Connection, settings: Mapping[str, str]) -> None:
    """Set the settings of a session, after the login: a pooler by session would refuse them in it."""
    try:
        await connection.execute(assignments("set", settings))
    except BaseException:
        connection.terminate()
        raise


async def set_up(connection: asyncpg.Connection) -> None:
    """Let each statement run at READ COMMITTED, by a plan that is right once tables are full, as those of `connect` do.

    Not asked for at the login, which poolers by session would refuse.
    """
    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        await connection.execute(
            "set default_transaction_isolation = 'read committed'; set enable_seqscan = off; set jit = off"
        )


async def hang_up(connection: asyncpg.Connection) -> None:
    """Close a connection, within a second or by force; nothing if it is closed, or was of a pool that has it back."""
    if is_closed(connection):
        return
    try:
        await connection.close(timeout=HANG_UP_S)
    except UNTIDY:
        connection.terminate()


def check_server(version: ServerVersion) -> None:
    """Refuse servers that are too old.

    Raises:
        UnsupportedServer: It is older than PostgreSQL 14.
    """
    if version.major < OLDEST_SERVER:
        # asyncpg reads 13.5 as 13.0.5.
        said = f"{version.major}.{version.micro}"
        raise UnsupportedServer(f"asyncq needs PostgreSQL {OLDEST_SERVER} or newer, this server is {said}")


def encoding_of(connection: asyncpg.Connection) -> str | None:
    """The encoding of a connection's database, as the server said at the login; None where a pooler does not tell."""
    return getattr(connection.get_settings(), "server_encoding", None)


def check_encoding(encoding: str | None) -> None:
    """Refuse databases that cannot hold each text: one error's text would keep a worker from settling, for ever.

    Args:
        encoding: The database's encoding; None if it is not known, which is accepted.

    Raises:
        UnsupportedServer: It is not UTF8.
    """
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
        return dsn_of_service(service)
    if os.environ.get("PGDATABASE") or os.environ.get("PGHOST"):
        return "postgresql://"
    return None
