"""The worker of the latency measurement: says that it is ready, and, after its last job, when each one started."""

from __future__ import annotations

import asyncio
import json
import sys

from asyncq import Worker
from benchmarks import tasks


async def main(dsn: str, jobs: int) -> None:
    """Run jobs until so many have started."""
    async with Worker(dsn, tasks=[tasks.stamp]).start():
        print("ready", flush=True)
        while len(tasks.starts) < jobs:
            await asyncio.sleep(0.1)
    print(json.dumps(tasks.starts), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
