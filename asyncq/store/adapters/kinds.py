"""Finds the library of a connection that a caller gives, without importing any library."""

from collections.abc import Coroutine
from typing import Any, Protocol

from asyncq.store.adapters.psycopg import PsycopgAdapter
from asyncq.store.adapters.sqlalchemy import SqlalchemyAdapter

Adapter = SqlalchemyAdapter | PsycopgAdapter

KINDS = (
    "an asyncpg connection; an AsyncSession, AsyncConnection or async_scoped_session of SQLAlchemy; or an "
    "AsyncConnection or AsyncCursor of psycopg"
)
SYNCHRONOUS = {
    *(f"sqlalchemy.{name}" for name in ("Session", "Connection", "scoped_session")),
    *(f"psycopg.{name}" for name in ("Connection", "Cursor")),
    *(f"psycopg2.{name}" for name in ("connection", "cursor")),
    *(f"django.{name}" for name in ("BaseDatabaseWrapper", "ConnectionProxy")),
}
POOLS = {"asyncpg.Pool", "sqlalchemy.AsyncEngine", "sqlalchemy.async_sessionmaker", "psycopg_pool.AsyncConnectionPool"}


class SqlalchemyConnection(Protocol):
    """An `AsyncSession`, `AsyncConnection` or `async_scoped_session` of SQLAlchemy; SQLModel's is a subclass."""

    def aclose(self) -> Coroutine[Any, Any, None]: ...
    def begin_nested(self) -> Any: ...


class PsycopgConnection(Protocol):
    """An `AsyncConnection` of psycopg 3."""

    def set_autocommit(self, value: bool, /) -> Coroutine[Any, Any, None]: ...


class PsycopgCursor(Protocol):
    """An `AsyncCursor` of psycopg 3."""

    @property
    def connection(self) -> PsycopgConnection: ...
    def fetchone(self) -> Coroutine[Any, Any, Any]: ...


def adapter_of(connection: Any, autocommit: bool | None) -> Adapter:
    """Return the adapter of a connection of SQLAlchemy or psycopg; TypeError, which names all kinds, for other values.

    Args:
        connection: The connection that the caller gave.
        autocommit: What the caller says about a change; None for a read.
    """
    names = names_of(connection)
    if "sqlalchemy.async_scoped_session" in names:
        return SqlalchemyAdapter(connection(), autocommit, is_session=True)
    if "sqlalchemy.AsyncSession" in names:
        return SqlalchemyAdapter(connection, autocommit, is_session=True)
    if "sqlalchemy.AsyncConnection" in names:
        return SqlalchemyAdapter(connection, autocommit, is_session=False)
    if "psycopg.AsyncConnection" in names:
        return PsycopgAdapter(connection, autocommit)
    if "psycopg.AsyncCursor" in names:
        return PsycopgAdapter(connection.connection, autocommit)
    raise TypeError(f"connection must be {KINDS}; got {_kind(connection)}{_advice(names)}")


def names_of(value: object) -> set[str]:
    """Return the names of a value's class and its bases, each with its top package: `sqlalchemy.AsyncSession`."""
    return {f"{each.__module__.partition('.')[0]}.{each.__qualname__}" for each in type(value).__mro__}


def _kind(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _advice(names: set[str]) -> str:
    if names & SYNCHRONOUS:
        return ", which is synchronous: SyncClient takes it, as in SyncClient(tasks=TASKS).add_job(..., connection=...)"
    return ", which is a pool: take a connection from it first" if names & POOLS else ""
