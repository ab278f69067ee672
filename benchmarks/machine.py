"""The machine and the versions behind the figures."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

import asyncpg

SETTINGS = ("server_version", "fsync", "synchronous_commit", "shared_buffers")


async def conditions(dsn: str, loop: str) -> dict[str, str]:
    """Versions and settings that a figure depends on.

    Args:
        dsn: The server that is measured.
        loop: The name of the event loop.

    Returns:
        Name -> value.
    """
    connection = await asyncpg.connect(dsn)
    try:
        settings = {name: await connection.fetchval("select current_setting($1)", name) for name in SETTINGS}
    finally:
        await connection.close()
    return {
        "asyncq": importlib.metadata.version("asyncq"),
        "python": platform.python_version(),
        "loop": loop,
        "asyncpg": importlib.metadata.version("asyncpg"),
        "cores": str(os.cpu_count()),
        **settings,
    }


def rss(pid: int | str = "self") -> int:
    """The resident memory of a process, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("this system does not tell how much memory a process holds")
