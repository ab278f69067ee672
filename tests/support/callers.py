"""Connections that callers give, of each kind, with what their owners do with them."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import asyncpg
import psycopg
from psycopg.rows import class_row
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.pool import NullPool
from sqlmodel.ext.asyncio.session import AsyncSession as SqlmodelSession

AUTOCOMMIT = "AUTOCOMMIT"
ISOLATION = "REPEATABLE READ"


class Caller:
    """An owner of a connection.

    Attributes:
        connection: What is passed as `connection=`.
        run: Runs a statement.
        begin: Begins a transaction, where the library does not do so by itself.
        commit: Commits it.
        rollback: Rolls it back.
        savepoint: A block whose changes are rolled back if it raises.
    """

    def __init__(
        self,
        connection: Any,
        run: Callable[[str], Awaitable[Any]],
        *,
        begin: Callable[[], Awaitable[Any]],
        commit: Callable[[], Awaitable[Any]],
        rollback: Callable[[], Awaitable[Any]],
        savepoint: Callable[[], AbstractAsyncContextManager[Any]],
    ) -> None:
        self.connection = connection
        self.run = run
        self.begin = begin
        self.commit = commit
        self.rollback = rollback
        self.savepoint = savepoint


class _Undone(Exception):
    """Rolls a savepoint back."""


@asynccontextmanager
async def undone(caller: Caller) -> AsyncGenerator[None]:
    """A savepoint that is rolled back at the end of the block."""
    with suppress(_Undone):
        async with caller.savepoint():
            yield
            raise _Undone


async def _nothing() -> None:
    """The library begins a transaction by itself."""


def _of_asyncpg(connection: Any, level: str | None) -> Caller:
    begin = f"begin isolation level {level}" if level and level != AUTOCOMMIT else "begin"
    return Caller(
        connection,
        connection.execute,
        begin=_nothing if level == AUTOCOMMIT else lambda: connection.execute(begin),
        commit=lambda: connection.execute("commit"),
        rollback=lambda: connection.execute("rollback"),
        savepoint=lambda: _savepoint(connection),
    )


@asynccontextmanager
async def _savepoint(connection: Any) -> AsyncGenerator[None]:
    await connection.execute("savepoint s")
    try:
        yield
    except BaseException:
        await connection.execute("rollback to s")
        raise


def _of_sqlalchemy(given: Any) -> Caller:
    return Caller(
        given,
        lambda statement: getattr(given, "exec", given.execute)(text(statement)),
        begin=_nothing,
        commit=given.commit,
        rollback=given.rollback,
        savepoint=given.begin_nested,
    )


def _of_psycopg(given: Any, connection: Any) -> Caller:
    return Caller(
        given,
        connection.execute,
        begin=_nothing,
        commit=connection.commit,
        rollback=connection.rollback,
        savepoint=connection.transaction,
    )


@asynccontextmanager
async def asyncpg_connection(dsn: str, level: str | None) -> AsyncGenerator[Caller]:
    """A plain connection."""
    connection = await asyncpg.connect(dsn)
    try:
        yield _of_asyncpg(connection, level)
    finally:
        connection.terminate()


@asynccontextmanager
async def asyncpg_pool(dsn: str, level: str | None) -> AsyncGenerator[Caller]:
    """A connection of a pool."""
    pool = await asyncpg.create_pool(dsn, min_size=0, max_size=1)
    try:
        connection = await pool.acquire()
        yield _of_asyncpg(connection, level)
    finally:
        pool.terminate()


@asynccontextmanager
async def _engine(dsn: str, driver: str, level: str | None) -> AsyncGenerator[Any]:
    engine = create_async_engine(
        dsn.replace("postgresql://", f"postgresql+{driver}://"),
        poolclass=NullPool,
        **{"isolation_level": level} if level else {},
    )
    yield engine
    await engine.dispose()


def sqlalchemy_session(driver: str, kind: type[Any] = AsyncSession) -> Any:
    """A session, also of a subclass."""

    @asynccontextmanager
    async def opened(dsn: str, level: str | None) -> AsyncGenerator[Caller]:
        async with _engine(dsn, driver, level) as engine, kind(engine) as session:
            yield _of_sqlalchemy(session)

    return opened


def sqlalchemy_connection(driver: str) -> Any:
    """A connection of an engine."""

    @asynccontextmanager
    async def opened(dsn: str, level: str | None) -> AsyncGenerator[Caller]:
        async with _engine(dsn, driver, level) as engine, engine.connect() as connection:
            yield _of_sqlalchemy(connection)

    return opened


@asynccontextmanager
async def scoped_session(dsn: str, level: str | None) -> AsyncGenerator[Caller]:
    """The session of a scope."""
    async with _engine(dsn, "asyncpg", level) as engine:
        scoped = async_scoped_session(async_sessionmaker(engine), scopefunc=lambda: 1)
        try:
            yield _of_sqlalchemy(scoped)
        finally:
            await scoped.remove()


@asynccontextmanager
async def psycopg_connection(dsn: str, level: str | None) -> AsyncGenerator[Caller]:
    """A connection of psycopg 3, which returns rows of its own kind."""
    async with _psycopg(dsn, level) as connection:
        yield _of_psycopg(connection, connection)


@asynccontextmanager
async def psycopg_cursor(dsn: str, level: str | None) -> AsyncGenerator[Caller]:
    """A cursor of psycopg 3."""
    async with _psycopg(dsn, level) as connection:
        yield _of_psycopg(connection.cursor(), connection)


@asynccontextmanager
async def _psycopg(dsn: str, level: str | None) -> AsyncGenerator[Any]:
    connection = await psycopg.AsyncConnection.connect(
        dsn, autocommit=level == AUTOCOMMIT, row_factory=class_row(Caller), cursor_factory=psycopg.AsyncRawCursor
    )
    if level == ISOLATION:
        await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
    try:
        yield connection
    finally:
        await connection.close()


KINDS: dict[str, Callable[[str, str | None], AbstractAsyncContextManager[Caller]]] = {
    "asyncpg connection": asyncpg_connection,
    "asyncpg pool": asyncpg_pool,
    "sqlalchemy session, asyncpg": sqlalchemy_session("asyncpg"),
    "sqlalchemy session, psycopg": sqlalchemy_session("psycopg"),
    "sqlalchemy connection, asyncpg": sqlalchemy_connection("asyncpg"),
    "sqlalchemy connection, psycopg": sqlalchemy_connection("psycopg"),
    "sqlalchemy scoped session": scoped_session,
    "sqlmodel session": sqlalchemy_session("asyncpg", SqlmodelSession),
    "psycopg connection": psycopg_connection,
    "psycopg cursor": psycopg_cursor,
}
