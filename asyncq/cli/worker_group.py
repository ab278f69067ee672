"""`asyncq worker --processes N`: starts N workers, each in its own process, and starts one again that ends by itself.

The workers have sessions of their own, so that Ctrl-C in a terminal reaches only the parent. A service manager may send
SIGTERM to all processes at once. So a worker ignores SIGTERM, and stops at SIGINT, which the parent sends. If the
parent is killed, its end of a pipe is closed, and the workers stop.
"""

import heapq
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any

from asyncq.cli.failures import FAILED, INTERRUPTED, USAGE
from asyncq.engine.base.backoff import backoff_s
from asyncq.engine.base.records import LOGGER, write
from asyncq.engine.probes.systemd import READY, STOPPING, notify
from asyncq.engine.signals import ignore_sigterm

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 30.0
NOTIFY_SOCKET = "NOTIFY_SOCKET"
STEADY_S = 60.0  # a worker that lived for so long begins with the first wait again
SIGNALS = (signal.SIGTERM, signal.SIGINT)
# The ends of a worker that a signal reached before it had set its handlers.
STOPPED = (0, INTERRUPTED, -signal.SIGINT, -signal.SIGTERM)


class _Place:
    """One of the N workers, and those that replace it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.failures = 0
        self.began_at = 0.0
        self.process: subprocess.Popen[bytes] | None = None

    def __lt__(self, other: "_Place") -> bool:
        return self.number < other.number


class WorkerGroup:
    """The workers of one command. Without `restarts` the command ends when all of them have ended."""

    def __init__(self, command: Sequence[str], count: int, *, restarts: bool) -> None:
        self._command = command
        self._places = [_Place(number) for number in range(1, count + 1)]
        self._restarts = restarts
        self._events: SimpleQueue[_Place | signal.Signals] = SimpleQueue()
        self._due: list[tuple[float, _Place]] = []
        self._stopping = False
        self._code = 0

    def run(self) -> int:
        """Run until all workers have ended, and return the exit code: 0, or that of the first one that failed."""
        reading, writing = os.pipe()
        try:
            with self._signals():
                for place in self._places:
                    self._start(place, reading)
                notify(_notify_socket(), READY)
                while self._due or any(place.process is not None for place in self._places):
                    self._act(reading)
        finally:
            os.close(writing)
            os.close(reading)
        return self._code

    def _act(self, reading: int) -> None:
        """Handle the next signal, end of a worker, or time to start one again."""
        timeout_s = max(self._due[0][0] - time.monotonic(), 0.0) if self._due else None
        try:
            event = self._events.get(timeout=timeout_s)
        except Empty:
            self._restart(heapq.heappop(self._due)[1], reading)
            return
        if isinstance(event, _Place):
            self._ended(event)
        else:
            self._stop(event.name)

    def _start(self, place: _Place, reading: int) -> None:
        place.began_at = time.monotonic()
        # The worker inherits the mask: a signal waits until the worker has its handlers, and calls `unblock_signals`.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            place.process = subprocess.Popen(
                [*self._command, "--parent", str(reading), "--place", str(place.number)],
                env=_environment(),
                stdin=subprocess.DEVNULL,
                pass_fds=[reading],
                start_new_session=True,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._say("worker %s of %s is process %s", place.number, len(self._places), place.process.pid)
        threading.Thread(target=self._wait, args=(place, place.process), daemon=True).start()

    def _restart(self, place: _Place, reading: int) -> None:
        try:
            self._start(place, reading)
        except OSError as error:
            # Memory may be short, or the program may be replaced at this moment. The other workers go on.
            self._again(place, f"cannot be started: {error}")

    def _wait(self, place: _Place, process: "subprocess.Popen[bytes]") -> None:
        process.wait()
        self._events.put(place)

    def _ended(self, place: _Place) -> None:
        process, place.process = place.process, None
        assert process is not None
        code: int = process.returncode
        if self._stopping or not self._restarts:
            if code not in (STOPPED if self._stopping else (0,)) and not self._code:
                self._code = code if code > 0 else FAILED
        elif code == USAGE:
            # Another start would change nothing.
            self._code = code
            self._stop("a worker refused its command line or its tasks")
        else:
            how = f"with exit code {code}" if code >= 0 else f"by {_name(-code)}"
            self._again(place, f"(process {process.pid}) ended {how}")

    def _again(self, place: _Place, why: str) -> None:
        if time.monotonic() - place.began_at >= STEADY_S:
            place.failures = 0
        place.failures += 1
        wait_s = backoff_s(place.failures, FIRST_WAIT_S, LONGEST_WAIT_S)
        heapq.heappush(self._due, (time.monotonic() + wait_s, place))
        said = "worker %s of %s %s; it is started again in %.1f s"
        self._say(said, place.number, len(self._places), why, wait_s, level=logging.ERROR, event="WorkerRestarted")

    def _stop(self, reason: str) -> None:
        """Ask all workers to stop; a second time ends their grace period."""
        if not self._stopping:
            self._say("stopping %s workers (%s)", len(self._places), reason)
            notify(_notify_socket(), STOPPING)
        self._stopping = True
        self._due.clear()
        for place in self._places:
            if place.process is not None:
                with suppress(ProcessLookupError):
                    place.process.send_signal(signal.SIGINT)

    def _say(self, template: str, *arguments: object, level: int = logging.INFO, event: str = "WorkerGroup") -> None:
        write(LOGGER, level, template, arguments, {"asyncq_event": event})

    @contextmanager
    def _signals(self) -> Generator[None]:
        def handle(number: int, _: Any) -> None:
            self._events.put(signal.Signals(number))

        before = {number: signal.signal(number, handle) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def run_group(words: Sequence[str], count: int, *, restarts: bool) -> int:
    """Run the workers of a command line, which has the words of `asyncq worker --processes N`."""
    return WorkerGroup([sys.executable, "-m", "asyncq", *words], count, restarts=restarts).run()


def follow(parent: int) -> None:
    """Let this process, a worker of a group, stop when its parent sends SIGINT or has died."""
    ignore_sigterm()
    threading.Thread(target=_follow, args=(parent,), name="asyncq parent", daemon=True).start()


def unblock_signals() -> None:
    """Receive the signals that were blocked when this worker of a group was started."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _follow(parent: int) -> None:
    os.set_inheritable(parent, False)  # noqa: FBT003
    os.read(parent, 1)
    os.kill(os.getpid(), signal.SIGINT)


def _environment() -> dict[str, str]:
    """The environment of a worker: systemd gets the notifications of the parent alone."""
    return {name: value for name, value in os.environ.items() if name != NOTIFY_SOCKET}


def _notify_socket() -> str:
    return os.environ.get(NOTIFY_SOCKET, "")


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
