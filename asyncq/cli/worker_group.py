"""`asyncq worker --processes N` and `--reload`: workers in processes of their own, which are started again.

The workers have sessions of their own, so that Ctrl-C in a terminal reaches only the parent. A service manager may send
SIGTERM to all processes at once. So a worker ignores SIGTERM, and stops at SIGINT, which the parent sends. If the
parent is killed, its end of a pipe is closed, and the workers stop.

With `--reload` a change of the code stops the workers, and starts them again. A worker that cannot load its tasks is
started again after the next change.
"""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from asyncq.cli.failures import FAILED, INTERRUPTED, USAGE
from asyncq.cli.reload import Watch
from asyncq.engine.base.backoff import backoff_s
from asyncq.engine.base.records import LOGGER, write
from asyncq.engine.probes.systemd import READY, STOPPING, notify
from asyncq.engine.signals import ignore_sigterm

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 30.0
NOTIFY_SOCKET = "NOTIFY_SOCKET"
STEADY_S = 60.0  # a worker that lived for so long begins with the first wait again
KILL_S = 10.0  # A worker ends at most 8 s after its grace period, unless a handler blocks its loop.
SIGNALS = (signal.SIGTERM, signal.SIGINT)
# The ends of a worker that a signal reached before it had set its handlers.
STOPPED = (0, INTERRUPTED, -signal.SIGINT, -signal.SIGTERM)


class Place:
    """One of the processes of a group, and those that replace it.

    Attributes:
        title: Its name in messages.
        command: Its command line.
        watch: The code whose changes replace it; None if none do.
        grace_s: How long it may take to stop for a change.
    """

    def __init__(self, title: str, command: Sequence[str], watch: Watch | None = None, grace_s: float = 0.0) -> None:
        self.title = title
        self.command = command
        self.watch = watch
        self.grace_s = grace_s
        self.failures = 0
        self.began_at = 0.0
        self.process: subprocess.Popen[bytes] | None = None
        self.is_replaced = False  # It was asked to stop, because the code has changed.
        self.due_at: float | None = None  # The next signal; without a process, the next start.
        self._signals: list[signal.Signals] = []

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process, if one runs."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)

    def stop(self) -> None:
        """Ask the process to stop; if it reloads, end its grace period later, at last kill it."""
        self.send(signal.SIGINT)
        if self.watch is not None and self.due_at is None and self.process is not None:
            self._signals = [signal.SIGKILL, signal.SIGINT]
            self.due_at = time.monotonic() + self.grace_s

    def press(self) -> None:
        """Send the next signal to a process that has not stopped."""
        self.send(self._signals.pop())
        self.due_at = time.monotonic() + KILL_S if self._signals else None

    def ended(self) -> "subprocess.Popen[bytes]":
        """Forget the process, which has ended; returns it."""
        process, self.process, self.due_at = self.process, None, None
        assert process is not None
        return process


