"""Time limits of statements. The limits of a role may suit its web requests, and be too short for maintenance."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import asyncpg

from asyncq.store.failures import UNTIDY, calling, cut_off
from asyncq.store.pooled import assignments

TRANSACTION_TIMEOUT_SINCE = 17


def own_limits(connection: asyncpg.Connection, *, statement_s: float, lock_s: float) -> dict[str, str]:
    """Return the settings that replace limits of the role or database, if the server knows them; 0 is no limit."""
    limits = {
        "statement_timeout": f"{statement_s * 1000:.0f}ms",
        "lock_timeout": f"{lock_s * 1000:.0f}ms",
        "idle_in_transaction_session_timeout": "0",
        "idle_session_timeout": "0",
    }
    if connection.get_server_version().major >= TRANSACTION_TIMEOUT_SINCE:
        limits["transaction_timeout"] = "0"
    return limits


@asynccontextmanager
async def unlimited(connection: asyncpg.Connection, schema: str) -> AsyncGenerator[None]:
    """Remove the time limits of a connection, in no transaction, until the block ends; it is closed if cancelled."""
    limits = own_limits(connection, statement_s=0, lock_s=0)
    prelude: str | None = getattr(connection, "prelude", None)
    if prelude is not None:
        # A setting in a session of the pooler would reach other clients. So each transaction sets the limits.
        pooled = cast(Any, connection)
        pooled.begin_with(f"{prelude}; {assignments('set local', limits)}")
        try:
            yield
        finally:
            pooled.begin_with(prelude)
        return
    try:
        with calling(schema):
            await connection.execute(assignments("set", limits))
        yield
    except Exception:
        await _reset(connection, limits)
        raise
    except BaseException:
        cut_off(connection)
        raise
    await _reset(connection, limits)


async def _reset(connection: asyncpg.Connection, limits: dict[str, str]) -> None:
    try:
        await connection.execute("; ".join(f"reset {name}" for name in limits))
    except UNTIDY:
        # The result is already known, or another error is being raised.
        cut_off(connection)
