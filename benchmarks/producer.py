"""A producer in its own process: for each line of its input, `first count`, it adds so many jobs and reports that."""

from __future__ import annotations

import asyncio
import sys

from asyncq import Client
from benchmarks import tasks

CHUNK = 5_000


async def main(dsn: str) -> None:
    """Read ranges of jobs from the input, and add each, until the input ends."""
    async with Client(dsn) as client:
        while line := await asyncio.to_thread(sys.stdin.readline):
            first, count = map(int, line.split())
            await client.add_jobs([tasks.noop.job(number) for number in range(first, first + count)])
            print(count, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
