"""How a worker stops: stop fetching, return what was not started, grace, cancel, write everything, go."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

import anyio

T = TypeVar("T")


class StopRequest:
    """Asked to stop, and how urgently.

    Attributes:
        reason: Why, for the log.
        error: What the worker has to raise when it has stopped, if that is why.
    """

    def __init__(self) -> None:
        self.reason = ""
        self.error: Exception | None = None
        self._asked = anyio.Event()
        self._forced = anyio.Event()
        self._beginning: anyio.CancelScope | None = None

    @property
    def is_asked(self) -> bool:
        """Whether somebody asked."""
        return self._asked.is_set()

    def ask(self, reason: str) -> None:
        """Ask to stop; a second time ends the grace period."""
        if self._asked.is_set():
            self._forced.set()
            return
        self.reason = reason
        self._asked.set()
        if self._beginning is not None:
            self._beginning.cancel()

    def fail(self, error: Exception) -> None:
        """Ask to stop because of an error; nothing if somebody has asked before."""
        if not self.is_asked:
            self.error = error
            self.ask(str(error))

    async def unless_asked(self, beginning: Awaitable[T]) -> T | None:
        """Do what may take long before anything is held, and cancel it when somebody asks to stop.

        Returns:
            What it came to; None if it was cancelled.
        """
        with anyio.CancelScope() as self._beginning:
            if self.is_asked:
                self._beginning.cancel()
            return await beginning
        return None

    async def asked(self) -> None:
        """Wait until somebody asks."""
        await self._asked.wait()

    async def forced(self) -> None:
        """Wait until the grace period is ended early."""
        await self._forced.wait()
