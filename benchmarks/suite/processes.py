"""Figures of processes, where the system has /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """Seconds of CPU that a process has used; 0 if it is gone."""
    found = fields(pid)
    return (int(found[11]) + int(found[12])) / TICKS_PER_S if found else 0.0


def children(pid: int | None) -> Iterator[int]:
    """The processes that it has started, and that still live."""
    for entry in PROC.glob("[0-9]*"):
        found = fields(int(entry.name))
        if found and int(found[1]) == pid:
            yield int(entry.name)


def fields(pid: int) -> list[str]:
    """Its line in /proc, from the state on."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:  # gone meanwhile
        return []
