"""A pool whose connections stay at hand from one call to the next.

To take one from the driver's pool and give it back costs a program as much as a small add: a task, a timer, a shield.
The pool opens them, and has them back when it is closed; what was used a moment ago is taken again without asking it.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import cast

from asyncq.store.database import PUT_BACK_CANCELLED_S, Connection, Pool, cut_off, hang_up, is_closed, put_back
from asyncq.store.failures import UNTIDY, connecting, tell_of_our_own

IDLE_S = 30.0

# Whether all went well with the connection that is given back; the driver's own task, which does that, sees it.
_is_well = ContextVar("asyncq_is_well", default=True)


async def tidy(connection: Connection) -> None:
    """What the pool does with a connection that comes back: nothing after a call that went well, to save a round trip.

    A statement that was cancelled between its preparation and its run leaves a transaction open in the server, with its
    locks and its `now()`; the driver does not know of it. A message of the simple protocol ends that.

    Args:
        connection: It; one that is lost by then is no error, the pool opens another.
    """
    if _is_well.get():
        return
    try:
        await connection.execute("select")
    except UNTIDY:
        if not is_closed(connection):
            raise


class ClientPool:
    """The connections of a pool.

    Args:
        pool: It, open.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._client_pool: list[Connection] = []  # the one used last is the last
        self._unused = 0  # so many of the first were not used since the last look
        self._waiting = 0
        self._served = asyncio.Event()  # nobody waits
        self._served.set()
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None

    def at_hand(self) -> Connection | None:
        """The connection that was used last, if it is not closed; None if there is none."""
        return None if not self._client_pool or is_closed(self._client_pool[-1]) else self._last()

    def keep(self, connection: Connection) -> bool:
        """Give back one with which all went well; whether that is done, and it needs no `release`."""
        if self._waiting or self._is_closed:
            return False
        self._client_pool.append(connection)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(IDLE_S, self._look)
        return True

    async def acquire(self) -> Connection:
        """A connection; waits until one is free.

        Raises:
            OSError: And what else the driver raises: none can be opened.

        If cancelled, none was taken.
        """
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
        """Give one back.

        Args:
            connection: It.
            is_well: Whether all went well; else the driver looks after it.
        """
        if not (is_well and self.keep(connection)):
            await self._give_back(connection, is_well=is_well)

    async def close(self) -> None:
        """Close all; waits for those who use one, and for those who wait for one.

        If cancelled, all are cut off at once.
        """
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        try:
            # The driver gives those that wait a connection while it closes, and closes that in the middle of its use.
            await self._served.wait()
            while self._client_pool:
                await hang_up(self._client_pool.pop())
            await self._pool.close()
        except BaseException:
            self._pool.terminate()
            raise

    def _look(self) -> None:
        """Close those that nobody has used for a while; of one that is closed the pool knows."""
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
    """A connection of a pool for the length of a block, which waits until one is free.

    Args:
        client_pool: Whose.
        dsn: Where it leads, for the errors.

    Raises:
        StoreError: As `failures.connecting` says, if none can be opened; as `failures.on_our_own`, in the block.

    If the beginning of the block is cancelled, none was taken.
    """

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
