"""A pool that keeps released connections in a list, ready for the next call.

asyncpg's acquire and release create a task, a timer and a shield, which cost about as much as a small insert. So
asyncpg's pool only opens connections; it gets them back when they are idle, broken or cancelled.
"""

import asyncio
from contextvars import ContextVar
from typing import cast

from asyncq.store.database import PUT_BACK_CANCELLED_S, Connection, Pool, hang_up, put_back
from asyncq.store.failures import UNTIDY, connecting, cut_off, is_closed, tell_of_our_own

IDLE_S = 30.0

# Whether the released connection had no error. The driver resets it in its own task, which inherits this.
_is_well = ContextVar("asyncq_is_well", default=True)


async def tidy(connection: Connection) -> None:
    """Reset a released connection; nothing after a call without an error, to save a round trip.

    A statement that was cancelled between its preparation and its run leaves a transaction open in the server. The
    driver does not know of that transaction and its locks. A message of the simple protocol ends it.
    """
    if _is_well.get():
        return
    try:
        await connection.execute("select")
    except UNTIDY:
        if not is_closed(connection):
            raise


class ClientPool:
    """Keeps released connections of asyncpg's pool in a list."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._client_pool: list[Connection] = []  # the most recently used one is the last
        self._unused = 0  # this many of the first were not used since `_look` ran
        self._waiting = 0
        self._served = asyncio.Event()  # set while no call waits for a connection
        self._served.set()
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None

    def at_hand(self) -> Connection | None:
        """Return the most recently used connection, unless it is closed; None if there is none."""
        return None if not self._client_pool or is_closed(self._client_pool[-1]) else self._last()

    def keep(self, connection: Connection) -> bool:
        """Keep a connection that had no error. If the result is False, it needs `release`."""
        if self._waiting or self._is_closed:
            return False
        self._client_pool.append(connection)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(IDLE_S, self._look)
        return True

    async def acquire(self) -> Connection:
        """Return a connection; waits until one is free. If cancelled, no connection was taken."""
        while self._client_pool:
            if (connection := self.at_hand()) is not None:
                return connection
            await self._give_back(self._last(), is_well=True)
        self._waiting += 1
        self._served.clear()
        try:
            # A proxy has every method of a connection.
            return cast(Connection, await self._pool.acquire())
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._served.set()

    async def release(self, connection: Connection, *, is_well: bool) -> None:
        """Release a connection; the driver resets it unless it had no error."""
        if not (is_well and self.keep(connection)):
            await self._give_back(connection, is_well=is_well)

    async def close(self) -> None:
        """Close all connections, by force if cancelled; waits for the calls that use one or wait for one."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        try:
            # While it closes, the driver hands out connections to waiting calls, and then closes these in use.
            await self._served.wait()
            while self._client_pool:
                await hang_up(self._client_pool.pop())
            await self._pool.close()
        except BaseException:
            self._pool.terminate()
            raise

    def _look(self) -> None:
        """Close connections that were idle since the last look; asyncpg's pool notices that they are closed."""
        for connection in self._client_pool[: self._unused]:
            cut_off(connection)
        del self._client_pool[: self._unused]
        self._unused = len(self._client_pool)
        self._timer = asyncio.get_running_loop().call_later(IDLE_S, self._look) if self._client_pool else None

    def _last(self) -> Connection:
        self._unused = min(self._unused, len(self._client_pool) - 1)
        return self._client_pool.pop()

    async def _give_back(self, connection: Connection, *, is_well: bool) -> None:
        _is_well.set(is_well)
        await put_back(self._pool, connection, PUT_BACK_CANCELLED_S)


class Loan:
    """A connection of a pool until the block ends; waits for a free one. If cancelled then, none was taken."""

    __slots__ = ("_client_pool", "_connection", "_dsn")

    def __init__(self, client_pool: ClientPool, dsn: str) -> None:
        self._client_pool = client_pool
        self._dsn = dsn
        self._connection: Connection | None = None

    async def __aenter__(self) -> Connection:
        connection = self._client_pool.at_hand()
        if connection is None:
            with connecting(self._dsn):
                connection = await self._client_pool.acquire()
        self._connection = connection
        return connection

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        connection = cast(Connection, self._connection)
        try:
            if error is not None:
                tell_of_our_own(error, connection)
        finally:
            await self._client_pool.release(connection, is_well=error is None)
