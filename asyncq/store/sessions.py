"""Whether a connection has a session of the server to itself, or a pooler shares that session among its clients.

The answer is needed before the first `set`: a setting in a shared session would reach other programs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg

from asyncq.domain.errors import ConfigurationError, StoreUnavailable

PROBE_S = 2.0

SHARED = (
    "the DSN leads to a pooler that pools by transaction: each session of the server is shared among its clients, and "
    "settings of asyncq would reach other programs; add statement_cache_size=0 to the DSN (a listen_dsn has to lead "
    "directly to the server, or to a pooler that pools by session)"
)


async def check_own_session(
    connection: asyncpg.Connection, connect: Callable[[], Awaitable[asyncpg.Connection]]
) -> None:
    """Refuse a session that is shared.

    The process that a pooler names at the login differs from the one that answers. Then a second connection takes a
    session and keeps it. A pooler by transaction lends it the first connection's session, or gives the first another.

    Args:
        connection: The connection, in no transaction.
        connect: Opens a second connection to the same place.

    Raises:
        ConfigurationError: The session is shared.
        StoreUnavailable: The pooler has no session for the second connection.
        asyncpg.PostgresError: Or another error of the driver.

    If cancelled, the second connection is closed.
    """
    process = await _process(connection)
    if process == connection.get_server_pid():
        return
    try:
        async with asyncio.timeout(PROBE_S):
            other = await connect()
    except TimeoutError:
        raise _no_session() from None
    try:
        is_shared = await _is_shared(connection, process, other)
        async with asyncio.timeout(PROBE_S):
            # Without a rollback the pooler would close the session that it lent.
            await other.execute("rollback")
    finally:
        other.terminate()
    if is_shared:
        raise ConfigurationError(SHARED)


async def _is_shared(connection: asyncpg.Connection, process: int, other: asyncpg.Connection) -> bool:
    try:
        async with asyncio.timeout(PROBE_S):
            await other.execute("begin")
            held = await _answering(other)
    except TimeoutError:
        raise _no_session() from None
    try:
        async with asyncio.timeout(PROBE_S):
            return held == process or await _process(connection) != process
    except TimeoutError:
        return True  # An unshared session would have answered.


def _no_session() -> StoreUnavailable:
    return StoreUnavailable(
        f"the pooler had no second session of the server within {PROBE_S:g} s, so that the first one could not be "
        "checked; raise its pool size",
        outcome="not_sent",
    )


async def _process(connection: asyncpg.Connection) -> int:
    """The server's process that runs a transaction of a connection."""
    # Messages of one transaction reach one session; the next unnamed statement replaces this one.
    await connection.execute("begin")
    process = await _answering(connection)
    await connection.execute("commit")
    return process


async def _answering(connection: asyncpg.Connection) -> int:
    statement = await connection.prepare("select pg_catalog.pg_backend_pid()", name="")
    return await statement.fetchval()
