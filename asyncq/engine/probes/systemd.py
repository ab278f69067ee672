"""Notifies systemd of the state of a worker, as sd_notify(3) describes: a datagram to the socket that it names."""

import os
import socket
import time
from collections.abc import Mapping
from typing import Self

from asyncq.engine.probes.vitals import Vitals

READY, STOPPING = "READY=1", "STOPPING=1"
EXTEND_S = 15.0  # a message extends the time to stop by so much; the next one comes before that
LAST_STEPS_S = 30.0  # a stop takes at most so much longer than the grace period


def notify(path: str, *lines: str) -> None:
    """Send lines to the socket that `NOTIFY_SOCKET` names; nothing if it is none, or cannot take them now."""
    if not path.startswith(("/", "@")):
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            line.setblocking(False)  # noqa: FBT003
            line.sendto("\n".join(lines).encode(), f"\0{path[1:]}" if path.startswith("@") else path)
    except OSError:
        pass  # systemd is being replaced, or busy: the next sign of life comes soon.


class Notifier:
    """The notifications of one worker; `watchdog_s` is the time within which systemd wants a sign of life."""

    def __init__(self, path: str, watchdog_s: float | None, grace_s: float) -> None:
        self._path = path
        self.watchdog_s = watchdog_s
        self._stop_takes_s = grace_s + LAST_STEPS_S
        self._is_ready = False
        self._status = ""
        self._stopping_since: float | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str], grace_s: float) -> Self | None:
        """The notifier of this process; None if systemd wants no notifications of it."""
        path, wanted = environment.get("NOTIFY_SOCKET", ""), environment.get("WATCHDOG_USEC", "")
        if not path.startswith(("/", "@")):
            return None
        is_ours = environment.get("WATCHDOG_PID") in (None, str(os.getpid()))
        watchdog_s = int(wanted) / 1_000_000 if wanted.isdecimal() and int(wanted) and is_ours else None
        return cls(path, watchdog_s, grace_s)

    def tick(self, vitals: Vitals | None, silent_s: float) -> None:
        """Send what is new, and signs of life while the event loop answers; called several times in `watchdog_s`."""
        lines = list[str]()
        if vitals is not None:
            if vitals.identity.worker_id and not self._is_ready:
                self._is_ready = True
                lines.append(READY)
            status = f"STATUS=worker {vitals.identity.worker_id} runs {vitals.running()} of {vitals.concurrency} jobs"
            if status != self._status:
                self._status = status
                lines.append(status)
            if vitals.is_stopping():
                lines += self._stopping()
        if self.watchdog_s is not None and silent_s < self.watchdog_s / 2:
            lines.append("WATCHDOG=1")
        self._send(lines)

    def end(self) -> None:
        """Say that the worker stops, if it was not said."""
        self._send(self._stopping() if self._stopping_since is None else [])

    def _stopping(self) -> list[str]:
        now = time.monotonic()
        first = self._stopping_since is None
        if self._stopping_since is None:
            self._stopping_since = now
        lines = [STOPPING] if first else []
        if now - self._stopping_since < self._stop_takes_s:
            lines.append(f"EXTEND_TIMEOUT_USEC={int(EXTEND_S * 1_000_000)}")
        return lines

    def _send(self, lines: list[str]) -> None:
        if lines:
            notify(self._path, *lines)
