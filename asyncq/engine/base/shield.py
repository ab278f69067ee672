"""Waits for the answer to statements that were sent, in spite of a cancellation: no claim or settlement is lost."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from asyncq.store.database import ReconnectingConnection


@asynccontextmanager
async def shielded(line: ReconnectingConnection) -> AsyncGenerator[None]:
    """Shield the statements of the block from cancellation; connecting before it is not shielded.

    The connection limits the wait for each answer. If cancelled before the block begins, nothing was sent.
    """
    await line.ready()
    with anyio.CancelScope(shield=True):
        yield
