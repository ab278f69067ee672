"""Whether a connection has a session of the server to itself, or a pooler shares that session among its clients.

The answer is needed before the first `set`: a setting in a shared session would reach other programs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg

from asyncq.domain.errors import ConfigurationError, StoreUnavailable

PROBE_S = 2.0
# Other clients of a busy pooler may take the sessions that a single look would see.
ROUNDS = 12

SHARED = (
    "the DSN leads to a pooler that pools by transaction: each session of the server is shared among its clients, and "
    "settings of asyncq would reach other programs; add statement_cache_size=0 to the DSN (a listen_dsn has to lead "
    "directly to the server, or to a pooler that pools by session)"
)

BY_STATEMENT = (
    "the DSN leads to a pooler that pools by statement, which allows no transaction: give a DSN that leads directly to "
    "the server, or to a pooler that pools by session or by transaction"
)


def check_mode(connection: asyncpg.Connection, *, is_pooled: bool) -> None:
    """Refuse a pooler whose mode does not fit, if it says at the login how it pools, as PgBouncer 1.26 does.

    Args:
        connection: The connection.
        is_pooled: Whether the DSN has `statement_cache_size=0`.

    Raises:
        ConfigurationError: It pools by statement, or by transaction while the DSN lacks that parameter.
    """
    mode = getattr(connection.get_settings(), "pgbouncer.pool_mode", None)
    if mode == "statement":
        raise ConfigurationError(BY_STATEMENT)
    if mode == "transaction" and not is_pooled:
        raise ConfigurationError(SHARED)


async def check_own_session(
    connection: asyncpg.Connection, connect: Callable[[], Awaitable[asyncpg.Connection]]
) -> None:
    """Refuse a session that is shared.

    The process that a pooler names at the login differs from the one that answers. Then a second connection takes a
    session and keeps it, several times. A pooler by transaction lends it the first connection's session, or gives the
    first another.

    Args:
        connection: The connection, in no transaction.
        connect: Opens a second connection to the same place.

    Raises:
        ConfigurationError: The session is shared.
        StoreUnavailable: The pooler has no session for the second connection.
        asyncpg.PostgresError: Or another error of the driver.

    If cancelled, the second connection is closed.
    """
    process = await _answering(connection)
    if process == connection.get_server_pid():
        return
    try:
        async with asyncio.timeout(PROBE_S):
            other = await connect()
    except TimeoutError:
        raise _no_session() from None
    try:
        for number in range(ROUNDS):
            if await _is_shared(connection, process, other, asks_again=number % 2 == 1):
                raise ConfigurationError(SHARED)
    finally:
        other.terminate()


async def _is_shared(
    connection: asyncpg.Connection, process: int, other: asyncpg.Connection, *, asks_again: bool
) -> bool:
    """Look once, whether the connection's session is lent to the other one, or the connection gets another.

    Args:
        connection: The connection, in no transaction.
        process: The server's process that answered it before.
        other: The second connection, in no transaction; it is in none afterwards.
        asks_again: Whether to ask the connection once more when the other one has given its session back. With two
            sessions, a pooler that lends the last used one shows itself then, one that lends them in turn only
            if it is not asked.
    """
    try:
        async with asyncio.timeout(PROBE_S):
            await other.execute("begin")
            held = await _answering(other)
    except TimeoutError:
        raise _no_session() from None
    try:
        async with asyncio.timeout(PROBE_S):
            is_shared = held == process or await _answering(connection) != process
            # Without a rollback the pooler would close the session that it lent.
            await other.execute("rollback")
            return is_shared or (asks_again and await _answering(connection) != process)
    except TimeoutError:
        return True  # An unshared session would have answered.


def _no_session() -> StoreUnavailable:
    return StoreUnavailable(
        f"the pooler had no second session of the server within {PROBE_S:g} s, so that the first one could not be "
        "checked; raise its pool size",
        outcome="not_sent",
    )


async def _answering(connection: asyncpg.Connection) -> int:
    """The server's process that answers; by COPY, one message, which no pooler takes apart."""
    said = bytearray()

    async def hear(part: bytes) -> None:
        said.extend(part)

    await connection.copy_from_query("select pg_catalog.pg_backend_pid()", output=hear)
    return int(said)
