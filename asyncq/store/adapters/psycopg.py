"""Runs statements on asynchronous connections of psycopg 3.

A connection begins a transaction with its first statement, unless it was opened with `autocommit=True`. psycopg is not
imported here: the caller has imported it.
"""

import sys
from collections.abc import Sequence
from typing import Any

from asyncq.store.adapters.binding import named, values
from asyncq.store.adapters.transaction import PSYCOPG, check_autocommit


class PsycopgAdapter:
    """An `AsyncConnection`, with the method `fetch` of asyncpg's connections.

    Args:
        connection: The connection.
        autocommit: What the caller says about a change; None for a read, which needs no transaction.
    """

    def __init__(self, connection: Any, autocommit: bool | None) -> None:
        self._connection = connection
        self._autocommit = autocommit

    async def fetch(self, statement: str, *parameters: Any) -> Sequence[Any]:
        """Run a statement; its rows are read by their names."""
        connection, psycopg = self._connection, sys.modules["psycopg"]
        if self._autocommit is not None and not connection.closed:
            check(connection, self._autocommit)
        # A cursor of the connection's own kind may take other parameters and return other rows.
        async with psycopg.AsyncCursor(connection, row_factory=psycopg.rows.dict_row) as cursor:
            await cursor.execute(rendered(statement), values(parameters))
            return await cursor.fetchall()

    async def origin(self) -> object:
        """Return the connection: others may have another role."""
        return self._connection


def check(connection: Any, autocommit: bool) -> None:
    """Check an open connection for a change, see `check_autocommit`; one that is synchronous too."""
    is_idle = connection.info.transaction_status == sys.modules["psycopg"].pq.TransactionStatus.IDLE
    check_autocommit(autocommit, is_in_transaction=not (connection.autocommit and is_idle), how=PSYCOPG)


def rendered(statement: str) -> str:
    """Write a statement with psycopg's parameters, which other drivers of the same form read too."""
    return named(statement.replace("%", "%%"), "%({})s")
