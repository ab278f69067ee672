"""Checks connections that callers give: their type, and whether they are in a transaction."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import cast

import asyncpg

from asyncq.domain.errors import ConfigurationError, TransactionUnusable
from asyncq.domain.job import JobOptions
from asyncq.domain.options import switch
from asyncq.store.database import CallersConnection, Connection, is_closed

Acquire = Callable[[], AbstractAsyncContextManager[Connection]]


class AddOptions(JobOptions, total=False):
    """The keyword arguments of an add: the options of the job, and the transaction that it takes part in.

    Attributes:
        connection: The caller's connection; None, the default, means one of asyncq's own.
        autocommit: Whether the caller's connection is in no transaction, so that the add is committed at once.
    """

    connection: CallersConnection | None
    autocommit: bool


def check_connection(connection: object) -> Connection:
    """Raise TypeError for a value that is no asyncpg connection, before it fails with an obscure error."""
    if not isinstance(connection, asyncpg.Connection | asyncpg.pool.PoolConnectionProxy):
        kind = type(connection)
        raise TypeError(
            f"connection must be an asyncpg connection, got {kind.__module__}.{kind.__qualname__}; from a pool, "
            "acquire one first; with SQLAlchemy, (await connection.get_raw_connection()).driver_connection after its "
            "first statement"
        )
    return cast(Connection, connection)


def check_transaction(connection: object, autocommit: bool) -> Connection | None:
    """Refuse a connection without a transaction, unless the caller asks for autocommit.

    TypeError if the value is no asyncpg connection. TransactionUnusable if it is in no transaction, and `autocommit` is
    False. ConfigurationError if `autocommit` is True without a connection or in a transaction, or no bool.
    """
    if connection is None:
        if switch("autocommit", autocommit):
            raise ConfigurationError("autocommit=True needs connection=: without one each change is committed at once")
        return None
    given = check_connection(connection)
    if switch("autocommit", autocommit):
        if not is_closed(given) and given.is_in_transaction():
            raise ConfigurationError(
                "autocommit=True on a connection in a transaction: its commit decides; leave autocommit out"
            )
    elif not is_closed(given) and not given.is_in_transaction():
        # SQLAlchemy begins the transaction of a session or connection only with its first statement.
        raise TransactionUnusable(
            "the connection is in no transaction: the change would be committed at once, whatever is rolled back. Open "
            "a transaction first (async with connection.transaction(): ...); SQLAlchemy opens one with the first "
            "statement of a session (await session.execute(text('select 1'))). If the change is to be committed at "
            "once, say autocommit=True"
        )
    return given


@asynccontextmanager
async def reading(connection: CallersConnection | None, acquire: Acquire) -> AsyncGenerator[Connection]:
    """Yield the caller's connection if there is one, else one of asyncq's own until the block ends."""
    if connection is not None:
        yield check_connection(connection)
        return
    async with acquire() as own:
        yield own


@asynccontextmanager
async def changing(
    connection: CallersConnection | None, acquire: Acquire, autocommit: bool
) -> AsyncGenerator[Connection]:
    """Yield a connection as `reading` does, for a block that changes something; checks it as `check_transaction`."""
    async with reading(check_transaction(connection, autocommit), acquire) as mine:
        yield mine
