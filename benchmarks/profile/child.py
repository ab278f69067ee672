"""Starts the programs that are profiled, and speaks with them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.suite.places import CACHE, ROOT, Unfit

PYTHON = CACHE / "asyncq" / "bin" / "python"
SAMPLER = CACHE / "profile" / "bin" / "py-spy"
SAMPLES_PER_S = 1000


class Child:
    """A program of `benchmarks.profile.program`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def tell(self, text: str = "go") -> None:
        """Write a line to its input."""
        assert self._process.stdin is not None
        print(text, file=self._process.stdin, flush=True)

    def hear(self) -> dict[str, Any]:
        """Read the next line of its output.

        Raises:
            Unfit: It ended.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Unfit(f"the program ended with {self._process.wait()}")
        return json.loads(line)


@contextmanager
def child(name: str, dsn: str, jobs: int, python: Path = PYTHON) -> Generator[Child]:
    """A program that runs for as long as the block lasts."""
    command = [str(python), "-m", "benchmarks.profile.program", name, dsn, str(jobs)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as process:
        try:
            yield Child(process)
        finally:
            process.terminate()


@contextmanager
def sampled(pid: int, path: Path, sampler: Path = SAMPLER) -> Generator[None]:
    """Sample the stacks of a process during the block: of the thread that holds the interpreter, if there is one.

    Args:
        pid: The process.
        path: Where they are written, see `stacks.shares`.
        sampler: The program that does it.

    Raises:
        Unfit: The system does not permit it.
    """
    command: Sequence[str] = [
        *(str(sampler), "record", "--pid", str(pid), "--gil", "--format", "raw", "--duration", "unlimited"),
        *("--rate", str(SAMPLES_PER_S), "--output", str(path)),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        first = next((line for line in process.stdout if line.strip()), "")
        if "Sampling" not in first:
            rest = process.stdout.read()
            raise Unfit(f"stacks cannot be sampled here: {first.strip()} {rest.strip()}")
        try:
            yield
        finally:
            process.send_signal(2)
            process.stdout.read()
