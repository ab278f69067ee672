"""The LISTEN connection: connect, LISTEN, hand over each notification, say when it breaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import asyncpg

from asyncq.store.database import Database, hang_up
from asyncq.store.failures import calling


def channel(schema: str) -> str:
    """The channel on which adds are announced; two schemas never wake each other."""
    return f"{schema}:jobs"


class Listening:
    """A connection that listens.

    Attributes:
        broken: Set when the connection is gone.
    """

    def __init__(self, connection: asyncpg.Connection, schema: str) -> None:
        self._connection = connection
        self._schema = schema
        self.broken = asyncio.Event()
        connection.add_termination_listener(self._broke)

    def _broke(self, _: object) -> None:
        self.broken.set()

    async def probe(self, timeout_s: float) -> None:
        """Ask the server for an answer: a half-open connection gives none.

        Raises:
            StoreUnavailable: No answer came in time.
        """
        with calling(self._schema):
            await self._connection.execute("select", timeout=timeout_s)


@asynccontextmanager
async def listening(database: Database, notified: Callable[[], None]) -> AsyncGenerator[Listening]:
    """Listen for as long as the block lasts.

    Args:
        database: Where; its DSN must lead to the server itself, not to a transaction pooler.
        notified: Called in the event loop for each notification.

    Yields:
        The connection.

    Raises:
        StoreError: It cannot be opened.
    """

    def heard(*_: object) -> None:
        notified()

    connection = await database.connect("listen")
    listening = Listening(connection, database.schema)
    try:
        with calling(database.schema):
            await connection.add_listener(channel(database.schema), heard)
        yield listening
    finally:
        await hang_up(connection)
