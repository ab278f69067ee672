"""Latency: one job at a time is added while a worker idles; from the add to the start of its handler, or its result."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from benchmarks.peers.peer import Peer
from benchmarks.suite.child import Child
from benchmarks.suite.drains import Jobs, called, check
from benchmarks.suite.places import Unfit

PAUSE_S = 0.01  # the worker is idle again
WARM_UP = 20
SETTLE_S = 1.0  # from its start, until a worker surely listens
LONGEST_S = 60.0


async def latency(peer: Peer, variant: str, table: Jobs, jobs: int, **wish: Any) -> dict[str, Any]:
    """Add jobs one by one.

    Args:
        peer: The queue whose client and worker run, a process each.
        variant: Their settings.
        table: The table of the jobs.
        jobs: How many are timed.
        **wish: Further settings of both; `awaited`: the client awaits each result, which is timed instead of the start.

    Returns:
        The median in milliseconds, the 95th and the 99th percentile.

    Raises:
        Unfit: Not every job ran exactly once.
    """
    settings = {**peer.variants[variant], **wish}
    everything = jobs + WARM_UP
    async with AsyncExitStack() as stack:
        worker = await Child.begin(peer, "work", table.dsn, **settings, stamps=True)
        stack.push_async_callback(worker.close)
        await worker.go()
        client = await Child.begin(peer, "tell", table.dsn, **settings, jobs=everything, pause_s=PAUSE_S)
        stack.push_async_callback(client.close)
        await client.hear("prepared")
        await asyncio.sleep(SETTLE_S)
        client.tell("go")
        try:
            async with asyncio.timeout(LONGEST_S):
                told = await client.hear("sent")
                sent: list[int] = told["at"]
                await called([worker], everything)
                while not await table.is_empty():
                    await asyncio.sleep(PAUSE_S)
        except TimeoutError:
            raise Unfit(f"{peer.name}: {worker.calls} of {everything} jobs in {LONGEST_S:g} s") from None
        report = await worker.report()
    check(peer.name, [report], everything)
    timed: list[tuple[int, int]] = [*enumerate(told["ended_ns"])] if wish.get("awaited") else report["starts"]
    delays = sorted((at - sent[number]) / 1e6 for number, at in timed if number >= WARM_UP)
    return percentiles(delays)


def percentiles(delays: list[float]) -> dict[str, float]:
    """The median as the value, and the tail, of sorted delays."""
    return {
        "value": delays[len(delays) // 2],
        "p95": delays[int(len(delays) * 0.95)],
        "p99": delays[int(len(delays) * 0.99)],
    }
