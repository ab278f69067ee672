"""`python -m benchmarks.memory`: the memory of an idle worker, and whether that of a busy one grows with its jobs."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from asyncq import Client
from asyncq.server import start
from benchmarks.machine import rss

JOBS = 1_000_000
RUNS = 5  # a process each: one step of the allocator, a megabyte, is more than the limit
LIMIT = 1.0  # bytes a job
CALM_S = 2.0
SERVER = {"shared_buffers": "1GB", "max_wal_size": "8GB"}


async def idle(dsn: str) -> float:
    """The resident memory of an idle worker in its own process, in MB."""
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


async def growing(dsn: str, jobs: int, runs: int) -> list[dict[str, float]]:
    """Run `benchmarks.growing_worker` in so many processes in turn; their results, the smallest growth first."""
    found: list[dict[str, float]] = []
    for _ in range(runs):
        command = [sys.executable, "-m", "benchmarks.growing_worker", dsn, str(jobs)]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        told, _ = await process.communicate()
        found.append(json.loads(told))
    return sorted(found, key=lambda one: one["bytes_a_job"])


async def measure(dsn: str, jobs: int, runs: int) -> dict[str, float]:
    """Everything.

    Returns:
        `idle_mb`; of the run in the middle `bytes_a_job` and `end_mb`; `least` and `most` bytes a job of a run.
    """
    idle_mb = await idle(dsn)
    found = await growing(dsn, jobs, runs)
    spread = {"least": found[0]["bytes_a_job"], "most": found[-1]["bytes_a_job"]}
    return {"idle_mb": idle_mb, **found[len(found) // 2], **spread}


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if a worker grows."""
    parser = argparse.ArgumentParser(prog="benchmarks.memory", description=__doc__)
    parser.add_argument("--dsn", help="a server whose schema asyncq may be used; else one is started")
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"how many pass; {JOBS:,} by default")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"in how many processes; {RUNS} by default")
    parser.add_argument("--json", action="store_true", help="print every figure as JSON")
    args = parser.parse_args(words)
    with ExitStack() as stack:
        dsn = args.dsn or stack.enter_context(start(fsync=True, settings=SERVER)).dsn
        found = asyncio.run(measure(dsn, args.jobs, args.runs))
    print(
        json.dumps(found, indent=2)
        if args.json
        else f"idle worker {found['idle_mb']:.1f} MB; {found['bytes_a_job']:.2f} bytes a job (limit {LIMIT:g}; "
        f"{found['least']:.2f} to {found['most']:.2f}), {found['end_mb']:.1f} MB at the end"
    )
    return int(found["bytes_a_job"] >= LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
