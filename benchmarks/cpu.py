"""`python -m benchmarks.cpu`: the latency of other jobs of a worker, beside a handler that computes for 2 s."""

from __future__ import annotations

import asyncio
import statistics
import time

from asyncq import Client, Task, Worker
from asyncq.server import start
from benchmarks import heavy_tasks, tasks

PAUSE_S = 0.02
KINDS: dict[str, Task[[]] | None] = {
    "nothing beside them": None,
    "a coroutine computes": heavy_tasks.in_loop,
    "a thread computes": heavy_tasks.in_thread,
    "a process computes": heavy_tasks.in_process,
}


async def beside(dsn: str, heavy: Task[[]] | None) -> list[float]:
    """Add short jobs for 2 s, while one computes; returns the latency of each in milliseconds."""
    served = [tasks.stamp, *([heavy] if heavy else [])]
    tasks.starts.clear()
    async with Client(dsn) as client, Worker(dsn, served).start():
        if heavy is not None:
            # The first one starts the process, as in a worker that has run for a while.
            await client.add_job(heavy)
            await drained(client)
            await client.add_job(heavy)
        due, end = time.monotonic(), time.monotonic() + heavy_tasks.COMPUTE_S
        while due < end:
            # When it was due: a blocked event loop delays the adds of its own process too.
            await client.add_job(tasks.stamp, int(due * 1e9))
            due += PAUSE_S
            await asyncio.sleep(max(due - time.monotonic(), 0))
        await drained(client)
    return sorted((started - sent) / 1e6 for sent, started in tasks.starts)


async def drained(client: Client) -> None:
    """Wait until no job waits or runs."""
    while (counts := await client.admin.counts()).available or counts.active:
        await asyncio.sleep(PAUSE_S)


async def measure(dsn: str) -> dict[str, list[float]]:
    """The latencies of each kind."""
    await Client(dsn).migrate()
    return {name: await beside(dsn, heavy) for name, heavy in KINDS.items()}


def main() -> None:
    """Measure and print."""
    with start(fsync=True) as server:
        found = asyncio.run(measure(server.dsn))
    print(f"{'ms from add to start':<24} {'jobs':>6} {'median':>8} {'99 %':>8} {'longest':>8}")
    for name, times in found.items():
        tail = times[int(len(times) * 0.99)]
        print(f"{name:<24} {len(times):>6} {statistics.median(times):>8.1f} {tail:>8.1f} {times[-1]:>8.1f}")


if __name__ == "__main__":
    main()
