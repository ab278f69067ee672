"""Workers by number: busy ones, and such that have nothing to do."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from pathlib import Path

from benchmarks.machine import rss
from benchmarks.scale import crew
from benchmarks.scale.fill import fill
from benchmarks.scale.place import Database, Place
from benchmarks.scale.result import Busy, Idle
from benchmarks.suite.child import SELDOM_S
from benchmarks.suite.processes import PROC

CALM_S = 3.0
WATCHED_S = 10.0  # an idle process of the server reports its statistics after ten seconds at the latest
OF_WORKERS = """
    select pid from pg_stat_activity
    where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()"""
TRANSACTIONS = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"


async def busy(place: Place, counts: list[int], jobs: int) -> AsyncGenerator[Busy]:
    """Measure so many processes that drain the same table."""
    for count in counts:
        async with place.database() as database:
            await fill(database, 0, jobs)
            await database.tidy()
            found = await crew.drain(database, jobs, count)
        yield Busy(
            workers=count,
            rate=found.rate,
            server_us=found.server_us,
            worker_us=found.ours_us,
            backend_us=found.backend_us,
        )


async def idle(place: Place, counts: list[int]) -> AsyncGenerator[Idle]:
    """Measure so many idle processes."""
    for count in counts:
        async with place.database() as database, crew.workers(database.dsn, count, tick_s=SELDOM_S) as workers:
            for worker in workers:
                worker.tell("go")
            await started(database, count)
            await asyncio.sleep(CALM_S)
            before, did = crew.used(place, workers), await database.connection.fetchval(TRANSACTIONS)
            await asyncio.sleep(WATCHED_S)
            after, did = crew.used(place, workers), await database.connection.fetchval(TRANSACTIONS) - did
            backends = [pid for (pid,) in await database.connection.fetch(OF_WORKERS)]
            yield Idle(
                workers=count,
                transactions_per_s=did / WATCHED_S,
                server_cpu=(sum(after.server.values()) - sum(before.server.values())) / WATCHED_S,
                worker_cpu=(after.ours - before.ours) / WATCHED_S,
                connections=len(backends),
                worker_mb=sum(rss(worker.pid) for worker in workers) / count / 2**20,
                backend_mb=sum(map(own_bytes, backends)) / len(backends) / 2**20,
            )


async def started(database: Database, count: int) -> None:
    """Wait until so many workers have a row."""
    async with asyncio.timeout(crew.LONGEST_S):
        while await database.connection.fetchval("select count(*) from asyncq._workers") < count:
            await asyncio.sleep(0.1)


def own_bytes(pid: int, proc: Path = PROC) -> int:
    """The private memory of a process."""
    text = (proc / str(pid) / "smaps_rollup").read_text(encoding="ascii")
    return sum(int(kb) for kb in re.findall(r"^Private_(?:Clean|Dirty): +(\d+) kB$", text, re.MULTILINE)) * 1024
