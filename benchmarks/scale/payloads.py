"""Payloads by size."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from benchmarks.peers.role import WARM_UP
from benchmarks.scale import crew
from benchmarks.scale.place import Place
from benchmarks.scale.result import Payload

BUDGET = 100_000_000  # bytes of payloads
MOST, LEAST = 20_000, 100  # jobs
SINGLES = 10  # the share of them that is added one by one: a tenth
CHUNK, CHUNK_BYTES = 1_000, 8_000_000


def jobs_of(size: int) -> tuple[int, int]:
    """The number of jobs and the size of their chunks, which are all full."""
    chunk = max(1, min(CHUNK, CHUNK_BYTES // size))
    return max(chunk, min(MOST, max(BUDGET // size, LEAST)) // chunk * chunk), chunk


async def payloads(place: Place, sizes: list[int]) -> AsyncGenerator[Payload]:
    """Measure adds of each size, and drains of the added jobs."""
    for size in sizes:
        jobs, chunk = jobs_of(size)
        async with place.database() as database:
            singles = await crew.add(database, max(jobs // SINGLES, LEAST // 2), bytes=size)
            await database.connection.execute("truncate asyncq._jobs")
            added = await crew.add(database, jobs, bytes=size, chunk=chunk)
            # Those before the measured ones have the same ids.
            await database.connection.execute(
                "delete from asyncq._jobs where id in (select id from asyncq._jobs order by id limit $1)", WARM_UP
            )
            await database.tidy()
            ran = await crew.drain(database, jobs)
        yield Payload(
            bytes=size,
            jobs=jobs,
            single_per_s=singles.rate,
            bulk_per_s=added.rate,
            rate=ran.rate,
            add_wal=added.wal_bytes,
            run_wal=ran.wal_bytes,
        )
