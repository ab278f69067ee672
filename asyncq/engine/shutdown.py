"""The request to stop a worker.

The worker then stops fetching, returns claims that have not started, waits for the grace period, cancels the handlers
that still run, writes all settlements, and ends.
"""

from collections.abc import Awaitable
from typing import TypeVar

import anyio

T = TypeVar("T")


class StopRequest:
    """Whether a worker has to stop; the stopped worker raises `error`, if there is one.

    `asked` is set by the first request, `forced` by another one, which ends the grace period early.
    """

    def __init__(self) -> None:
        self.reason = ""
        self.error: Exception | None = None
        self.asked = anyio.Event()
        self.forced = anyio.Event()
        self._beginning: anyio.CancelScope | None = None

    @property
    def is_asked(self) -> bool:
        return self.asked.is_set()

    def ask(self, reason: str) -> None:
        """Ask to stop; a second time ends the grace period."""
        if self.is_asked:
            self.forced.set()
            return
        self.reason = reason
        self.asked.set()
        if self._beginning is not None:
            self._beginning.cancel()

    def fail(self, error: Exception) -> None:
        """Ask to stop because of an error; an earlier request keeps its reason."""
        if not self.is_asked:
            self.error = error
            self.ask(str(error))

    async def unless_asked(self, beginning: Awaitable[T]) -> T | None:
        """Await a slow step of the start; None if the worker was asked to stop, which cancels the step."""
        with anyio.CancelScope() as self._beginning:
            if self.is_asked:
                self._beginning.cancel()
            return await beginning
        return None
