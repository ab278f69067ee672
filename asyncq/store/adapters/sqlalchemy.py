"""Runs statements on sessions and connections of SQLAlchemy, by whichever driver these use.

SQLAlchemy begins a transaction with the first statement of a session or connection. So a statement that is sent through
it is part of that transaction. It is not imported here: the caller has imported it.
"""

import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from asyncq.domain.errors import ConfigurationError, StoreUnavailable
from asyncq.store.adapters.binding import named, values
from asyncq.store.adapters.transaction import SQLALCHEMY, check_autocommit

# A colon that SQLAlchemy would take for the beginning of a parameter.
_COLON = re.compile(r"(?<!:):(?=\w)")


class SqlalchemyAdapter:
    """An `AsyncSession` or `AsyncConnection`, with the method `fetch` of asyncpg's connections.

    Args:
        given: The session or connection.
        autocommit: What the caller says about a change; None for a read, which needs no transaction.
        is_session: Whether it is a session.
    """

    def __init__(self, given: Any, autocommit: bool | None, *, is_session: bool) -> None:
        self._given = given
        self._autocommit = autocommit
        self._connected = connection_of if is_session else _itself

    async def fetch(self, statement: str, *parameters: Any) -> Sequence[Any]:
        """Run a statement; its rows are read by their names."""
        return await self._given.run_sync(self._fetch, statement, parameters)

    async def origin(self) -> object:
        """Return the engine, all of whose connections have the same role."""
        return await self._given.run_sync(self._engine)

    def _engine(self, given: Any) -> object:
        return self._connected(given).engine

    def _fetch(self, given: Any, statement: str, parameters: Sequence[Any]) -> Sequence[Any]:
        return fetch(self._connected(given), statement, parameters, self._autocommit)


def fetch(connection: Any, statement: str, parameters: Sequence[Any], autocommit: bool | None) -> Sequence[Any]:
    """Run a statement on a synchronous `Connection`, as an `AsyncConnection` has one; see `SqlalchemyAdapter`."""
    if (dialect := connection.dialect.name) != "postgresql":
        raise TypeError(f"connection must lead to PostgreSQL, where the jobs are, got one to {dialect}")
    if autocommit is not None:
        # The drivers' own attribute, which their adapters have too.
        commits_at_once = bool(connection.connection.dbapi_connection.autocommit)
        check_autocommit(autocommit, is_in_transaction=not commits_at_once, how=SQLALCHEMY)
    return connection.execute(_clause(statement), values(parameters)).mappings().all()


def connection_of(session: Any) -> Any:
    """Return the connection of a synchronous `Session`, which takes one from its engine if it has none yet.

    ConfigurationError if the session has several engines. StoreUnavailable if the server cannot be reached.
    """
    errors = sys.modules["sqlalchemy.exc"]
    try:
        return session.connection()
    except errors.UnboundExecutionError as error:
        raise ConfigurationError(
            f"the session does not say which of its engines leads to the jobs: {error}; pass the connection, that of "
            "session.connection(bind_arguments={'mapper': Order}), which an AsyncSession awaits"
        ) from error
    except (OSError, errors.OperationalError) as error:
        said = str(getattr(error, "orig", error)).partition("\n")[0]
        raise StoreUnavailable(f"PostgreSQL cannot be reached: {said}", outcome="not_sent") from error


def _itself(connection: Any) -> Any:
    return connection


@lru_cache(1024)
def _clause(statement: str) -> Any:
    return sys.modules["sqlalchemy"].text(named(_COLON.sub(r"\\:", statement), ":{}"))
