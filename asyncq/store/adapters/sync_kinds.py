"""Finds the library of a synchronous connection that a caller gives, without importing any library.

The types describe these connections by their methods, so that type checkers need none of the libraries either.
"""

import sys
from contextlib import AbstractContextManager
from typing import Any, Protocol

from asyncq.domain.errors import ConfigurationError
from asyncq.domain.job import JobOptions
from asyncq.store.adapters.kinds import names_of
from asyncq.store.adapters.synchronous import (
    DjangoAdapter,
    SyncAdapter,
    SyncPsycopgAdapter,
    SyncSqlalchemyAdapter,
)

KINDS = (
    "a Session, Connection or scoped_session of SQLAlchemy; a Connection or Cursor of psycopg; or a connection of "
    "Django, or the alias of one"
)
ASYNCHRONOUS = {
    *(f"asyncpg.{name}" for name in ("Connection", "PoolConnectionProxy")),
    *(f"sqlalchemy.{name}" for name in ("AsyncConnection", "AsyncSession", "async_scoped_session")),
    *(f"psycopg.{name}" for name in ("AsyncConnection", "AsyncCursor")),
}
# A class whose objects open connections -> how to get one from them.
OPENERS = {
    "sqlalchemy.Engine": "with engine.begin() as connection: ...",
    "sqlalchemy.sessionmaker": "with sessions.begin() as session: ...",
    "psycopg_pool.ConnectionPool": "with pool.connection() as connection: ...` or `SyncClient(pool=pool)",
}


class SyncSqlalchemyConnection(Protocol):
    """A `Connection` of SQLAlchemy."""

    def begin(self) -> AbstractContextManager[Any]: ...
    def exec_driver_sql(self, statement: str) -> Any: ...


class SyncSqlalchemySession(Protocol):
    """A `Session` or `scoped_session` of SQLAlchemy, or a subclass, such as SQLModel's."""

    def connection(self) -> SyncSqlalchemyConnection: ...
    def get_bind(self) -> Any: ...


class SyncPsycopgConnection(Protocol):
    """A `Connection` of psycopg 3."""

    @property
    def pgconn(self) -> Any: ...
    def transaction(self) -> AbstractContextManager[Any]: ...


class SyncPsycopgCursor(Protocol):
    """A `Cursor` of psycopg 3."""

    @property
    def connection(self) -> SyncPsycopgConnection: ...
    def fetchone(self) -> Any: ...


class DjangoConnection(Protocol):
    """A connection of Django, as in `connections["default"]`."""

    @property
    def vendor(self) -> Any: ...
    def ensure_connection(self) -> Any: ...


class DjangoProxy(Protocol):
    """`django.db.connection`, which forwards to the connection of the thread."""

    def __getattr__(self, item: str, /) -> Any: ...
    def __contains__(self, key: Any, /) -> Any: ...


class PsycopgPool(Protocol):
    """A `ConnectionPool` of psycopg_pool."""

    def connection(self) -> AbstractContextManager[SyncPsycopgConnection]: ...


# A text is the alias of a Django database.
SyncConnection = (
    SyncSqlalchemySession
    | SyncSqlalchemyConnection
    | SyncPsycopgConnection
    | SyncPsycopgCursor
    | DjangoConnection
    | DjangoProxy
    | str
)


class SyncAddOptions(JobOptions, total=False):
    """The keyword arguments of an add: the options of the job, and the transaction that it takes part in.

    Attributes:
        connection: The caller's connection; None, the default, means one of asyncq's own.
        autocommit: Whether the caller's connection is in no transaction, so that the add is committed at once.
    """

    connection: SyncConnection | None
    autocommit: bool


def sync_adapter_of(given: object, autocommit: bool | None) -> SyncAdapter:
    """Return the adapter of a synchronous connection.

    Args:
        given: The connection that the caller gave.
        autocommit: What the caller says about a change; None for a read.

    Raises:
        TypeError: It is none; the message names all kinds.
        ConfigurationError: Django has no database with this alias.
    """
    names = names_of(given)
    connection: Any = given
    if names & {"sqlalchemy.Session", "sqlalchemy.scoped_session"}:
        return SyncSqlalchemyAdapter(connection, autocommit, is_session=True)
    if "sqlalchemy.Connection" in names:
        return SyncSqlalchemyAdapter(connection, autocommit, is_session=False)
    if "psycopg.Connection" in names:
        return SyncPsycopgAdapter(connection, autocommit)
    if "psycopg.Cursor" in names:
        return SyncPsycopgAdapter(connection.connection, autocommit)
    if names & {"django.BaseDatabaseWrapper", "django.ConnectionProxy"}:
        return DjangoAdapter(connection, autocommit)
    if isinstance(connection, str):
        return DjangoAdapter(_of_alias(connection), autocommit)
    raise _refused(connection, names)


def _of_alias(alias: str) -> Any:
    """Return the connection that Django has for an alias in this thread."""
    if "://" in alias or "=" in alias:
        raise TypeError("connection takes no DSN: write SyncClient(dsn), whose calls open their own connections")
    django: Any = sys.modules.get("django.db")
    if django is None:
        raise TypeError(f"connection {alias!r} would be the alias of a Django database, but Django is not loaded")
    if alias not in django.connections:
        known = ", ".join(repr(name) for name in django.connections)
        raise ConfigurationError(f"connection {alias!r} is no alias of a Django database; DATABASES has {known}")
    return django.connections[alias]


def _refused(connection: object, names: set[str]) -> TypeError:
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    if names & ASYNCHRONOUS:
        return TypeError(
            f"connection is a {kind}, which is asynchronous: asyncq.Client takes it, as in await client.add_job(..., "
            "connection=connection); SyncClient waits for no event loop"
        )
    advice = next((f": write `{OPENERS[name]}`" for name in OPENERS if name in names), "")
    return TypeError(f"connection must be {KINDS}; got {kind}{advice}")
