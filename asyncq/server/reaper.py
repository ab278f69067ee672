"""The parent process of a throw-away server: it stops the server and removes its folder when its own parent has ended.

guard.py runs it as `python -I -S reaper.py FOLDER` in its own session. It uses only the standard library, and imports
nothing from asyncq, so that it starts in a few milliseconds and needs no site-packages.

It reads one JSON object (the plan), then one command on each line: `kill`, `restart`. It answers each by a line of
JSON: `pid`, or `error` and `log`. The end of its input means stop: guard.py closed the pipe, was killed or crashed.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

INITDB_LIMIT_S = 120.0
START_LIMIT_S = 120.0
STOP_LIMIT_S = 10.0
ORPHANS_LIMIT_S = 0.5
STEP_S = 0.01

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


class Failed(Exception):
    """PostgreSQL failed at a step."""


class Postgres:
    """One data folder, `data` in the private folder of the socket, and its server, which may run or not."""

    def __init__(self, folder: Path, plan: dict[str, Any]) -> None:
        self._folder = folder
        self._data = folder / "data"
        self._log = folder / "server.log"
        self._bindir: str = plan["bindir"]
        self._settings: dict[str, str] = plan["settings"]
        self._user: list[int] | None = plan["user"]
        self._crashed = False
        self._locale = "C"
        self._log_start = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int | None:
        """The process id of the postmaster, while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def initialize(self) -> None:
        """Run initdb: in UTF-8 with the order of code points if the machine has that locale, else in C."""
        words = ""
        for self._locale in ("C.UTF-8", "C"):
            command = [f"{self._bindir}/initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-E", "UTF8"]
            process = self._spawn([*command, f"--locale={self._locale}", "--no-sync"], subprocess.PIPE)
            words, _ = process.communicate(timeout=INITDB_LIMIT_S)
            if process.returncode == 0:
                return
            shutil.rmtree(self._data, ignore_errors=True)
        raise Failed(f"initdb failed: {words.strip()}")

    def start(self) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while not self._try_to_start(deadline):
            # After a SIGKILL of the postmaster, its last children may hold the shared memory for a moment.
            if "still in use" not in self.last_lines() or time.monotonic() > deadline:
                raise Failed("the server did not start")
            time.sleep(STEP_S)

    def stop(self, how: signal.Signals) -> None:
        """Stop the server (SIGINT: cleanly), at last by SIGKILL, and wait until its last process has ended."""
        if self._process:
            self._process.send_signal(how)
            try:
                self._process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._crashed = self._process.returncode == -signal.SIGKILL
        self._process = None
        wait_for_orphans()

    def discard(self) -> None:
        """Stop at once, without a checkpoint, and leave nothing in the system's shared memory."""
        self.stop(signal.SIGQUIT)
        if self._crashed:  # only a server that starts on these data removes the shared memory of a crashed one
            with contextlib.suppress(Failed):
                self.start()
            self.stop(signal.SIGQUIT)

    def last_lines(self) -> str:
        """Return the last lines that the server has written since its start."""
        try:
            log = self._log.read_bytes()[self._log_start :]
        except FileNotFoundError:
            return ""
        return "\n".join(log.decode(errors="replace").splitlines()[-15:])

    def _try_to_start(self, deadline: float) -> bool:
        settings = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        self._log_start = os.fstat(log).st_size
        try:
            command = [f"{self._bindir}/postgres", "-D", str(self._data), "-k", str(self._folder), *settings]
            self._process = self._spawn(command, log)
        finally:
            os.close(log)
        while self._process.poll() is None and time.monotonic() < deadline:
            if self._accepts_connections():
                return True
            time.sleep(STEP_S)
        self.stop(signal.SIGQUIT)
        return False

    def _accepts_connections(self) -> bool:
        """Read the state in line 8 of postmaster.pid, as pg_ctl does."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready"

    def _spawn(self, command: list[str], output: int) -> "subprocess.Popen[str]":
        """Start a program as the account, in its folder, without the user's PG* variables; it dies with us."""
        path = f"{self._bindir}:/usr/local/bin:/usr/bin:/bin"
        environment = {"PATH": path, "HOME": str(self._folder), "LC_ALL": self._locale, "TZ": "UTC"}
        uid, gid = self._user or (None, None)
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=self._folder,
            env=environment,
            umask=0o077,
            user=uid,
            group=gid,
            extra_groups=[] if self._user else None,
            preexec_fn=die_with(os.getpid()),  # noqa: PLW1509 - this process has one thread
            text=True,
            errors="replace",
        )


def load_prctl() -> Callable[[int, int], Any]:
    """Return prctl(2); a function that does nothing if this is not Linux, or Python has no ctypes."""
    try:
        import ctypes

        call = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return lambda _option, _argument: None
    return lambda option, argument: call(option, argument, 0, 0, 0)


prctl = load_prctl()


def die_with(reaper: int) -> Callable[[], None]:
    """Return a function that the server's process calls before exec: it dies at once if the reaper dies (Linux)."""

    def before_exec() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)
        if os.getppid() != reaper:
            os._exit(1)

    return before_exec


def wait_for_orphans() -> None:
    """Wait for the processes of a dead postmaster, which on Linux became children. At the deadline kill them."""
    deadline = time.monotonic() + ORPHANS_LIMIT_S
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            if time.monotonic() > deadline:
                kill_children()
            time.sleep(STEP_S)


def kill_children() -> None:
    """Send SIGKILL to every remaining child."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    for pid in children.read_text().split() if children.exists() else ():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


def lines_until_parent_is_gone() -> Iterator[str]:
    """Yield the lines of the input, until its end or the end of the parent.

    The end of the input is not enough: a child that the parent forked without exec holds a copy of the pipe.
    """
    parent = os.getppid()
    buffer = b""
    while True:
        while b"\n" in buffer:
            line, buffer = buffer.split(b"\n", 1)
            yield line.decode()
        ready, _, _ = select.select([0], [], [], 0.5)
        if ready:
            chunk = os.read(0, 65536)
            if not chunk:
                return
            buffer += chunk
        elif os.getppid() != parent:
            return


def answer(**content: Any) -> None:
    """Write one JSON object as one line."""
    os.write(1, json.dumps(content).encode() + b"\n")


def serve(folder: Path) -> None:
    """Run the plan, then the commands, until the parent has ended; then clean up."""
    lines = lines_until_parent_is_gone()
    postgres = None
    try:
        plan = next(lines, None)
        if plan is None:
            return
        postgres = Postgres(folder, json.loads(plan))
        try:
            postgres.initialize()
            postgres.start()
            answer(pid=postgres.pid)
            for command in lines:
                postgres.stop(signal.SIGKILL if command == "kill" else signal.SIGINT)
                if command == "restart":
                    postgres.start()
                answer(pid=postgres.pid)
        except (Failed, OSError, subprocess.SubprocessError) as error:
            with contextlib.suppress(BrokenPipeError):
                answer(error=str(error), log=postgres.last_lines())
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if postgres is not None:
            postgres.discard()
        remove(folder)


def remove(folder: Path) -> None:
    """Remove the folder; try again while a dying process still writes files."""
    deadline = time.monotonic() + STOP_LIMIT_S
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0 if not folder.exists() else STEP_S)


def leave(_signal: int, _frame: object) -> NoReturn:
    """Turn a signal to end into the normal end."""
    raise SystemExit(0)


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGHUP})  # guard.py blocked them until now
    signal.signal(signal.SIGTERM, leave)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    serve(Path(sys.argv[1]))
