"""A worker of `bad_days`: says that it is ready, and, after SIGTERM, when each of its jobs started."""

from __future__ import annotations

import asyncio
import json
import sys

from asyncq import ListenConnected, Worker, observer
from benchmarks import tasks


@observer(ListenConnected)
def ready(event: object) -> None:
    """Jobs that are added from now on are heard of at once."""
    print("ready", flush=True)


async def main(dsn: str) -> None:
    """Run jobs until told to stop."""
    await Worker(dsn, tasks=[tasks.stamp], observers=[ready]).run()
    print(json.dumps(tasks.starts), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
