"""The profiled programs, each in its own process: a worker that drains, a worker that idles, a client that adds."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

from asyncq import Client, Worker
from asyncq.engine.fetch.handoff import Handoff
from benchmarks import tasks
from benchmarks.work import fill

PAUSE_S = 0.01  # between two adds: the worker is idle again


def tell(**what: Any) -> None:
    """Write a line of JSON to the parent process."""
    print(json.dumps(what), flush=True)


async def hear() -> str:
    """Read the next line from the parent process."""
    return (await asyncio.to_thread(sys.stdin.readline)).strip()


async def drain(dsn: str, jobs: int) -> None:
    """Wait for the start, run the jobs, and report the time."""
    await fill(dsn, jobs)
    tell(ready=True)
    await hear()
    tasks.runs = 0
    cpu, wall = time.process_time(), time.perf_counter()
    await Worker(dsn, tasks=[tasks.noop]).run_once()
    tell(cpu_s=time.process_time() - cpu, wall_s=time.perf_counter() - wall, calls=tasks.runs)


async def idle(dsn: str, _: int) -> None:
    """Run jobs and note when each hand-off arrived, until the parent stops it."""
    told: list[int] = []
    hear_of_offer = Handoff.heard

    def noting(self: Handoff, text: str) -> None:
        told.append(time.monotonic_ns())
        hear_of_offer(self, text)

    Handoff.heard = noting
    async with Worker(dsn, tasks=[tasks.stamp]).start():
        tell(ready=True)
        await hear()
    tell(told=told, starts=tasks.starts)


async def add(dsn: str, jobs: int) -> None:
    """Add jobs one by one, and report when each call began and returned."""
    returned: list[int] = []
    async with Client(dsn) as client:
        for _ in range(jobs):
            await client.add_job(tasks.stamp, time.monotonic_ns())
            returned.append(time.monotonic_ns())
            await asyncio.sleep(PAUSE_S)
    tell(returned=returned)


PROGRAMS: dict[str, Callable[[str, int], Awaitable[None]]] = {"drain": drain, "idle": idle, "add": add}


async def main(name: str, dsn: str, jobs: int) -> None:
    """Run one of them."""
    await PROGRAMS[name](dsn, jobs)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
