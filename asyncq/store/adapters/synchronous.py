"""Runs statements on synchronous connections: of SQLAlchemy, psycopg 3 and Django.

An adapter has the method `fetch` of asyncpg's connections, so that the functions of the store work on it. It never
waits for an event loop: `at_once` runs such a function to its end. No library is imported here: the caller has
imported it.
"""

import sys
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from asyncq.domain.errors import StoreUnavailable
from asyncq.store.adapters import psycopg, sqlalchemy
from asyncq.store.adapters.binding import values
from asyncq.store.adapters.faults import cause_of
from asyncq.store.adapters.transaction import check_autocommit

ResultT = TypeVar("ResultT")


def at_once(call: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a function of the store over an adapter of this module, without an event loop."""
    try:
        call.send(None)
    except StopIteration as done:
        return done.value
    call.close()
    raise RuntimeError("a call over a synchronous connection waited for an event loop")


class SyncSqlalchemyAdapter:
    """A `Session` or `Connection`, with the method `fetch` of asyncpg's connections.

    Args:
        given: The session or connection.
        autocommit: What the caller says about a change; None for a read, which needs no transaction.
        is_session: Whether it is a session.
    """

    def __init__(self, given: Any, autocommit: bool | None, *, is_session: bool) -> None:
        self._given = given
        self._autocommit = autocommit
        self._is_session = is_session

    async def fetch(self, statement: str, *parameters: Any) -> Sequence[Any]:
        """Run a statement; its rows are read by their names."""
        return sqlalchemy.fetch(self._connection(), statement, parameters, self._autocommit)

    async def origin(self) -> object:
        """Return the engine, all of whose connections have the same role."""
        return self._connection().engine

    def _connection(self) -> Any:
        # A session begins its transaction here, unless it has begun.
        return sqlalchemy.connection_of(self._given) if self._is_session else self._given


class SyncPsycopgAdapter:
    """A `Connection` of psycopg, with the method `fetch` of asyncpg's connections.

    Args:
        connection: The connection.
        autocommit: What the caller says about a change; None for a read, which needs no transaction.
        source: The origin of the connection, if all of its connections have the same role.
    """

    def __init__(self, connection: Any, autocommit: bool | None, source: object | None = None) -> None:
        self._connection = connection
        self._autocommit = autocommit
        self._source = source

    async def fetch(self, statement: str, *parameters: Any) -> Sequence[Any]:
        """Run a statement; its rows are read by their names."""
        connection, library = self._connection, sys.modules["psycopg"]
        if self._autocommit is not None and not connection.closed:
            psycopg.check(connection, self._autocommit)
        # A cursor of the connection's own kind may take other parameters and return other rows.
        with library.Cursor(connection, row_factory=library.rows.dict_row) as cursor:
            return cursor.execute(psycopg.rendered(statement), values(parameters)).fetchall()

    async def origin(self) -> object:
        """Return the connection, unless others have the same role."""
        return self._source or self._connection


class DjangoAdapter:
    """A connection of Django, with the method `fetch` of asyncpg's connections.

    Outside of `atomic` Django commits each statement, and its users expect that; inside, the block decides. Code that
    runs outside of `atomic` runs inside of it in a `TestCase`. So both are taken without a word of the caller.

    Args:
        connection: The connection.
        autocommit: What the caller says about a change; None for a read.
    """

    def __init__(self, connection: Any, autocommit: bool | None) -> None:
        self._connection = connection
        self._autocommit = autocommit

    async def fetch(self, statement: str, *parameters: Any) -> Sequence[Any]:
        """Run a statement; its rows are read by their names."""
        connection = self._connection
        if connection.vendor != "postgresql":
            raise TypeError(f"connection must lead to PostgreSQL, where the jobs are, got one to {connection.vendor}")
        self._reach()
        if self._autocommit:
            is_in_transaction = connection.in_atomic_block or not connection.get_autocommit()
            check_autocommit(True, is_in_transaction=is_in_transaction, how="")  # noqa: FBT003
        with connection.cursor() as cursor:
            cursor.execute(psycopg.rendered(statement), values(parameters))
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    async def origin(self) -> object:
        """Return the connection of the thread, to which `django.db.connection` forwards."""
        return sys.modules["django.db"].connections[self._connection.alias]

    def _reach(self) -> None:
        try:
            self._connection.ensure_connection()
        except Exception as error:
            if isinstance(cause_of(error), StoreUnavailable):
                raise StoreUnavailable(f"PostgreSQL cannot be reached: {error}", outcome="not_sent") from error
            raise


SyncAdapter = SyncSqlalchemyAdapter | SyncPsycopgAdapter | DjangoAdapter
