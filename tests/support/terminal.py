"""Runs a command in a terminal: a pseudo terminal with a size, whose keys interrupt the command."""

import asyncio
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import anyio

from tests.support.cli import LIMIT_S, environment

CLEAR = "\x1b[H\x1b[2J"
INTERRUPT = b"\x03"


class Terminal:
    """A terminal, and the command that runs in it.

    Attributes:
        process: The process of the command.
        written: All that it has written.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", place: int) -> None:
        self.process = process
        self.written = ""
        self._place = place

    @property
    def screen(self) -> list[str]:
        """The lines since the screen was cleared."""
        return self.written.rpartition(CLEAR)[2].splitlines()

    async def shows(self, pattern: str) -> list[str]:
        """Wait until a line of the screen has a match of the pattern; returns the screen."""
        with anyio.move_on_after(LIMIT_S):
            while not any(re.search(pattern, line) for line in self.screen):
                await anyio.sleep(0.01)
            return self.screen
        raise AssertionError(f"never showed {pattern}:\n{self.written}")

    def press(self, key: bytes) -> None:
        """Press a key."""
        os.write(self._place, key)

    async def end(self) -> int:
        """Wait for the end of the command; returns its exit code."""
        with anyio.fail_after(LIMIT_S):
            while (code := self.process.poll()) is None:
                await anyio.sleep(0.01)
        return code

    def read(self) -> None:
        """Read what was written since."""
        try:
            self.written += os.read(self._place, 65536).decode()
        except OSError:  # The command has ended.
            asyncio.get_running_loop().remove_reader(self._place)


@asynccontextmanager
async def in_terminal(*words: str, columns: int, lines: int, **more: str) -> AsyncGenerator[Terminal]:
    """Start `python -m asyncq words` in a terminal of a size; it is killed if it still runs at the end."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    variables = environment(**more)
    for name in ("COLUMNS", "LINES"):  # The size is that of the terminal.
        variables.pop(name, None)
    process = _start(words, variables, its)
    os.close(its)
    terminal = Terminal(process, ours)
    loop = asyncio.get_running_loop()
    loop.add_reader(ours, terminal.read)
    try:
        yield terminal
    finally:
        process.kill()
        process.wait(LIMIT_S)
        loop.remove_reader(ours)
        os.close(ours)


def _start(words: Sequence[str], variables: dict[str, str], place: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "asyncq", *words],
        env=variables,
        stdin=place,
        stdout=place,
        stderr=place,
        start_new_session=True,
        preexec_fn=_take_terminal,  # noqa: PLW1509 -- it is one system call
    )


def _take_terminal() -> None:
    """Let the keys of the terminal interrupt this process."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
