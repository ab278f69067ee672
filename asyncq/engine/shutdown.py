"""How a worker stops: stop fetching, return what was not started, grace, cancel, write everything, go."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager

import anyio

SIGNALS = (signal.SIGTERM, signal.SIGINT)


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

    def force(self) -> None:
        """End the grace period."""
        self._asked.set()
        self._forced.set()

    async def asked(self) -> None:
        """Wait until somebody asks."""
        await self._asked.wait()

    async def forced(self) -> None:
        """Wait until the grace period is ended early."""
        await self._forced.wait()


@contextmanager
def signals(ask: Callable[[str], None]) -> Generator[None]:
    """Let SIGTERM and SIGINT ask to stop, for as long as the block lasts.

    Args:
        ask: Called in the event loop with the signal's name.

    Outside of the main thread signals cannot be handled: there nothing happens.
    """
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in SIGNALS}
    handled: list[signal.Signals] = []
    for number in SIGNALS:
        try:
            loop.add_signal_handler(number, ask, number.name)
            handled.append(number)
        except (NotImplementedError, ValueError, RuntimeError):
            continue
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
            if (handler := before[number]) is not None:  # None: it was set by other code than Python's
                signal.signal(number, handler)
