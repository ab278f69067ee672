"""`python -m benchmarks.memory`: what an idle worker holds, and whether a busy one grows with the jobs that pass."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from asyncq import Client
from asyncq.server import start
from benchmarks.stream import Stream

JOBS = 1_000_000
MARKS = 50
WARM = 0.2  # of the jobs, until everything has its size
LIMIT = 1.0  # bytes a job
CALM_S = 2.0
SERVER = {"shared_buffers": "1GB", "max_wal_size": "8GB"}


def rss(pid: int | str = "self") -> int:
    """The resident memory of a process, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("this system does not tell how much memory a process holds")


async def idle(dsn: str) -> float:
    """The resident memory of a worker in a process of its own that has nothing to do, in MB."""
    await Client(dsn).migrate()
    command = [sys.executable, "-m", "benchmarks.steady_worker", dsn]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        await asyncio.sleep(CALM_S)
        return rss(process.pid) / 2**20
    finally:
        process.terminate()
        await process.communicate()


async def slope(dsn: str, jobs: int) -> dict[str, float]:
    """Let jobs pass through a worker of this process.

    Args:
        dsn: The server.
        jobs: How many.

    Returns:
        `bytes_a_job`, the slope of the resident memory behind the first fifth; `end_mb`, what it was at the end.
    """
    await Client(dsn).migrate()
    looks: list[tuple[int, int]] = []

    def look(passed: int) -> None:
        gc.collect()
        if passed >= WARM * jobs:
            looks.append((passed, rss()))

    await Stream(dsn, jobs, jobs // MARKS, look).run()
    passed, held = zip(*looks, strict=True)
    return {"bytes_a_job": statistics.linear_regression(passed, held).slope, "end_mb": held[-1] / 2**20}


async def measure(dsn: str, jobs: int) -> dict[str, float]:
    """Everything: `idle_mb`, and what `slope` tells."""
    return {"idle_mb": await idle(dsn), **await slope(dsn, jobs)}


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if a worker grows."""
    parser = argparse.ArgumentParser(prog="benchmarks.memory", description=__doc__)
    parser.add_argument("--dsn", help="a server whose schema asyncq may be used; else one is started")
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"how many pass; {JOBS:,} by default")
    parser.add_argument("--json", action="store_true", help="print every figure as JSON")
    args = parser.parse_args(words)
    with ExitStack() as stack:
        dsn = args.dsn or stack.enter_context(start(fsync=True, settings=SERVER)).dsn
        found = asyncio.run(measure(dsn, args.jobs))
    print(
        json.dumps(found, indent=2)
        if args.json
        else f"idle worker {found['idle_mb']:.1f} MB; {found['bytes_a_job']:.2f} bytes a job (limit {LIMIT:g}), "
        f"{found['end_mb']:.1f} MB at the end"
    )
    return int(found["bytes_a_job"] >= LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
