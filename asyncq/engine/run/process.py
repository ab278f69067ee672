"""A process that runs handlers, one call at a time, as its worker sees it. `process_main` is what runs in it.

It has a session of its own, so that Ctrl-C in a terminal does not reach it, and so that a kill also ends the processes
that a handler started. It ends when the socket to its worker is closed, and on Linux at the latest when the thread ends
that started it.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from asyncq.domain.errors import ProcessDied
from asyncq.engine.run.frames import SOCKET_CLOSED, Answer, Began, Frames, Logged, Order, Setup, framed, read_report
from asyncq.engine.run.process_log import levels, write

# Only `sys` is imported before the search path is that of the worker.
PROGRAM = "import sys; sys.path[:] = sys.argv[3:]; from asyncq.engine.run.process_main import main; main()"
CLOSED = "the process of the handler closed the socket to its worker"
LAST_WORDS_S = 0.2  # how long after its end what it sent may be on its way
END_S = 2.0  # how long it may take to end once the socket is closed


class Process:
    """One process, which is started at once, in the thread of the event loop."""

    def __init__(self, ended: Callable[["Process"], None]) -> None:
        """`ended` is called after its end, once what it sent was read."""
        self._loop = asyncio.get_running_loop()
        self._ended = ended
        self._socket, theirs = socket.socketpair()
        with theirs:
            fd = theirs.fileno()
            path = [entry for entry in sys.path if isinstance(entry, str)]  # pyright: ignore[reportUnnecessaryIsInstance]
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", PROGRAM, str(fd), str(os.getpid()), *path],
                    stdin=subprocess.DEVNULL,
                    stdout=2,  # What handlers print must not be mistaken for output of the worker.
                    pass_fds=[fd],
                    start_new_session=True,
                )
            except BaseException:
                self._socket.close()
                raise
        self._transport: asyncio.Transport | None = None
        self._call: _Call | None = None
        self._is_lost = False
        self._why = ""
        self._timer: asyncio.TimerHandle | None = None
        self.end: asyncio.Future[None] = self._loop.create_future()
        threading.Thread(target=self._wait, name="asyncq process", daemon=True).start()

    @property
    def id(self) -> int:
        """Its id in the system."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it can take a call."""
        return self._process.returncode is None and not self._is_lost

    async def connect(self) -> None:
        """Open the socket. If cancelled, kill the process."""
        self._transport, _ = await self._loop.create_unix_connection(
            lambda: _Wire(self._received, self._lost), sock=self._socket
        )
        self._transport.write(framed(Setup(levels())))

    async def call(self, order: Order, fields: Mapping[str, Any], began: Callable[[], None]) -> Answer:
        """Call a handler; ProcessDied if the process dies meanwhile. If cancelled, kill the process.

        `fields` are added to the records that it logs. `began` is called once the process has imported the handler.
        """
        if self._transport is None or not self.is_alive:
            raise ProcessDied(self._how())
        self._call = _Call(self._loop.create_future(), fields, began, copy_context())
        self._transport.write(framed(order))
        try:
            return await self._call.answer
        finally:
            self._call = None

    @property
    def memory(self) -> int:
        """The bytes of main memory that it uses, on Linux; 0 if it has ended."""
        try:
            pages = Path(f"/proc/{self.id}/statm").read_text().split()[1]
        except (OSError, IndexError):
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def kill(self, why: str = "") -> None:
        """Kill it, and the processes that it started, unless they have a session of their own.

        The reason, if there is one, becomes the error of the call.
        """
        self._why = self._why or why
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Let it end, or kill it after `END_S`; `end` is done then."""
        if self._transport is None:
            self.kill()
        else:
            self._transport.close()

    def _wait(self) -> None:
        """Wait in a thread, because child watchers of event loops depend on the loop and on the main thread."""
        self._process.wait()
        # The loop may be closed already.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._exited)

    def _received(self, message: bytes) -> None:
        report = read_report(message)
        if isinstance(report, Logged):
            self._write(report)
        elif self._call is not None and not self._call.answer.done():
            if isinstance(report, Began):
                self._call.began()
            else:
                self._call.answer.set_result(report)

    def _write(self, record: Logged) -> None:
        """Write a record in the context of its call. The one of this callback is that of the first call."""
        if self._call is None:
            write(record, {})
        else:
            self._call.variables.run(write, record, self._call.fields)

    def _lost(self) -> None:
        """The socket is closed: by the worker, by the end of the process, or by its handler."""
        self._is_lost = True
        if self._process.returncode is None:
            self._later(END_S, partial(self.kill, CLOSED))
        else:
            self._finish()

    def _exited(self) -> None:
        if self._is_lost:
            self._finish()
        else:
            # A process that a handler forked may hold the socket open.
            self._later(LAST_WORDS_S, self._finish)

    def _later(self, delay_s: float, call: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, call)

    def _finish(self) -> None:
        if self.end.done() or self._process.returncode is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is None:
            self._socket.close()
        else:
            self._transport.abort()
        if self._call is not None and not self._call.answer.done():
            self._call.answer.set_exception(ProcessDied(self._how()))
        self.end.set_result(None)
        self._ended(self)

    def _how(self) -> str:
        code = self._process.returncode
        if self._why:
            return self._why
        if code is None:
            return "the process of the handler does not answer"
        if code == SOCKET_CLOSED:
            return CLOSED
        if code >= 0:
            return f"the process of the handler ended with exit code {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        hint = ": was the memory exhausted?" if -code == signal.SIGKILL else ""
        return f"the process of the handler was ended by {name}{hint}"


class _Call(NamedTuple):
    answer: asyncio.Future[Answer]
    fields: Mapping[str, Any]
    began: Callable[[], None]
    variables: Context


class _Wire(asyncio.Protocol):
    """Passes on the messages of a process, and the end of its socket."""

    def __init__(self, received: Callable[[bytes], None], lost: Callable[[], None]) -> None:
        self._frames = Frames()
        self._received = received
        self._lost = lost

    def data_received(self, data: bytes) -> None:
        for message in self._frames.feed(data):
            self._received(message)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - a method of the protocol
        self._lost()
