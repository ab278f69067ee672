"""The conditions of a figure, without names of hosts or folders."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from benchmarks.suite.environment import version_of
from benchmarks.suite.places import CACHE
from benchmarks.suite.postgres import SETTINGS
from benchmarks.suite.python import how_built


def name() -> str:
    """A name for the machine, such as `2-cores`."""
    return f"{cores()}-cores"


def cores() -> int:
    """The number of cores that we may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """The model of the processor, where the system reports it."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def conditions(server: str, loop: str) -> dict[str, str]:
    """Versions and settings of a line."""
    python, node = CACHE / "asyncq" / "bin" / "python", CACHE / "peers" / "bin" / "node"
    return {
        "PostgreSQL": server,
        **SETTINGS,
        "fsync": "on",
        "synchronous_commit": "on",
        "Python": f"{version_of(python)} {how_built(str(python))}".strip(),
        "loop": loop,
        **({"Node": version_of(node)} if node.exists() else {}),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "cores": str(cores()),
    }
