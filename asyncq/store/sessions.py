"""Finds out whether a pooler shares the session of a connection with other clients.

This is checked before the first `set`: a setting in a shared session would reach other programs.
"""

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg

from asyncq.domain.errors import ConfigurationError, StoreUnavailable

PROBE_S = 2.0
# One check may miss a shared session, because other clients of a busy pooler hold it at that moment.
ROUNDS = 12

SHARED = (
    "the DSN leads to a pooler that pools by transaction: each session of the server is shared among its clients, and "
    "settings of asyncq would reach other programs; add statement_cache_size=0 to the DSN (a listen_dsn has to lead "
    "directly to the server, or to a pooler that pools by session)"
)

BY_STATEMENT = (
    "the DSN leads to a pooler that pools by statement, which allows no transaction. Give a DSN that leads directly to "
    "the server, or to a pooler that pools by session or by transaction"
)


def check_mode(connection: asyncpg.Connection, *, is_pooled: bool) -> None:
    """Raise ConfigurationError for a pooler in the wrong mode, if it reports its mode, as PgBouncer 1.26 does."""
    mode = getattr(connection.get_settings(), "pgbouncer.pool_mode", None)
    if mode == "statement":
        raise ConfigurationError(BY_STATEMENT)
    if mode == "transaction" and not is_pooled:
        raise ConfigurationError(SHARED)


async def check_own_session(
    connection: asyncpg.Connection, connect: Callable[[], Awaitable[asyncpg.Connection]]
) -> None:
    """Refuse a session that is shared.

    Behind a pooler, the server process named at the login differs from the one that answers. In this case a second
    connection takes a session and keeps it, several times. A pooler by transaction then gives it the first connection's
    session, or gives the first connection another one.

    ConfigurationError if the session is shared, StoreUnavailable if the pooler has no session for the second
    connection. If cancelled, the second connection is closed.
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
    """Check once whether the second connection gets the first one's session, or the first one gets another.

    With `asks_again` the first connection is asked again after the second one has released its session. With two
    sessions, this finds a pooler that lends the last used session first. A pooler that lends them in turn is found only
    without it.
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
            # Without a rollback the pooler would close the session.
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
    """Return the server process that answers; by COPY, which is one message that no pooler splits."""
    answer = bytearray()

    async def receive(part: bytes) -> None:
        answer.extend(part)

    await connection.copy_from_query("select pg_catalog.pg_backend_pid()", output=receive)
    return int(answer)
