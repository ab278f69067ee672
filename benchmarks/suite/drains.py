"""Drains: a table full of jobs, one worker or more, until the last settlement is committed."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any, Protocol

from benchmarks.peers.peer import Peer
from benchmarks.suite.child import Child
from benchmarks.suite.places import Unfit

LOOK_S = 0.001
LONGEST_S = 60.0
LEDGER = ("kind", "calls", "total", "first_ns", "starts")


class Jobs(Protocol):
    """Where the jobs of a run are."""

    @property
    def dsn(self) -> str:
        """The way to them."""
        ...

    async def is_empty(self, among: str = "") -> bool:
        """Whether every job is settled; of those that a further condition leaves."""
        ...

    async def count(self, among: str = "") -> int:
        """Count the unsettled jobs, or those that also meet a further condition."""
        ...

    async def wal_bytes(self) -> int:
        """The bytes of WAL that the server has written so far; 0 without a WAL."""
        ...


async def drain(
    peer: Peer,
    variant: str,
    table: Jobs,
    jobs: int,
    *,
    workers: int = 1,
    among: str = "",
    longest_s: float = LONGEST_S,
    **wish: Any,
) -> dict[str, Any]:
    """Let workers run all jobs.

    Args:
        peer: The queue whose workers run.
        variant: Their settings.
        table: The jobs; the ids in their payloads are 0 to jobs - 1.
        jobs: How many.
        workers: How many processes.
        among: A condition that leaves these jobs, where others stay, and the order in which to look for them.
        longest_s: How long they may take.
        **wish: Further settings of the workers.

    Returns:
        The rate in jobs a second, from the first call of a handler until the last settlement is seen committed; that
        first job is not counted. What begins with `_` is for the caller alone.

    Raises:
        Unfit: Not every job ran exactly once.
    """
    settings = {**peer.variants[variant], **wish}
    async with AsyncExitStack() as stack:
        crew: list[Child] = []
        for _ in range(workers):
            crew.append(await Child.begin(peer, "work", table.dsn, **settings))
            stack.push_async_callback(crew[-1].close)
        for child in crew:
            await child.hear("prepared")
        wal = await table.wal_bytes()
        for child in crew:
            child.tell("go")
        try:
            async with asyncio.timeout(longest_s):
                await called(crew, jobs)
                ended_ns = await emptied(table, among)
            wal = await table.wal_bytes() - wal
        except TimeoutError:
            seen = sum(child.calls for child in crew)
            raise Unfit(f"{peer.name}: {seen} of {jobs} jobs in {longest_s:g} s") from None
        reports = [await child.report() for child in crew]
    calls = check(peer.name, reports, jobs)
    first_ns = min(report["first_ns"] for report in reports if report["calls"])
    return {key: value for key, value in reports[0].items() if key not in LEDGER} | {
        "value": (jobs - 1) / ((ended_ns - first_ns) / 1e9),
        "calls": calls,
        "wal_bytes_a_job": wal / jobs,
        "_starts": [report["starts"] for report in reports],
        "_marks": [(first_ns, 0), *(mark for child in crew for mark in child.marks)],
    }


async def emptied(table: Jobs, among: str) -> int:
    """Wait until every job is settled; returns when the first query was sent that found none.

    It sees everything that was committed by then. The query itself reads dead rows, and takes longer the more other
    jobs wait.
    """
    while True:
        sent_ns = time.monotonic_ns()
        if await table.is_empty(among):
            return sent_ns
        await asyncio.sleep(LOOK_S)


async def called(crew: list[Child], jobs: int) -> None:
    """Wait until so many handlers were called in all."""
    if len(crew) == 1:
        while crew[0].calls < jobs:
            await crew[0].hear("calls")
        return
    everything = asyncio.Event()
    failed: list[str] = []

    async def follow(child: Child) -> None:
        while not everything.is_set():
            await child.hear("calls")
            if sum(each.calls for each in crew) >= jobs:
                everything.set()

    try:
        async with asyncio.TaskGroup() as group:
            followers = [group.create_task(follow(child)) for child in crew]
            await everything.wait()
            for follower in followers:
                follower.cancel()
    except* Unfit as failures:
        failed = [str(failure) for failure in failures.exceptions]
    if failed:
        raise Unfit("; ".join(failed))


def check(name: str, reports: list[dict[str, Any]], jobs: int) -> list[int]:
    """Check that each job ran once.

    Returns:
        How many of them each worker ran.

    Raises:
        Unfit: It did not.
    """
    calls, total = (sum(report[key] for report in reports) for key in ("calls", "total"))
    if (calls, total) != (jobs, jobs * (jobs - 1) // 2):
        raise Unfit(f"{name}: {calls} calls for {jobs} jobs, the ids add up to {total}")
    return [report["calls"] for report in reports]
