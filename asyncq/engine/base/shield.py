"""Waits for the answer to statements that were sent, in spite of a cancellation: no claim or settlement is lost."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from asyncq.store.database import ReconnectingConnection


class Patience:
    """How long a statement may take before its connection counts as dead: longer after each missing answer.

    A half open connection is replaced soon, and a slow server gets more time after each attempt.
    """

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self.deadline_s = first_s

    def answered(self) -> None:
        self.deadline_s = self._first_s

    def lost(self) -> None:
        self.deadline_s = min(2 * self.deadline_s, self._longest_s)


@asynccontextmanager
async def shielded(line: ReconnectingConnection, deadline_s: float) -> AsyncGenerator[None]:
    """Shield the statements of the block from cancellation, until a deadline; connecting before it is not shielded.

    TimeoutError names the deadline. If cancelled before the block begins, nothing was sent.
    """
    await line.ready()
    with anyio.move_on_after(deadline_s, shield=True) as scope:
        yield
    if scope.cancelled_caught:
        raise TimeoutError(f"no answer from PostgreSQL within {deadline_s:g} s")
