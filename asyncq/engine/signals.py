"""Lets SIGTERM and SIGINT ask the workers of this process to stop: all of them, and nobody else's handlers are lost.

Not by the event loop's `add_signal_handler`, which holds one function for each signal: a second worker, or a service
that listens too, would take the place of the first one, and take it away when it ends.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_DEFAULTS = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}

_Asked = tuple[asyncio.AbstractEventLoop, Callable[[str], None]]
_asked: list[_Asked] = []
_before: dict[signal.Signals, Any] = {}


@contextmanager
def signals(ask: Callable[[str], None]) -> Generator[None]:
    """Let SIGTERM and SIGINT ask to stop, for as long as the block lasts.

    Args:
        ask: Called in the event loop with the signal's name.

    What was there before is back when the last such block of the process has ended. Outside of the main thread signals
    cannot be handled: there nothing happens.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    mine = (asyncio.get_running_loop(), ask)
    _hear()
    _asked.append(mine)
    try:
        yield
    finally:
        _asked.remove(mine)
        if not _asked:
            _restore()


def _hear() -> None:
    """Handle the signals, if nobody does so yet."""
    for number in _DEFAULTS:
        if signal.getsignal(number) is not _tell:
            _before[number] = signal.signal(number, _tell)


def _restore() -> None:
    for number, handler in _before.items():
        if signal.getsignal(number) is _tell:  # Else somebody has set another one since.
            # None: it was set by other code than Python's, which cannot be put back.
            signal.signal(number, _DEFAULTS[number] if handler is None else handler)
    _before.clear()


def _tell(number: int, _: FrameType | None) -> None:
    for loop, ask in _asked:
        if not loop.is_closed():
            loop.call_soon_threadsafe(ask, signal.Signals(number).name)
