"""Helpers of the tests of the examples: a database, and a program that runs during the test."""

import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from tests.support.waiting import wait_until

CHECKOUT = Path(__file__).parents[2]


class Program:
    """A program that was started for a test.

    Attributes:
        process: Its process.
        log: The file with everything that it says.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.process = process
        self.log = log

    async def says(self, pattern: str) -> "re.Match[str]":
        """Wait until its output has a match of the pattern."""

        def look() -> bool:
            ended, said = self.process.poll() is not None, self.log.read_text()
            if ended and not re.search(pattern, said):
                raise AssertionError(f"ended with {self.process.returncode} and never said {pattern}:\n{said}")
            return re.search(pattern, said) is not None

        await wait_until(look, description=f"{pattern} in {self.log}")
        return re.search(pattern, self.log.read_text())

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, and wait for the end; returns the exit code."""
        self.process.send_signal(number)
        return await self.end()

    async def end(self) -> int:
        """Wait for the end; returns the exit code."""
        await wait_until(lambda: self.process.poll() is not None, description="the end of the program")
        return self.process.returncode


@contextmanager
def program(log: Path, *command: str, **environment: str) -> Generator[Program]:
    """Start `python -m command` in the checkout; it is killed if it still runs at the end of the block."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=CHECKOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield Program(process, log)
    finally:
        process.kill()
        process.wait(10)


@asynccontextmanager
async def fresh_database(dsn: str) -> AsyncGenerator[str]:
    """The DSN of an empty database on the same server: the examples use the schema's default name."""
    name = f"example_{secrets.token_hex(6)}"
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(f"create database {name}")
        yield urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))
        await connection.execute(f"drop database {name} with (force)")
    finally:
        await connection.close(timeout=5)
