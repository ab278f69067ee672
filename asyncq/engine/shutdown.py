"""How a worker stops: stop fetching, return what was not started, grace, cancel, write everything, go."""

from __future__ import annotations

import anyio


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

    def fail(self, error: Exception) -> None:
        """Ask to stop because of an error; nothing if somebody has asked before."""
        if not self.is_asked:
            self.error = error
            self.ask(str(error))

    async def asked(self) -> None:
        """Wait until somebody asks."""
        await self._asked.wait()

    async def forced(self) -> None:
        """Wait until the grace period is ended early."""
        await self._forced.wait()
