"""Works that show how workers behave: listeners, idle fleets, due times, buffers, real handlers. Only for asyncq."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from benchmarks import fleet, takeover
from benchmarks.peers.asyncq.tasks import nap_s
from benchmarks.peers.peer import Peer
from benchmarks.suite.adds import add
from benchmarks.suite.child import Child
from benchmarks.suite.drains import called, check, drain
from benchmarks.suite.latency import SETTLE_S, latency, percentiles
from benchmarks.suite.stage import RATE, Run, Stage, Work

PRODUCERS = 64
WORKERS = 4
SLOTS = 10
SPREAD_MS = 60.0  # between due times
WAITING = 1_000  # jobs that keep all workers busy before the first add, and until after the last
LONGEST_S = 60.0
LONG_S = 240.0


def beside_workers(task: str, *, waiting: int = 0, listen: bool = True) -> Run:
    """Adds by many producers beside workers, which share the cores with them and either listen or only poll."""

    async def run(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
        async with stage.postgres.copy(peer, variant, waiting, task=task) as jobs, AsyncExitStack() as crew:
            for _ in range(WORKERS):
                options = {"listen": listen}
                worker = await Child.begin(peer, "work", jobs.dsn, loop=stage.loop, task=task, options=options)
                crew.push_async_callback(worker.close)
                await worker.go()
            await asyncio.sleep(SETTLE_S)
            return await add(peer, variant, jobs, size, loop=stage.loop, producers=PRODUCERS, task=task)

    return run


async def run_fleet(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
    """Run idle workers in this process.

    Measure the queries of each in the time of a poll, and how many an add wakes.
    """
    async with stage.postgres.copy(peer, variant, 0) as jobs:
        seen = await fleet.idle(jobs.dsn, size)
    return {"value": seen["queries_a_poll"], **seen}


async def run_punctuality(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
    """Jobs that are due one after the other while the worker idles; milliseconds from the due time to the start."""
    async with stage.jobs(peer, variant, 0) as jobs, AsyncExitStack() as stack:
        worker = await Child.begin(peer, "work", jobs.dsn, loop=stage.loop, stamps=True)
        stack.push_async_callback(worker.close)
        await worker.go()
        await asyncio.sleep(SETTLE_S)
        wish = {"jobs": size, "spread_s": size * SPREAD_MS / 1000, "pause_s": 0}
        client = await Child.begin(peer, "tell", jobs.dsn, loop=stage.loop, **wish)
        stack.push_async_callback(client.close)
        await client.go()
        async with asyncio.timeout(LONGEST_S):
            due: list[int] = (await client.hear("sent"))["due_ns"]
            await called([worker], size)
        report = await worker.report()
    check(peer.name, [report], size)
    starts: list[tuple[int, int]] = report["starts"]
    return percentiles(sorted((started - due[number]) / 1e6 for number, started in starts))


async def run_fairness(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
    """Jobs of 0.1 to 2 s on several workers; the share of slots that idle while a job has not started."""
    async with stage.postgres.copy(peer, variant, size, task="nap") as jobs:
        seen = await drain(peer, variant, jobs, size, workers=WORKERS, loop=stage.loop, task="nap", stamps=True)
    starts: list[tuple[int, int]] = [start for of_worker in seen["_starts"] for start in of_worker]
    return {"value": idle_share(starts, WORKERS * SLOTS), "calls": seen["calls"]}


def idle_share(starts: list[tuple[int, int]], slots: int) -> float:
    """The share of slots that were idle between the first start and the last.

    Args:
        starts: The number of each job, which decides how long it sleeps, and its start in nanoseconds.
        slots: How many there are.
    """
    first, last = min(at for _, at in starts), max(at for _, at in starts)
    busy_ns = sum(min(at + nap_s(number) * 1e9, last) - at for number, at in starts)
    return max(0.0, 1 - busy_ns / (slots * (last - first)))


def with_handlers(task: str) -> Run:
    """Handlers that do something; the rate to that of the handlers alone, at the same concurrency."""

    async def run(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
        async with stage.postgres.copy(peer, variant, size, task=task) as jobs:
            seen = await drain(peer, variant, jobs, size, loop=stage.loop, task=task, alone_calls=size // 4)
        return seen | {"value": seen["value"] / seen["alone"], "rate": seen["value"]}

    return run


def with_feature(task: str, plain: str) -> Run:
    """The rate of a task that uses a feature, to that of a task without it."""

    async def run(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
        rates: dict[str, float] = {}
        for each in (plain, task):
            async with stage.postgres.copy(peer, variant, size, task=each) as jobs:
                rates[each] = (await drain(peer, variant, jobs, size, loop=stage.loop, task=each))["value"]
        return {"value": rates[task] / rates[plain], "rate": rates[task]}

    return run


async def run_bare(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
    """A drain whose handlers take no context."""
    async with stage.postgres.copy(peer, variant, size, task="bare") as jobs:
        return await drain(peer, variant, jobs, size, loop=stage.loop, task="bare")


async def run_killed(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
    """Workers that are killed, one after the other; seconds until the job of each runs again."""
    async with stage.postgres.copy(peer, variant, 0) as jobs:
        await takeover.be_up_for_long(jobs.dsn)
        took = [await takeover.takeover(jobs.dsn) for _ in range(size)]
    return {"value": max(took)}


async def run_awaited(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
    """Results that are awaited one by one: the time from add to result, as a multiple of that from add to start."""
    medians: dict[str, float] = {}
    for name, wish in {"to_start": {}, "to_result": {"awaited": True}}.items():
        async with stage.jobs(peer, variant, 0) as jobs:
            medians[name] = (await latency(peer, variant, jobs, size, loop=stage.loop, **wish))["value"]
    return {"value": medians["to_result"] / medians["to_start"], **medians}


async def run_failures(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
    """Each job fails once and is retried at once. Every call is checked; the figure counts each job once."""
    async with stage.postgres.copy(peer, variant, size, task="flaky") as jobs:
        seen = await drain(peer, variant, jobs, 2 * size, loop=stage.loop, task="flaky", longest_s=LONG_S)
    return seen | {"value": seen["value"] / 2}


LOADS: dict[str, Work] = {
    "bare": Work(code="W3", title="drain, handlers without a context", unit=RATE, run=run_bare),
    "failures": Work(code="W3", title="drain, each job fails once", unit=RATE, run=run_failures, beside_plain=True),
    "pollers": Work(
        code="W10",
        title="add, 64 producers beside 4 busy workers that only poll",
        unit=RATE,
        run=beside_workers("second", waiting=WAITING, listen=False),
        laps=3,
    ),
    "listeners": Work(
        code="W10",
        title="the same, and they listen",
        unit=RATE,
        run=beside_workers("second", waiting=WAITING),
        laps=3,
    ),
    "runners": Work(code="W10", title="the same, and they run the jobs at once", unit=RATE, run=beside_workers("noop")),
    "fleet": Work(code="W11", title="idle workers", unit="questions a worker and poll", better="less", run=run_fleet),
    "punctuality": Work(code="W12", title="due time to start", unit="ms", better="less", run=run_punctuality),
    "fairness": Work(code="W13", title="idle slots", unit="share", better="less", run=run_fairness),
    "awaited": Work(
        code="W17", title="add to result, to add to start", unit="x", better="less", run=run_awaited, laps=3
    ),
    "killed": Work(
        code="W20", title="killed worker, until its job runs again, longest", unit="s", better="less", run=run_killed
    ),
    "wait_1": Work(code="W14", title="handlers of 1 ms", unit="x", run=with_handlers("wait_1")),
    "wait_20": Work(code="W14", title="handlers of 20 ms", unit="x", run=with_handlers("wait_20")),
    "cpu_2": Work(code="W14", title="handlers of 2 ms of CPU", unit="x", run=with_handlers("cpu_2")),
    "collect": Work(
        code="W14",
        title="100 jobs in a call of 1 ms, to a call for each",
        unit="x",
        run=with_feature("collected", "single"),
    ),
    "history": Work(code="W18", title="drain with history, to drain", unit="x", run=with_feature("kept", "noop")),
    "around": Work(
        code="W18",
        title="drain with a middleware and a resource, to drain",
        unit="x",
        run=with_feature("around", "noop"),
    ),
}
