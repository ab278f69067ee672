"""Works of limits: jobs that may not start yet, slots that become free, workers that share one. Only for asyncq."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import Any

import asyncpg

from asyncq import Client
from asyncq.domain.job import Claim
from asyncq.store.claim import START, fetch_jobs, plan
from asyncq.store.database import Database, ReconnectingConnection
from asyncq.store.settle import complete
from asyncq.store.statements import DEFAULT_SCHEMA
from benchmarks.peers.asyncq import tasks
from benchmarks.peers.peer import Peer
from benchmarks.statements import ADD_WORKER, cpu_ms
from benchmarks.suite.child import SELDOM_S, Child
from benchmarks.suite.cliffs import idle
from benchmarks.suite.drains import called, drain
from benchmarks.suite.latency import percentiles
from benchmarks.suite.places import Unfit
from benchmarks.suite.stage import RATE, Run, Stage, Work

BLOCKED = 1_000_000
FREE, WANTED = 10, 100  # jobs that may start beside them, and the size of a fetch
OUR_ID = 1_000_000  # of the worker that fetches, behind those of all others
SETTLE_S = 0.002  # the process has gone to sleep: its CPU is counted
LONG_S = 240.0
HAS_DUE_WAKEUP = "select exists (select from asyncq._wakeups where at <= asyncq.now())"


def limited(task: str) -> Run:
    """Drain jobs of a task with a limit; the longest fetch is recorded."""

    async def run(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
        async with stage.postgres.copy(peer, variant, size, task=task) as jobs:
            return await drain(peer, variant, jobs, size, loop=stage.loop, task=task, watch_fetches=True)

    return run


async def run_shared(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
    """Two workers on one task with a limit, to one worker."""
    rates: list[float] = []
    for workers in (1, 2):
        async with stage.postgres.copy(peer, variant, size, task="roomy") as jobs:
            seen = await drain(peer, variant, jobs, size, workers=workers, loop=stage.loop, task="roomy")
        rates.append(seen["value"])
    return {"value": rates[1] / rates[0], "rate": rates[1]}


async def run_freed(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
    """Two workers and one slot for both; milliseconds from the end of a call to the start of the next one."""
    async with stage.postgres.copy(peer, variant, size, task="slot") as jobs:
        seen = await drain(
            peer, variant, jobs, 2 * size, workers=2, loop=stage.loop, task="slot", stamps=True, longest_s=LONG_S
        )
    notes = sorted((note for of_worker in seen["_starts"] for note in of_worker), key=lambda note: note[1])
    return {"calls": seen["calls"], **percentiles(gaps_ms(notes))}


def gaps_ms(notes: list[tuple[int, int]]) -> list[float]:
    """The times between a call and the next one, sorted.

    Args:
        notes: For each start (twice the job's number) and each end (1 more) its time in nanoseconds, in this order.

    Raises:
        Unfit: Two calls overlapped.
    """
    starts, ends = [number for number, _ in notes[::2]], [number for number, _ in notes[1::2]]
    if any(number % 2 for number in starts) or ends != [number + 1 for number in starts]:
        raise Unfit("two jobs ran at once in spite of the limit")
    return sorted((after - before) / 1e6 for (_, before), (_, after) in list(pairwise(notes))[1::2])


def beside_blocked(task: str, *, is_paused: bool = False) -> Run:
    """Fetch beside a million jobs that may not start; milliseconds of the server's CPU, and the longest fetch."""

    async def run(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
        async with stage.postgres.copy(peer, variant, BLOCKED, task=task) as jobs, AsyncExitStack() as stack:
            if is_paused:
                async with Client(jobs.dsn) as client:
                    await client.admin.pause(task=task)
            else:  # The first jobs of all keys run.
                wish = {"task": task, "options": {"concurrency": tasks.KEYS}, "tick_s": SELDOM_S}
                holder = await Child.begin(peer, "work", jobs.dsn, loop=stage.loop, **wish)
                stack.push_async_callback(holder.close)
                await holder.go()
                async with asyncio.timeout(LONG_S):
                    await called([holder], tasks.KEYS)
            seen = await fetches(jobs.connection, jobs.dsn, size, is_paused=is_paused)
            return seen | await idle(stage, peer, jobs.dsn, task=task)

    return run


async def fetches(connection: asyncpg.Connection, dsn: str, count: int, *, is_paused: bool) -> dict[str, Any]:
    """Claim a few free jobs so many times, as a worker does that knows them and the blocked ones.

    First it looks at all partitions that were woken by adds and may not start a job, unless they are paused.

    Raises:
        Unfit: A fetch brought fewer jobs, or more.
    """
    await connection.execute(ADD_WORKER, OUR_ID, "10 days", "0")
    line = ReconnectingConnection(Database(dsn, DEFAULT_SCHEMA), "bench", generic_plans=True)
    await plan(line)
    pid = await connection.fetchval("select pid from pg_stat_activity where application_name = 'asyncq bench'")
    spent: list[float] = []
    took: list[float] = []
    tokens = itertools.count(1, 2)
    await connection.execute("select asyncq._store_tasks(array['noop'])")
    known: list[int] = await connection.fetchval("select array_agg(id) from asyncq._tasks")
    async with asyncio.timeout(LONG_S):
        while not is_paused and await connection.fetchval(HAS_DUE_WAKEUP):
            await fetch(line, next(tokens), known)
    async with Client(dsn) as client:
        for _ in range(count):
            await client.add_jobs([tasks.noop.job(number) for number in range(FREE)])
            await asyncio.sleep(SETTLE_S)
            before, began = cpu_ms(pid), time.perf_counter()
            claims = await fetch(line, next(tokens), known)
            took.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(SETTLE_S)
            spent.append(cpu_ms(pid) - before)
            if len(claims) != FREE:
                raise Unfit(f"a fetch brought {len(claims)} jobs of {FREE}")
            await complete(line, OUR_ID, claims, None)
    await line.close()
    return {"value": statistics.median(spent), "most_cpu_ms": max(spent), "longest_fetch_ms": max(took)}


async def fetch(line: ReconnectingConnection, token: int, known: list[int]) -> list[Claim]:
    """Claim jobs without a partition, then those of partitions if some were woken; two tokens are used."""
    plain = await fetch_jobs(line, OUR_ID, token, WANTED, known, None, START)
    if not plain.are_woken:
        return plain.claims
    wanted = WANTED - len(plain.claims)
    limited = await fetch_jobs(line, OUR_ID, token + 1, wanted, known, None, START, of_partitions=True)
    return plain.claims + limited.claims


LIMITS: dict[str, Work] = {
    "roomy": Work(
        code="W19", title="a limit that is never reached", unit=RATE, run=limited("roomy"), beside_plain=True, laps=3
    ),
    "keyed_1": Work(
        code="W19", title="10,000 keys of 10, one at once of each", unit=RATE, run=limited("keyed_1"), beside_plain=True
    ),
    "keyed_3": Work(code="W19", title="the same, three at once", unit=RATE, run=limited("keyed_3"), beside_plain=True),
    "shared": Work(code="W19", title="two workers on one limited task, to one", unit="x", run=run_shared, laps=3),
    "freed": Work(
        code="W19", title="end of a call to the next start, two workers", unit="ms", better="less", run=run_freed
    ),
    "blocked_full": Work(
        code="W19",
        title="fetch beside 1,000,000 jobs of keys that are full",
        unit="ms of CPU",
        better="less",
        run=beside_blocked("full"),
    ),
    "blocked_paused": Work(
        code="W19",
        title="fetch beside 1,000,000 paused jobs",
        unit="ms of CPU",
        better="less",
        run=beside_blocked("full", is_paused=True),
    ),
    "blocked_rate": Work(
        code="W19",
        title="fetch beside 1,000,000 jobs that wait for a rate",
        unit="ms of CPU",
        better="less",
        run=beside_blocked("rated"),
    ),
}
