"""What was sent to the server is waited for, whoever wants to stop: no claim and no settlement is lost on the way."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from asyncq.store.database import Line


@asynccontextmanager
async def shielded(line: Line, deadline_s: float) -> AsyncGenerator[None]:
    """Shield the statements of the block from cancellation, within a deadline; connecting before it is not shielded.

    Args:
        line: The connection that they use.
        deadline_s: How long they may take.

    Raises:
        StoreError: The line cannot be opened.
        TimeoutError: They took longer.

    If cancelled before the block begins, nothing was sent.
    """
    await line.ready()
    with anyio.CancelScope(shield=True), anyio.fail_after(deadline_s):
        yield
