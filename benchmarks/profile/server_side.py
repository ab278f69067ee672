"""The server's cost of a job: CPU by connection from /proc, time by statement from pg_stat_statements if available."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from asyncq.server import Binaries
from asyncq.store.statements import texts
from benchmarks.suite.processes import cpu_s

LOOK_S = 0.05
EXTENSION = "pg_stat_statements"
READ = """
    select query, calls, total_exec_time * 1000 as exec_us, wal_bytes::float8 as wal_bytes
    from pg_stat_statements where calls > 0
"""

_COMMENT = re.compile(r"--[^\n]*")
_CONSTANT = re.compile(r"'[^']*'|\$\d+|-?\b\d[\d.e]*\b|\b(?:null|true|false)\b")


def has(binaries: Binaries, library: str) -> bool:
    """Whether the binaries bring a library of the server along."""
    homes = (binaries.bindir.parent, Path("/usr/lib/postgresql") / str(binaries.major))
    return any((home / place / f"{library}.so").exists() for home in homes for place in ("lib", "lib/postgresql"))


def shape(query: str) -> str:
    """A statement without comments, constants and blanks, as the server's own text of it has other ones."""
    return "".join(_CONSTANT.sub("?", _COMMENT.sub("", query)).split())


@cache
def names() -> dict[str, str]:
    """The shapes of our statements -> their names."""
    return {shape(text): name for name, text in texts("queries").items()}


def name_of(query: str) -> str:
    """The name of a statement: that of its file, or its first word."""
    words = query.split()
    return names().get(shape(query)) or (words[0].lower() if words else "-")


def by_name(rows: Iterable[Mapping[str, Any]]) -> dict[str, tuple[int, float, float]]:
    """Statements by name: how often each ran, its microseconds, its bytes of WAL; the longest first."""
    found: dict[str, tuple[int, float, float]] = {}
    for row in rows:
        calls, exec_us, wal_bytes = found.get(name := name_of(row["query"]), (0, 0.0, 0.0))
        found[name] = (calls + row["calls"], exec_us + row["exec_us"], wal_bytes + row["wal_bytes"])
    return dict(sorted(found.items(), key=lambda item: -item[1][1]))


class Backends:
    """The CPU of the server's processes by role of their connections."""

    def __init__(self) -> None:
        self._used: dict[int, tuple[str, float, float]] = {}

    def look(self, roles: Mapping[int, str]) -> None:
        """Record the CPU of each process so far; one that has ended keeps its last figure."""
        for pid, role in roles.items():
            used = cpu_s(pid)
            began = self._used[pid][1] if pid in self._used else used
            self._used[pid] = (role, began, max(used, began))

    def seconds(self) -> dict[str, float]:
        """Role -> seconds since the first sample of each process, the busiest first."""
        found: dict[str, float] = {}
        for role, began, used in self._used.values():
            found[role] = found.get(role, 0.0) + used - began
        return dict(sorted(found.items(), key=lambda item: -item[1]))
