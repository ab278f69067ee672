"""Checks connections that callers give: their kind, and whether they are in a transaction.

An asyncpg connection is used as it is. One of SQLAlchemy or psycopg gets an adapter with the method `fetch`. The store
calls no other method of a caller's connection.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast

import asyncpg

from asyncq.domain.errors import ConfigurationError
from asyncq.domain.job import JobOptions
from asyncq.domain.options import switch
from asyncq.store.adapters.kinds import adapter_of
from asyncq.store.adapters.transaction import ASYNCPG, check_autocommit
from asyncq.store.database import CallersConnection, Connection
from asyncq.store.failures import is_closed

Acquire = Callable[[], AbstractAsyncContextManager[Connection]]


class AddOptions(JobOptions, total=False):
    """The keyword arguments of an add: the options of the job, and the transaction that it takes part in.

    Attributes:
        connection: The caller's connection; None, the default, means one of asyncq's own.
        autocommit: Whether the caller's connection is in no transaction, so that the add is committed at once.
    """

    connection: CallersConnection | None
    autocommit: bool


def is_asyncpg(connection: object) -> bool:
    """Return whether a value is a connection of asyncpg, or one of its pool."""
    return isinstance(connection, asyncpg.Connection | asyncpg.pool.PoolConnectionProxy)


def check_connection(connection: object) -> Connection:
    """Raise TypeError for a value that is no asyncpg connection, before it fails with an obscure error."""
    if not is_asyncpg(connection):
        kind = type(connection)
        raise TypeError(f"connection must be an asyncpg connection, got {kind.__module__}.{kind.__qualname__}")
    return cast(Connection, connection)


def check_transaction(connection: Any, autocommit: bool) -> Connection | None:
    """Refuse a connection without a transaction, unless the caller asks for autocommit.

    TypeError if the value is no connection. TransactionUnusable if it is in no transaction, and `autocommit` is False.
    ConfigurationError if `autocommit` is True without a connection or in a transaction, or no bool. An adapter checks
    this before its first statement.
    """
    if connection is None:
        if switch("autocommit", autocommit):
            raise ConfigurationError("autocommit=True needs connection=: without one each change is committed at once")
        return None
    if not is_asyncpg(connection):
        return cast(Connection, adapter_of(connection, switch("autocommit", autocommit)))
    given = cast(Connection, connection)
    switch("autocommit", autocommit)
    if not is_closed(given):
        check_autocommit(autocommit, is_in_transaction=given.is_in_transaction(), how=ASYNCPG)
    return given


def readable(connection: object) -> Connection:
    """Return a caller's connection for a read, which needs no transaction; TypeError for another value."""
    return cast(Connection, connection if is_asyncpg(connection) else adapter_of(connection, None))


@asynccontextmanager
async def reading(connection: CallersConnection | None, acquire: Acquire) -> AsyncGenerator[Connection]:
    """Yield the caller's connection if there is one, else one of asyncq's own until the block ends."""
    if connection is not None:
        yield readable(connection)
        return
    async with acquire() as own:
        yield own


@asynccontextmanager
async def changing(
    connection: CallersConnection | None, acquire: Acquire, autocommit: bool
) -> AsyncGenerator[Connection]:
    """Yield a connection as `reading` does, for a block that changes something; checks it as `check_transaction`."""
    mine = check_transaction(connection, autocommit)
    if mine is not None:
        yield mine
        return
    async with acquire() as own:
        yield own
