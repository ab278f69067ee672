"""The program of a process that runs handlers for a worker. Only the command of `process` imports it.

The main thread calls handlers. A second thread reads the orders, and ends the process when the worker has closed its
socket or has died.
"""

import ctypes
import importlib
import io
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from queue import SimpleQueue
from types import FrameType
from typing import Any, NoReturn

from asyncq.domain.address import Address
from asyncq.domain.errors import TaskError
from asyncq.domain.job import is_awaitable
from asyncq.domain.outcome import Discarded, Failed, RetryLater, Snoozed, clean_error, error_line, text_of
from asyncq.domain.result import UnwritableResult
from asyncq.domain.signature import Signature
from asyncq.domain.task import Task
from asyncq.engine.run.frames import (
    LARGEST_RESULT,
    SOCKET_CLOSED,
    Answer,
    Began,
    Frames,
    Order,
    Raised,
    Reported,
    Returned,
    framed,
    read_order,
)
from asyncq.engine.run.process_log import ToWorker, use_levels
from asyncq.engine.run.verdict import describe, outcome_of

PR_SET_PDEATHSIG = 1
EXIT_S = 2.0  # how long functions of `atexit` may take once the worker has closed the socket
READ_BYTES = 65536


def main() -> None:
    """Run the handlers that the worker orders, until it closes the socket."""
    fd, worker = int(sys.argv[1]), int(sys.argv[2])
    sys.argv = ["-c"]
    _end_with(worker)
    for number in (signal.SIGINT, signal.SIGTERM):
        # Not SIG_IGN, which programs that a handler starts would inherit. The worker decides about the end.
        signal.signal(number, _ignore)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
    calls = _Calls(socket.socket(fileno=fd))
    threading.Thread(target=calls.read, name="asyncq orders", daemon=True).start()
    calls.run()


def _ignore(number: int, frame: FrameType | None) -> None:
    pass


def _end_with(worker: int) -> None:
    """Let the kernel end this process with the thread of its worker, also while C code lets no other thread run."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != worker:
        os._exit(1)


class _Calls:
    """The calls of handlers, one after the other."""

    def __init__(self, channel: socket.socket) -> None:
        channel.set_inheritable(False)
        self._channel = channel
        self._lock = threading.Lock()
        self._orders: SimpleQueue[Order | None] = SimpleQueue()
        self._is_busy = False
        self._is_fork = False
        self._handlers: dict[Address, tuple[Signature, Callable[..., Any]]] = {}
        to_worker = ToWorker(self._send)
        logging.root.addHandler(to_worker)
        os.register_at_fork(after_in_child=partial(self._leave, to_worker))

    def read(self) -> None:
        """Read orders until the socket is closed; then end the process, at once if a handler runs."""
        frames = Frames()
        with suppress(OSError):
            while received := self._channel.recv(READ_BYTES):
                for message in frames.feed(received):
                    order = read_order(message)
                    if isinstance(order, Order):
                        self._is_busy = True
                        self._orders.put(order)
                    else:
                        use_levels(order.levels)
        if not self._is_busy:
            self._orders.put(None)
            time.sleep(EXIT_S)
        os.killpg(os.getpid(), signal.SIGKILL)

    def run(self) -> None:
        """Call handlers until there are no more orders."""
        while (order := self._orders.get()) is not None:
            answer = self._answer(order)
            if self._is_fork:
                _end_fork(answer)
            self._is_busy = False
            try:
                self._send(answer)
            except OSError:
                # The handler has closed all files of the process, or the worker is about to end it.
                os._exit(SOCKET_CLOSED)

    def _leave(self, to_worker: ToWorker) -> None:
        """Forget the worker, in a child that a handler has forked: what both write would be mixed."""
        self._is_fork = True
        self._channel.close()
        logging.root.removeHandler(to_worker)
        logging.root.addHandler(logging.StreamHandler())

    def _send(self, message: Reported) -> None:
        with self._lock:
            self._channel.sendall(framed(message))

    def _answer(self, order: Order) -> Answer:
        try:
            signature, handler = self._found(order)
            self._send(Began())
            args, kwargs = signature.decode(order.payload, None)
            result: Any = None  # what is carried may suppress an error
            with ExitStack() as stack:
                for each in order.carried:
                    stack.enter_context(getattr(importlib.import_module(each.module), each.name)(each.texts))
                result = handler(*args, **kwargs)
            if is_awaitable(result):
                raise TaskError(f"task {order.task!r}: the handler returned an awaitable, which no event loop runs")
            return _returned(signature, result)
        except BaseException as error:  # noqa: BLE001 - any end of the handler is its outcome
            return _raised(error)

    def _found(self, order: Order) -> tuple[Signature, Callable[..., Any]]:
        address = Address(order.module, order.path)
        if address not in self._handlers:
            found = address.find_in(importlib.import_module(order.module))
            if isinstance(found, Task):
                self._handlers[address] = found.signature, found.handler
            elif callable(found):
                self._handlers[address] = Signature(found, order.task), found
            else:
                raise TaskError(f"task {order.task!r}: {address} is no function: {found!r}")
        return self._handlers[address]


def _end_fork(answer: Answer) -> NoReturn:
    """End a child of a handler whose code has returned or raised. The functions of `atexit` are its parent's."""
    if isinstance(answer, Raised):
        sys.stderr.write(f"{answer.error}\n")
    sys.stdout.flush()
    os._exit(1 if isinstance(answer, Raised) else 0)


def _returned(signature: Signature, result: Any) -> Returned:
    if result is None:
        return Returned()
    try:
        return Returned(signature.results.write(result, LARGEST_RESULT), type(result).__name__)
    except (UnwritableResult, TaskError) as error:
        return Returned(None, type(result).__name__, clean_error(str(error)))
    except Exception as error:  # noqa: BLE001 - of a method of the user's object
        return Returned(None, type(result).__name__, error_line(error))


def _raised(error: BaseException) -> Raised:
    try:
        outcome = outcome_of(error, interrupted=False)
    except Exception as broken:  # noqa: BLE001 - of a subclass of RetryAfter, Snooze or Discard
        outcome, error = Failed(describe(broken)), broken
    name, message = type(error).__name__, clean_error(text_of(error))
    match outcome:
        case Discarded(text):
            return Raised(text, name, _reason(error, text, message), "Discard")
        case RetryLater(text, delay_s, partition=partition):
            return Raised(text, name, _reason(error, text, message), "RetryAfter", delay_s, partition)
        case Snoozed(delay_s):
            return Raised("", name, message, "Snooze", delay_s)
        case Failed(text):
            return Raised(text, name, message)
        case _:
            return Raised(describe(error), name, message)


def _reason(error: BaseException, text: str, message: str) -> str:
    """The reason of a verdict: that of the one which decides, if it was raised in a group."""
    return text.partition("\n\n")[0].partition(": ")[2] if isinstance(error, BaseExceptionGroup) else message
