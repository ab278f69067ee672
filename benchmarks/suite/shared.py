"""The work that every queue can do: drains, latency, adds."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.peers.peer import Peer
from benchmarks.suite.adds import add
from benchmarks.suite.drains import drain
from benchmarks.suite.latency import latency
from benchmarks.suite.places import Unfit
from benchmarks.suite.stage import RATE, Run, Stage, Work

FUTURE = 1_000_000
QUEUES = 100  # of the adds from SQL that name one
SQL_SCHEMAS = {"asyncq": "asyncq", "graphile": "graphile_worker"}
# Adds go to a table that has seen jobs and was analysed, as that of any service has been. On one that was made a moment
# ago a planner knows nothing, and graphile-worker then reads all jobs with each add, until the next autovacuum.
WAITING = 1_000


async def run_drain(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
    """One process."""
    async with stage.jobs(peer, variant, size) as jobs:
        return await drain(peer, variant, jobs, size, loop=stage.loop)


async def run_drain_by_two(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
    """Two processes."""
    async with stage.jobs(peer, variant, size) as jobs:
        return await drain(peer, variant, jobs, size, loop=stage.loop, workers=2)


async def run_future(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
    """A million jobs that are due tomorrow stay unclaimed. The check begins with the last jobs."""
    async with stage.postgres.copy(peer, variant, size, future=FUTURE) as jobs:
        return await drain(peer, variant, jobs, size, loop=stage.loop, among=f"and id <= {size} order by id desc")


async def run_latency(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
    """One job at a time."""
    async with stage.jobs(peer, variant, 0) as jobs:
        return await latency(peer, variant, jobs, size, loop=stage.loop)


async def run_durable_latency(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
    """One job at a time, each on disk before its add returns."""
    async with stage.jobs(peer, variant, 0, durable=True) as jobs:
        return await latency(peer, variant, jobs, size, loop=stage.loop)


def adding(**wish: Any) -> Run:
    """Measure adds by so many producers, or in chunks."""

    async def run(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
        async with stage.jobs(peer, variant, WAITING) as jobs:
            return await add(peer, variant, jobs, size, waiting=WAITING, loop=stage.loop, **wish)

    return run


def sql_adds(option: str = "") -> Run:
    """Adds by SQL's `add_job` in one session, each committed; an option has many values."""

    async def run(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
        value = f", {option} => $1" if option else ""
        cast = "$1" if option else "coalesce($1, '')"
        statement = f"select {SQL_SCHEMAS[peer.name]}.add_job('noop', json_build_object('id', {cast}::text){value})"
        async with stage.postgres.copy(peer, variant, WAITING) as jobs:
            prepared = await jobs.connection.prepare(statement)
            began = time.perf_counter()
            for number in range(size):
                await prepared.fetchval(str(number % QUEUES if option == "queue_name" else number))
            took_s = time.perf_counter() - began
            if (there := await jobs.count()) != size + WAITING:
                raise Unfit(f"{peer.name}: {there} rows for {size} jobs and {WAITING} before them")
        return {"value": size / took_s}

    return run


SHARED: dict[str, Work] = {
    "drain": Work(code="W3", title="drain, one process", unit=RATE, run=run_drain),
    "drain_2": Work(code="W3", title="drain, two processes", unit=RATE, run=run_drain_by_two),
    "latency": Work(code="W4", title="add to start of handler, idle", unit="ms", better="less", run=run_latency),
    "latency_durable": Work(
        code="W4",
        title="the same, Redis with `appendfsync always`",
        unit="ms",
        better="less",
        run=run_durable_latency,
        laps=3,
    ),
    "add_1": Work(
        code="W1",
        title="add one by one, 1 producer",
        unit=RATE,
        run=adding(producers=1),
        laps=2,
        laps_with_floor=8,
    ),
    "add_10": Work(code="W1", title="add one by one, 10 producers", unit=RATE, run=adding(producers=10)),
    "bulk_1000": Work(code="W2", title="bulk add, chunks of 1,000", unit=RATE, run=adding(chunk=1_000)),
    "bulk_10000": Work(code="W2", title="bulk add, chunks of 10,000", unit=RATE, run=adding(chunk=10_000)),
    "sql_add": Work(code="W16", title="add from SQL, one by one", unit=RATE, run=sql_adds()),
    "sql_add_queue": Work(
        code="W16", title="add from SQL, one by one, with queue_name", unit=RATE, run=sql_adds("queue_name")
    ),
    "sql_add_key": Work(code="W16", title="add from SQL, one by one, with job_key", unit=RATE, run=sql_adds("job_key")),
    "future": Work(
        code="W5", title="drain beside 1,000,000 future jobs", unit=RATE, run=run_future, beside_plain=True, laps=3
    ),
    "ready": Work(
        code="W5", title="drain from 500,000 ready jobs", unit=RATE, run=run_drain, beside_plain=True, laps=3
    ),
}
