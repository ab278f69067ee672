"""`python -m benchmarks.growing_worker DSN JOBS`: run jobs in a worker, and print how its memory grew."""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import sys

from benchmarks.machine import rss
from benchmarks.stream import Stream

MARKS = 50
WARM = 0.2  # of the jobs, until everything has its size


async def slope(dsn: str, jobs: int) -> dict[str, float]:
    """Run jobs in a worker of this process.

    Args:
        dsn: The server, with the schema.
        jobs: How many.

    Returns:
        `bytes_a_job`, the slope of the resident memory after the first fifth; `end_mb`, its final value.
    """
    looks: list[tuple[int, int]] = []

    def look(passed: int) -> None:
        gc.collect()
        if passed >= WARM * jobs:
            looks.append((passed, rss()))

    await Stream(dsn, jobs, jobs // MARKS, look).run()
    passed, held = zip(*looks, strict=True)
    return {"bytes_a_job": statistics.linear_regression(passed, held).slope, "end_mb": held[-1] / 2**20}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(slope(sys.argv[1], int(sys.argv[2])))))
