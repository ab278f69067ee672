"""Clocks that a test moves, by libfaketime in a single process; the machine's own clock stays.

The library intercepts the clock functions of the C library, and reads the offset from a file. A moved process reads the
true time directly from the kernel.
"""

import ctypes
import functools
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from tests.support.debian import unpacked

NAME = "*/faketime/libfaketimeMT.so.1"
CALLS = {"x86_64": 228, "aarch64": 113}  # clock_gettime, by its number in the kernel
MISSING = "Debian's libfaketime is not here, or does not work: no clock of a process can be moved"

_call = CALLS.get(platform.machine())
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class _TimeSpec(ctypes.Structure):
    _fields_ = (("s", ctypes.c_long), ("ns", ctypes.c_long))


def true_ns(clock: int) -> int:
    """Read a clock of the machine, even if this process sees a moved one."""
    if _call is None or _libc is None:
        return time.clock_gettime_ns(clock)
    shown = _TimeSpec()
    if _libc.syscall(_call, clock, ctypes.byref(shown)):
        raise OSError(ctypes.get_errno(), "clock_gettime")
    return shown.s * 1_000_000_000 + shown.ns


class ProcessClock:
    """The clock of a process that is started with its `variables`.

    Args:
        path: Where it is written by how much the clock is moved.
        moves_monotonic: Whether the clocks move too that are never set, as if the process had been kept from running.

    Attributes:
        by: By how much it is moved.
    """

    def __init__(self, path: Path, *, moves_monotonic: bool) -> None:
        self._path = path
        self.moves_monotonic = moves_monotonic
        self.by = timedelta()
        self.move_to(self.by)

    def move_to(self, by: timedelta) -> None:
        """Move it; the process sees that at once."""
        self.by = by
        written = self._path.with_suffix(".new")
        written.write_text(f"{by.total_seconds():+.3f}\n")
        written.replace(self._path)  # In one step: it is read all the time.

    @property
    def variables(self) -> dict[str, str]:
        """The environment of the process."""
        keeps_monotonic = "0" if self.moves_monotonic else "1"
        return {
            "LD_PRELOAD": str(library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._path),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": keeps_monotonic,
            "DONT_FAKE_MONOTONIC": keeps_monotonic,
            "NO_FAKE_STAT": "1",  # else every source file looks changed
            "PYTHONDONTWRITEBYTECODE": "1",
        }


@functools.cache
def library() -> Path | None:
    """The library, if a process can be moved by it here: Debian's, which is fetched where it is not installed."""
    return next((path for path in _found() if _works(path)), None) if _call is not None else None


def _found() -> Iterator[Path]:
    yield from Path("/usr/lib").glob(NAME)
    if (folder := unpacked("libfaketime")) is not None:
        yield from (folder / "usr" / "lib").glob(NAME)


def _works(path: Path) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        moved = Path(folder) / "by"
        moved.write_text("+7200\n")
        variables = {"LD_PRELOAD": str(path), "FAKETIME_TIMESTAMP_FILE": str(moved), "FAKETIME_NO_CACHE": "1"}
        command = [sys.executable, "-c", "import time; print(time.time())"]
        asked = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True)
    try:
        return float(asked.stdout) > time.time() + 7000
    except ValueError:
        return False
