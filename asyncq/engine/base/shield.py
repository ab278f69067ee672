"""What was sent to the server is waited for, whoever wants to stop: no claim and no settlement is lost on the way."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from asyncq.store.database import ReconnectingConnection


class Patience:
    """How long a statement may take before its connection counts as dead: longer each time that it was too short.

    A connection that is half open is given up soon, and a server that is merely slow is not given up for ever.

    Args:
        first_s: At first, and again after an answer.
        longest_s: At most.
    """

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self.deadline_s = first_s

    def answered(self) -> None:
        """The answer came in time."""
        self.deadline_s = self._first_s

    def lost(self) -> None:
        """None came."""
        self.deadline_s = min(2 * self.deadline_s, self._longest_s)


@asynccontextmanager
async def shielded(line: ReconnectingConnection, deadline_s: float) -> AsyncGenerator[None]:
    """Shield the statements of the block from cancellation, within a deadline; connecting before it is not shielded.

    Args:
        line: The connection that they use.
        deadline_s: How long they may take.

    Raises:
        StoreError: The line cannot be opened.
        TimeoutError: They took longer; it says how long that was.

    If cancelled before the block begins, nothing was sent.
    """
    await line.ready()
    with anyio.move_on_after(deadline_s, shield=True) as scope:
        yield
    if scope.cancelled_caught:
        raise TimeoutError(f"no answer from PostgreSQL within {deadline_s:g} s")
