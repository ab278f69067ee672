"""The launcher's end of the pipe to reaper.py, which stops the server and removes its folder in any case."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from asyncq.server.errors import ServerFailed
from asyncq.server.folders import Folder

_REAPER = Path(__file__).with_name("reaper.py")
_STOP_LIMIT_S = 30.0
_OF_A_TERMINAL = {signal.SIGINT, signal.SIGHUP}


class Guard:
    """Starts the reaper, passes the folder's lock to it, and exchanges lines of JSON with it.

    The reaper has its own session: a Ctrl-C in the terminal reaches this process, and the server only through it.
    The ends of the pipe are not inheritable, so that programs started here do not hold it open.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder.path
        self._owner = os.getpid()
        # A Ctrl-C would end the reaper before it has its session: signals are blocked until then, and ignored.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, _OF_A_TERMINAL)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_REAPER), str(folder.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                pass_fds=[folder.lock],
                start_new_session=True,
            )
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._to, self._from = self._process.stdin, self._process.stdout
        finally:
            os.close(folder.lock)
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)

    def ask(self, line: str) -> int | None:
        """Send one line, and return the postmaster's process id, None if it is down; ServerFailed stops the server."""
        if self._to.closed:
            raise ServerFailed(f"The server in {self._folder} was stopped before.")
        try:
            self._to.write(line.encode() + b"\n")
            self._to.flush()
            answer: dict[str, Any] = json.loads(self._from.readline() or b'{"error": "its guard is gone"}')
        except BrokenPipeError:
            answer = {"error": "its guard is gone"}
        if "error" in answer:
            self.close()
            raise ServerFailed(f"The server in {self._folder} failed: {answer['error']}", answer.get("log", ""))
        return answer["pid"]

    def close(self) -> None:
        """Close the pipe and wait until the reaper has finished; does nothing in a forked process."""
        if self._to.closed or self._owner != os.getpid():
            return
        try:
            self._to.close()
        except BrokenPipeError:
            pass  # the reaper has ended, so the unsent bytes have no receiver
        try:
            self._process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired as error:
            self._process.kill()
            self._process.wait()
            raise ServerFailed(f"The server in {self._folder} did not stop in {_STOP_LIMIT_S:.0f} s.") from error
        finally:
            self._from.close()
        if self._folder.exists():
            raise ServerFailed(f"The server stopped, but its folder {self._folder} could not be removed.")
