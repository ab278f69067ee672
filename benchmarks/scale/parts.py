"""Measures what the model is made of: the disk, the way to the server, CPU a job."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from tempfile import NamedTemporaryFile

import asyncpg

from benchmarks.scale.crew import Seen
from benchmarks.scale.place import Place
from benchmarks.scale.result import Costs

PAGE = 8192
WRITES, ASKED = 300, 500


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


def costs(seen: Seen) -> Costs:
    """As the model wants them."""
    return Costs(server_us=seen.server_us, client_us=seen.ours_us, backend_us=seen.backend_us, wal_bytes=seen.wal_bytes)
