"""Lets SIGTERM and SIGINT ask all workers of this process to stop, and calls earlier handlers too.

The event loop's `add_signal_handler` is not used, since it holds one function for each signal. A second worker, or a
service with a handler, would replace the function of the first worker, and remove it at its end.

A forked child gets the earlier handlers back: its copy of a worker does not run, and could not stop.
"""

import asyncio
import os
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
_passing: set[int] = set()  # signals that are being passed on
_forking = threading.local()
_ignored: set[int] = set()


class StoppedEarly(BaseException):
    """A signal arrived before a worker ran. It is no Exception: the user's `except Exception` must not catch it."""


class EarlySignals:
    """The signals that arrived before a worker ran: their names, until a worker takes them."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._interrupts = False

    @contextmanager
    def interrupt(self) -> Generator[None]:
        """Let the first signal, in the block or before it, end the block with StoppedEarly."""
        self._interrupts = True
        try:
            if not self.names:
                yield
        finally:
            self._interrupts = False
            if self.names:  # Also if the block replaced or swallowed the exception.
                raise StoppedEarly(self.names[0])

    def came(self, name: str) -> None:
        """Record a signal; called in the signal handler."""
        self.names.append(name)
        if self._interrupts:
            raise StoppedEarly(name)


_early: EarlySignals | None = None


@contextmanager
def early_signals() -> Generator[EarlySignals]:
    """Keep SIGTERM and SIGINT for the first worker that starts in the block; in the main thread only.

    Without a handler the kernel drops the signals of the first process of a container.
    """
    global _early
    _early = EarlySignals()
    _install()
    try:
        yield _early
    finally:
        _early = None
        if not _asked:
            _restore()


@contextmanager
def signals(ask: Callable[[str], None]) -> Generator[None]:
    """Let SIGTERM and SIGINT ask to stop, in the event loop, for as long as the block lasts.

    A handler that was set before is called too, and is restored when the last such block of the process has ended.
    Outside of the main thread signals cannot be handled, and the block changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    mine = (asyncio.get_running_loop(), ask)
    _install()
    _asked.append(mine)
    if _early is not None:
        while _early.names:
            ask(_early.names.pop(0))
    try:
        yield
    finally:
        _asked.remove(mine)
        if not _asked:
            _restore()


def ignore_sigterm() -> None:
    """Ignore SIGTERM from now on, because the parent of this worker receives it too, and sends SIGINT then."""
    _ignored.add(signal.SIGTERM)


def _install() -> None:
    """Install the handler, where it is not installed yet."""
    for number in _DEFAULTS:
        if signal.getsignal(number) is not _handle:
            _before[number] = signal.signal(number, _handle)


def _restore() -> None:
    for number, handler in _before.items():
        if signal.getsignal(number) is _handle:  # Otherwise another handler was set since.
            # None: it was set outside of Python, and cannot be restored.
            signal.signal(number, _DEFAULTS[number] if handler is None else handler)
    _before.clear()


def _handle(number: int, frame: FrameType | None) -> None:
    if number in _ignored:
        return
    name = signal.Signals(number).name
    for loop, ask in _asked:
        if not loop.is_closed():
            loop.call_soon_threadsafe(ask, name)
    _pass_on(number, frame)
    if _early is not None and not _asked:
        _early.came(name)


def _pass_on(number: int, frame: FrameType | None) -> None:
    """Call the handler that was set before, such as one of a web server in which the worker runs.

    Python's own handlers of SIGINT are not called: they would end the program at once, without an orderly stop.
    """
    handler = _before.get(signal.Signals(number))
    # That handler may call the one that it replaced, which may be this module's.
    if not callable(handler) or _is_pythons(handler) or number in _passing:
        return
    _passing.add(number)
    try:
        handler(number, frame)
    finally:
        _passing.discard(number)


def _is_pythons(handler: Any) -> bool:
    """Whether a handler of SIGINT is Python's own or the one of `asyncio.run`."""
    owner = getattr(getattr(handler, "func", None), "__self__", None)
    return handler is signal.default_int_handler or isinstance(owner, asyncio.Runner)


def _is_of_a_loop(handler: Any) -> bool:
    """Whether a handler was set by an event loop, which then calls a callback."""
    module: object = getattr(getattr(handler, "func", handler), "__module__", None)
    return isinstance(module, str) and module.partition(".")[0] in {"asyncio", "uvloop"}


# A signal that reaches the child before its handlers are restored would be lost. So signals are blocked until then.


def _before_fork() -> None:
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _DEFAULTS) if _before else None


def _after_fork() -> None:
    if _forking.mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


def _after_fork_in_child() -> None:
    global _early
    _asked.clear()
    _passing.clear()
    _ignored.clear()
    _early = None
    if _before:
        # No event loop runs here. The descriptor for wake-ups belongs to the loop of the parent.
        signal.set_wakeup_fd(-1)
        for number, handler in _before.items():
            if _is_of_a_loop(handler):
                _before[number] = None
        _restore()
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