class WorkerGroup:
    """The processes of one command. Without `restarts` the command ends when all of them have ended."""

    def __init__(self, places: Sequence[Place], *, restarts: bool) -> None:
        self._places = places
        self._restarts = restarts
        self._events: SimpleQueue[Place | signal.Signals | tuple[Watch, Path]] = SimpleQueue()
        self._stopping = False
        self._code = 0

    def run(self) -> int:
        """Run until all workers have ended, and return the exit code: 0, or that of the first one that failed."""
        reading, writing = os.pipe()
        try:
            with self._handlers():
                for watch in {place.watch for place in self._places if place.watch is not None}:
                    watch.start(lambda path, watch=watch: self._events.put((watch, path)))
                for place in self._places:
                    self._start(place, reading)
                notify(_notify_socket(), READY)
                while self._goes_on():
                    self._act(reading)
        finally:
            os.close(writing)
            os.close(reading)
        return self._code

    def _goes_on(self) -> bool:
        waits_for_change = not self._stopping and any(place.watch is not None for place in self._places)
        return waits_for_change or any(place.process or place.due_at is not None for place in self._places)

    def _act(self, reading: int) -> None:
        """Handle the next signal, end of a worker, change of the code, or time to start or stop a worker."""
        due_at, place = min(
            ((place.due_at, place) for place in self._places if place.due_at is not None),
            key=lambda due: due[0],
            default=(None, None),
        )
        try:
            event = self._events.get(timeout=None if due_at is None else max(due_at - time.monotonic(), 0.0))
        except Empty:
            assert place is not None
            place.press() if place.process is not None else self._restart(place, reading)
            return
        match event:
            case Place():
                self._ended(event, reading)
            case signal.Signals():
                self._stop(event.name)
            case watch, path:
                self._changed(watch, path, reading)

    def _start(self, place: Place, reading: int) -> None:
        place.began_at = time.monotonic()
        place.due_at = None
        # The worker inherits the mask: a signal waits until the worker has its handlers, and calls `unblock_signals`.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            place.process = subprocess.Popen(
                [*place.command, "--parent", str(reading)],
                env=_environment(reloads=place.watch is not None),
                stdin=subprocess.DEVNULL,
                pass_fds=[reading],
                start_new_session=True,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._say("%s is process %s", place.title, place.process.pid)
        threading.Thread(target=self._wait, args=(place, place.process), daemon=True).start()

    def _restart(self, place: Place, reading: int) -> None:
        try:
            self._start(place, reading)
        except OSError as error:
            # Memory may be short, or the program may be replaced at this moment. The other workers go on.
            self._again(place, f"cannot be started: {error}")

    def _wait(self, place: Place, process: "subprocess.Popen[bytes]") -> None:
        process.wait()
        self._events.put(place)

    def _ended(self, place: Place, reading: int) -> None:
        process = place.ended()
        code: int = process.returncode
        if self._stopping or not self._restarts:
            if code not in (STOPPED if self._stopping else (0,)) and not self._code:
                self._code = code if code > 0 else FAILED
        elif place.is_replaced:
            place.is_replaced = False
            place.failures = 0
            self._restart(place, reading)
        elif code == USAGE and place.watch is not None:
            self._say("%s cannot start, and is started again when the code changes", place.title, level=logging.ERROR)
        elif code == USAGE:
            # Another start would change nothing.
            self._code = code
            self._stop(f"{place.title} cannot start")
        else:
            how = f"with exit code {code}" if code >= 0 else f"by {_name(-code)}"
            self._again(place, f"(process {process.pid}) ended {how}")

    def _again(self, place: Place, why: str) -> None:
        if time.monotonic() - place.began_at >= STEADY_S:
            place.failures = 0
        place.failures += 1
        wait_s = backoff_s(place.failures, FIRST_WAIT_S, LONGEST_WAIT_S)
        place.due_at = time.monotonic() + wait_s
        said = "%s %s; it is started again in %.1f s"
        self._say(said, place.title, why, wait_s, level=logging.ERROR, event="WorkerRestarted")

    def _changed(self, watch: Watch, path: Path, reading: int) -> None:
        """Replace the processes with this code; one that is being replaced already reads it when it starts."""
        if self._stopping:
            return
        self._say("%s has changed", path)
        for place in self._places:
            if place.watch is watch and place.process is None:
                place.failures = 0
                self._restart(place, reading)
            elif place.watch is watch and not place.is_replaced:
                place.is_replaced = True
                place.stop()

    def _stop(self, reason: str) -> None:
        """Ask all workers to stop; a second time ends their grace period."""
        if not self._stopping:
            self._say("stopping %s processes (%s)", len(self._places), reason)
            notify(_notify_socket(), STOPPING)
        self._stopping = True
        for place in self._places:
            if place.process is None:
                place.due_at = None
            place.stop()

    def _say(self, template: str, *arguments: object, level: int = logging.INFO, event: str = "WorkerGroup") -> None:
        write(LOGGER, level, template, arguments, {"asyncq_event": event})

    @contextmanager
    def _handlers(self) -> Generator[None]:
        def handle(number: int, _: Any) -> None:
            self._events.put(signal.Signals(number))

        before = {number: signal.signal(number, handle) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def run_group(
    words: Sequence[str], count: int, *, restarts: bool, watch: Watch | None = None, grace_s: float = 0.0
) -> int:
    """Run the workers of a command line, which has the words of `asyncq worker --processes N`."""
    command = [sys.executable, "-m", "asyncq", *words]
    places = [
        Place(f"worker {number} of {count}", [*command, "--place", str(number)], watch, grace_s)
        for number in range(1, count + 1)
    ]
    return WorkerGroup(places, restarts=restarts).run()


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


def _environment(*, reloads: bool) -> dict[str, str]:
    """The environment of a worker: systemd gets the notifications of the parent alone.

    Python takes compiled code for that of a file if size and second of the change agree. A worker that reloads writes
    none.
    """
    inherited = {name: value for name, value in os.environ.items() if name != NOTIFY_SOCKET}
    return {**inherited, "PYTHONDONTWRITEBYTECODE": "1"} if reloads else inherited


def _notify_socket() -> str:
    return os.environ.get(NOTIFY_SOCKET, "")


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
