"""Runs processes, and measures their cost for both sides."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.scale.place import ENDED, Database, Place
from benchmarks.scale.program import MEASURED
from benchmarks.suite.child import Child
from benchmarks.suite.cliffs import rate_between
from benchmarks.suite.drains import LOOK_S, called, check
from benchmarks.suite.places import Unfit
from benchmarks.suite.processes import PROC, TICKS_PER_S, cpu_s

LOOP = "uvloop"
LONGEST_S = 300.0


class Used(NamedTuple):
    """CPU seconds of the server's processes, of ours, and of all on the machine; and the time of the sample."""

    server: dict[int, float]
    ours: float
    all: float
    at: float


class Seen(NamedTuple):
    """The rate and the cost of some jobs.

    Args:
        rate: Jobs a second.
        server_us: CPU of the server for each, in microseconds.
        ours_us: CPU of our processes.
        backend_us: CPU of the busiest process of the server.
        wal_bytes: The written WAL.
        others: How many cores other programs used meanwhile.
    """

    rate: float
    server_us: float
    ours_us: float
    backend_us: float
    wal_bytes: float
    others: float


def used(place: Place, crew: list[Child]) -> Used:
    """The resources that were used until now."""
    return Used(place.processes(), sum(cpu_s(child.pid) for child in crew), machine_s(), time.monotonic())


def machine_s(stat: Path = PROC / "stat") -> float:
    """Seconds of CPU that all programs on the machine have used, and that its host has used for others."""
    user, nice, system, _idle, _waiting, irq, softirq, steal, *_ = map(int, stat.read_text().split("\n")[0].split()[1:])
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_S


def seen(rate: float, jobs: int, before: Used, after: Used, wal_bytes: float) -> Seen:
    """The rate and the cost of so many jobs."""
    by_process = {pid: spent - before.server.get(pid, 0.0) for pid, spent in after.server.items()}
    busiest = max((spent for pid, spent in by_process.items() if pid != ENDED), default=0.0)
    server, ours = sum(by_process.values()), after.ours - before.ours
    others = (after.all - before.all - server - ours) / (after.at - before.at)
    server_us, ours_us, backend_us = (spent * 1e6 / jobs for spent in (server, ours, busiest))
    return Seen(rate, server_us, ours_us, backend_us, wal_bytes, max(others, 0.0))


@asynccontextmanager
async def workers(dsn: str, count: int, **wish: Any) -> AsyncGenerator[list[Child]]:
    """Start so many worker processes, and prepare them."""
    async with AsyncExitStack() as stack:
        crew: list[Child] = []
        for _ in range(count):
            crew.append(await Child.begin(MEASURED, "work", dsn, **{"loop": LOOP, **wish}))
            stack.push_async_callback(crew[-1].close)
        for child in crew:
            await child.hear("prepared")
        yield crew


async def drain(
    database: Database, jobs: int, count: int = 1, first: int | None = None, dsn: str | None = None, **wish: Any
) -> Seen:
    """Let workers run all jobs of a database.

    Args:
        database: The database.
        jobs: How many jobs there are; their ids are 0 to jobs - 1.
        count: How many workers.
        first: Stop after so many, where there are too many for a measurement; for one worker.
        dsn: Another way to the database.
        **wish: Further settings of the workers.

    Raises:
        Unfit: Not every job ran exactly once.
    """
    async with workers(dsn or database.dsn, count, **wish) as crew:
        wal = await database.wal()
        async with asyncio.TaskGroup() as group:
            beginning = group.create_task(_beginning(database.place, crew))
            for child in crew:
                child.tell("go")
            try:
                async with asyncio.timeout(LONGEST_S):
                    await called(crew, first or jobs)
                    while first is None and not await database.is_empty():
                        await asyncio.sleep(LOOK_S)
                    ended_ns = time.monotonic_ns()
            except TimeoutError:
                raise Unfit(f"{sum(child.calls for child in crew)} of {jobs} jobs in {LONGEST_S:g} s") from None
            ran = sum(child.calls for child in crew)
            after, wal = used(database.place, crew), await database.wal() - wal
            before, already = await beginning
        reports = [await child.report() for child in crew]
    if first is None:
        check("asyncq", reports, jobs)
    first_ns = min(report["first_ns"] for report in reports if report["calls"])
    if first is None:
        rate = (jobs - 1) / ((ended_ns - first_ns) / 1e9)
    else:
        rate = rate_between([(first_ns, 0), *crew[0].marks], 0, first)
    return seen(rate, max(ran - already, 1), before, after, wal / ran)


async def _beginning(place: Place, crew: list[Child]) -> tuple[Used, int]:
    """The resources that were used before the first call was reported, and the number of calls by then."""
    while not (already := sum(child.calls for child in crew)):
        await asyncio.sleep(LOOK_S)
    return used(place, crew), already


async def add(database: Database, jobs: int, dsn: str | None = None, **wish: Any) -> Seen:
    """Let one process add jobs.

    Args:
        database: The database.
        jobs: How many.
        dsn: Another way to the database.
        **wish: producers, chunk, bytes.
    """
    child = await Child.begin(MEASURED, "add", dsn or database.dsn, **{"loop": LOOP, **wish, "jobs": jobs})
    try:
        await child.hear("prepared")
        before, wal = used(database.place, []), await database.wal()
        child.tell("go")
        async with asyncio.timeout(LONGEST_S):
            said = await child.hear("added")
        after, wal = used(database.place, []), await database.wal() - wal
    finally:
        await child.close()
    after = after._replace(ours=said["cpu_s"])
    return seen(jobs / said["took_s"], jobs, before, after, wal / jobs)
