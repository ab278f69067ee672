"""Measures the parts of the model: the disk, the round trip to the server, CPU a job."""

from __future__ import annotations

import os
import statistics
import time
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import NamedTemporaryFile

import asyncpg

from benchmarks.scale.crew import Seen
from benchmarks.scale.fill import OURS, fill, task_id
from benchmarks.scale.place import Place, connect
from benchmarks.scale.result import Costs
from benchmarks.scale.waiting import BATCH, claim, fetch

PAGE = 8192
WRITES, ASKED = 300, 500
MESSAGES = 300
OTHERS = 16  # transactions that are claiming jobs at once
WAITING = 100_000


def fsync_ms(folder: Path, writes: int = WRITES) -> float:
    """The median time of a write of one page to the end of a file and `fdatasync`."""
    took: list[float] = []
    with NamedTemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(writes):
            file.write(os.urandom(PAGE))
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


async def trip_ms(dsn: str, place: Place) -> float:
    """The median time of `select 1`, without the CPU that both sides use for it."""
    return await asked_ms(dsn, place, "select 1")


async def commit_ms(dsn: str, place: Place) -> float:
    """The same for the least that waits for the disk when it commits."""
    return await asked_ms(dsn, place, "select pg_logical_emit_message(true, '', '')")


async def asked_ms(dsn: str, place: Place, statement: str) -> float:
    """The median time of a statement, without the CPU that both sides use for it."""
    connection = await asyncpg.connect(dsn)
    try:
        backend = await connection.fetchval("select pg_backend_pid()")
        took: list[float] = []
        ours, theirs = time.process_time(), place.processes()[backend]
        for _ in range(ASKED):
            began = time.perf_counter()
            await connection.execute(statement)
            took.append((time.perf_counter() - began) * 1000)
        used_s = time.process_time() - ours + place.processes()[backend] - theirs
    finally:
        await connection.close()
    return max(0.0, statistics.median(took) - used_s * 1000 / ASKED)


async def log_mb_per_s(dsn: str) -> float:
    """Measure how much WAL one connection writes in a second, in megabytes that each wait for the disk."""
    connection = await asyncpg.connect(dsn)
    try:
        began = time.perf_counter()
        for _ in range(MESSAGES):
            await connection.execute("select pg_logical_emit_message(true, '', repeat('x', 1000000))")
        return MESSAGES / (time.perf_counter() - began)
    finally:
        await connection.close()


async def held_us(place: Place) -> float:
    """Measure how much longer a fetch takes for each earlier job that others are claiming."""
    async with place.database() as database, AsyncExitStack() as stack:
        await fill(database, 0, WAITING)
        await database.tidy()
        alone, tasks = await fetch(database, BATCH), [await task_id(database, OURS)]
        for _ in range(OTHERS):
            other = await connect(database.dsn)
            stack.push_async_callback(other.close)
            await other.execute("begin")
            await claim(other, tasks, BATCH)
        beside = await fetch(database, BATCH)
    return max(0.001, (beside.ms - alone.ms) * 1000 / (OTHERS * BATCH))


def costs(seen: Seen) -> Costs:
    """The figures in the form of the model."""
    return Costs(server_us=seen.server_us, client_us=seen.ours_us, backend_us=seen.backend_us, wal_bytes=seen.wal_bytes)
