"""A worker of `bad_days`: reports that it is ready, and, after SIGTERM, when each of its jobs started."""

from __future__ import annotations

import asyncio
import json
import sys

from asyncq import ListenConnected, Worker, observer
from benchmarks import tasks


@observer(ListenConnected)
def ready(event: object) -> None:
    """Report that jobs added from now on are notified."""
    print("ready", flush=True)


async def main(dsn: str) -> None:
    """Run jobs until a signal stops it."""
    await Worker(dsn, tasks=[tasks.stamp], observers=[ready]).run()
    print(json.dumps(tasks.starts), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
