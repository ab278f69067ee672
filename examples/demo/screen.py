"""The screen of the demo: lines, and a progress bar on a terminal."""

from __future__ import annotations

import os
import shutil
from typing import TextIO

WIDTH = 20
ERASE = "\r\x1b[K"


class Screen:
    """Writes lines; also a progress bar if the stream is a terminal and NO_COLOR is not set.

    Args:
        stream: The output.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_live = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._quarter = 0
        self._has_bar = False

    def say(self, line: str = "") -> None:
        """Write a line in place of the progress bar."""
        self.clear()
        self._stream.write(line + "\n")
        self._stream.flush()

    def show(self, done: int, total: int, words: str) -> None:
        """Show the progress: draw the progress bar again, or write a line at each quarter."""
        if self._is_live:
            columns = shutil.get_terminal_size().columns
            self._stream.write(ERASE + f"{self._bar(done, total)} {words}"[: columns - 1])
            self._stream.flush()
            self._has_bar = True
            return
        quarter = 4 * done // total
        if quarter > self._quarter:
            self._quarter = quarter
            self.say(f"{done * 100 // total:>3} %  {words}")

    def clear(self) -> None:
        """Remove the progress bar."""
        if self._has_bar:
            self._has_bar = False
            self._stream.write(ERASE)
            self._stream.flush()

    def _bar(self, done: int, total: int) -> str:
        full, empty = ("█", "░") if (self._stream.encoding or "").lower().startswith("utf") else ("#", ".")
        length = WIDTH * done // total
        return full * length + empty * (WIDTH - length)
