"""Helpers of the tests of the command line: run `python -m asyncq`, or start it and talk to it by signals."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio.to_thread import run_sync

CHECKOUT = Path(__file__).parents[2]
LIMIT_S = 20.0


def environment(**more: str) -> dict[str, str]:
    """Ours, without anything that leads to a database."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith("PG") and "DATABASE_URL" not in name
    }
    return {**kept, "PYTHONPATH": str(CHECKOUT), "PYTHONUNBUFFERED": "1", "COLUMNS": "80", **more}


async def asyncq(
    *words: str, cwd: Path | None = None, given: bytes = b"", **more: str
) -> "subprocess.CompletedProcess[str]":
    """Run `python -m asyncq words` to its end; more are environment variables."""
    done = await run_sync(
        partial(
            subprocess.run,
            [sys.executable, "-m", "asyncq", *words],
            cwd=cwd,
            env=environment(**more),
            input=given,
            capture_output=True,
            timeout=LIMIT_S,
        )
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


class Started:
    """A command that runs during the test.

    Attributes:
        process: Its process.
        log: The file with its output.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.process = process
        self.log = log

    async def says(self, pattern: str) -> str:
        """Wait until its output has a match of the pattern."""
        with anyio.move_on_after(LIMIT_S):
            while (found := re.search(pattern, self.log.read_text())) is None and self.process.poll() is None:
                await anyio.sleep(0.01)
            found = re.search(pattern, self.log.read_text())
        assert found is not None, f"never said {pattern}, exit code {self.process.returncode}:\n{self.log.read_text()}"
        return found.group()

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    async def end(self) -> int:
        """Wait for the end; returns the exit code."""
        with anyio.move_on_after(LIMIT_S):
            while self.process.poll() is None:
                await anyio.sleep(0.01)
        assert self.process.returncode is not None, f"does not end:\n{self.log.read_text()}"
        return self.process.returncode


@contextmanager
def started(cwd: Path, *words: str, program: str | None = None, **more: str) -> Iterator[Started]:
    """Start `python -m asyncq words`, or a program that calls it; it is killed if it still runs at the end."""
    log = cwd / "log"
    how = ["-m", "asyncq"] if program is None else ["-c", program]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *how, *words],
            cwd=cwd,
            env=environment(**more),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield Started(process, log)
    finally:
        process.kill()
        process.wait(LIMIT_S)


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write files by their paths in the folder; returns the folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


async def appears(path: Path) -> str:
    """Wait until a file is there with something in it; returns its text."""
    with anyio.fail_after(LIMIT_S):
        while not (text := _text(path)):
            await anyio.sleep(0.01)
    return text


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def error_of(stderr: str) -> dict[str, Any]:
    """The error in a command's JSON output, which must be nothing else."""
    return json.loads(stderr)["error"]
