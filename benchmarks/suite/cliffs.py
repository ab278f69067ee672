"""The work where queues fall off a cliff: tables whose next job is hard to find."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import asyncpg

from benchmarks.peers.asyncq.shapes import BUSY, STRANGERS, STUCK
from benchmarks.peers.peer import Peer
from benchmarks.suite.child import SELDOM_S, Child
from benchmarks.suite.drains import called, check, drain
from benchmarks.suite.places import Unfit
from benchmarks.suite.processes import cpu_s
from benchmarks.suite.stage import RATE, Run, Stage, Work

PART = 100_000
LONG_S = 240.0
IDLE_S = 5.0


def in_series(concurrency: int) -> Run:
    """All jobs in one serial queue; milliseconds a job, and their order is checked."""

    async def run(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
        async with stage.postgres.copy(peer, variant, size, shape="serial") as jobs:
            options = {"concurrency": concurrency}
            seen = await drain(peer, variant, jobs, size, loop=stage.loop, stamps=True, options=options)
        if [number for number, _ in seen["_starts"][0]] != list(range(size)):
            raise Unfit(f"{peer.name}: a serial queue was out of order")
        return seen | {"value": 1000 / seen["value"], "rate": seen["value"]}

    return run


async def run_queues(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
    """Jobs in many serial queues; the longest fetch is noted."""
    async with stage.postgres.copy(peer, variant, size, shape="queues") as jobs:
        return await drain(peer, variant, jobs, size, loop=stage.loop, watch_fetches=True)


def first_of(everything: int, shape: str) -> Run:
    """Measure so many calls of handlers while far more jobs wait in serial queues; the longest fetch is recorded."""

    async def run(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
        async with stage.postgres.copy(peer, variant, everything, shape=shape) as jobs:
            wish = {"loop": stage.loop, "stamps": True, "watch_fetches": True}
            worker = await Child.begin(peer, "work", jobs.dsn, **wish)
            try:
                await worker.go()
                async with asyncio.timeout(LONG_S):
                    await called([worker], size)
                report = await worker.report()
            finally:
                await worker.close()
        starts: list[tuple[int, int]] = report["starts"]
        if len({number for number, _ in starts}) != len(starts):
            raise Unfit(f"{peer.name}: a job ran twice")
        took_ns = starts[size - 1][1] - starts[0][1]
        return {"value": (size - 1) / (took_ns / 1e9), "longest_fetch_ms": report["longest_fetch_ms"]}

    return run


async def run_stuck(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
    """Drain the other jobs while far more wait for two queues whose first jobs do not end."""
    everything = len(BUSY) + STUCK + size
    async with stage.postgres.copy(peer, variant, everything, shape="stuck") as jobs:
        holder = await Child.begin(peer, "work", jobs.dsn, task="hold")
        try:
            await holder.go()
            while await jobs.count("and locked_by is not null") < len(BUSY):
                await asyncio.sleep(0.05)
            ours = f"and id > {everything - size} order by id desc"
            return await drain(peer, variant, jobs, size, loop=stage.loop, among=ours)
        finally:
            await holder.close()


async def run_snapshot(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
    """Drain while a transaction keeps its snapshot from before the first job to after the last."""
    async with stage.postgres.copy(peer, variant, size) as jobs:
        reader = await asyncpg.connect(jobs.dsn)
        try:
            await reader.execute("begin isolation level repeatable read")
            await reader.fetchval("select count(*) from pg_class")
            seen = await drain(peer, variant, jobs, size, loop=stage.loop, longest_s=LONG_S)
        finally:
            await reader.close()
    first, last = rate_between(seen["_marks"], 0, PART), rate_between(seen["_marks"], size - PART, size)
    return seen | {"value": last / first, "rate": seen["value"], "first": first, "last": last}


def rate_between(marks: list[tuple[int, int]], low: int, high: int) -> float:
    """Calls a second between two counts, from times at which a count was seen, with straight lines between them."""

    def at(count: int) -> float:
        for (before_ns, before), (after_ns, after) in pairwise(marks):
            if before <= count <= after and before < after:
                return before_ns + (after_ns - before_ns) * (count - before) / (after - before)
        raise Unfit(f"nobody saw {count} calls")

    return (high - low) / ((at(high) - at(low)) / 1e9)


async def run_strangers(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
    """Drain our own jobs behind a million that are not for us; then idle beside those."""
    async with stage.postgres.copy(peer, variant, 2 * STRANGERS + size, shape="strangers") as jobs:
        options = {"forbidden_flags": ["paused"]}
        ours = f"and id > {2 * STRANGERS} order by id desc"
        seen = await drain(peer, variant, jobs, size, loop=stage.loop, among=ours, options=options)
        return seen | await idle(stage, peer, jobs.dsn, options=options)


async def idle(stage: Stage, peer: Peer, dsn: str, **wish: Any) -> dict[str, Any]:
    """Measure the share of a CPU that a worker takes while it finds nothing to do, and that of the server."""
    worker = await Child.begin(peer, "work", dsn, loop=stage.loop, tick_s=SELDOM_S, **wish)
    try:
        await worker.go()
        await asyncio.sleep(2)
        before, server_before = cpu_s(worker.pid), stage.postgres.cpu_s()
        await asyncio.sleep(IDLE_S)
        spent, of_server = cpu_s(worker.pid) - before, stage.postgres.cpu_s() - server_before
        report = await worker.report()
    finally:
        await worker.close()
    check(peer.name, [report], 0)
    return {"idle_cpu": spent / IDLE_S, "idle_cpu_of_server": of_server / IDLE_S}


CLIFFS: dict[str, Work] = {
    "serial": Work(code="W6", title="serial queue", unit="ms a job", better="less", run=in_series(1)),
    "serial_4": Work(code="W6", title="serial queue, concurrency 4", unit="ms a job", better="less", run=in_series(4)),
    "queues": Work(code="W7", title="10,000 queues of 10", unit=RATE, run=run_queues, beside_plain=True),
    "few_queues": Work(
        code="W7", title="first 5,000 of 10 queues of 10,000", unit=RATE, run=first_of(100_000, "few_queues")
    ),
    "many_queues": Work(
        code="W7", title="first 100,000 of 1,000,000 queues", unit=RATE, run=first_of(1_000_000, "many_queues")
    ),
    "stuck": Work(
        code="W8", title="past 100,000 jobs of two busy queues", unit=RATE, run=run_stuck, beside_plain=True, laps=3
    ),
    "snapshot": Work(code="W9", title="old snapshot: last 100,000 to first", unit="x", run=run_snapshot),
    "strangers": Work(
        code="W15", title="past 1,000,000 jobs of others", unit=RATE, run=run_strangers, beside_plain=True
    ),
}
