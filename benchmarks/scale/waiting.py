"""The cost of a fetch, an add and counting while very many jobs wait."""

from __future__ import annotations

import itertools
import json
import statistics
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Literal, NamedTuple

import asyncpg

from asyncq import Client
from asyncq.store.arrays import array_text, sent_numbers
from asyncq.store.claim import BATCH_FROM
from asyncq.store.statements import DEFAULT_SCHEMA, query
from benchmarks.peers.asyncq.tasks import noop
from benchmarks.scale.fill import KINDS, OURS, Kind, fill, task_id
from benchmarks.scale.place import Database, Place
from benchmarks.scale.result import Waiting

FetchName = Literal["fetch_jobs", "fetch_partitions"]
"""The statement that claims jobs without a queue or limit, and the one that claims the others."""

BATCH = 500
BESIDE = 1_000  # ready jobs of ours beside those that nobody can run now
TRIES = 5
ADDS = 40
WORKER = 1
tokens = itertools.count(1)  # two batches of one token would wait for each other


class Fetch(NamedTuple):
    """The cost of a fetch."""

    ms: float
    blocks: int
    jobs: int


async def waiting(place: Place, sizes: list[int]) -> AsyncGenerator[Waiting]:
    """Tables of each kind that grow from size to size."""
    for kind in KINDS:
        async with place.database() as database:
            filled = 0
            if kind != "ready":
                await fill(database, 0, BESIDE)
            for size in sizes:
                await fill(database, filled, size, kind)
                filled = size
                await database.tidy()
                yield await look(database, kind, size)


async def look(database: Database, kind: Kind, jobs: int) -> Waiting:
    """At one table."""
    sizes = "select pg_table_size('asyncq._jobs'), pg_indexes_size('asyncq._jobs'), count(*) from asyncq._jobs"
    [(table, indexes, rows)] = await database.connection.fetch(sizes)
    batch, one = await fetch(database, BATCH), await fetch(database, 1)
    async with Client(database.dsn) as client:
        add_ms = await median_ms(lambda: client.add_job(noop, 0), ADDS)
    counting = "select state, jobs from asyncq.counts()"
    return Waiting(
        kind=kind,
        jobs=jobs,
        batch_ms=batch.ms,
        batch_blocks=batch.blocks,
        one_ms=one.ms,
        one_blocks=one.blocks,
        add_ms=add_ms,
        counts_ms=await median_ms(lambda: database.connection.fetch(counting), TRIES),
        table_bytes=table / rows,
        index_bytes=indexes / rows,
    )


async def fetch(database: Database, limit: int, name: FetchName = "fetch_jobs") -> Fetch:
    """A fetch of a worker, rolled back each time: its blocks, and the median of its time."""
    tasks = [await task_id(database, OURS)]

    async def explain() -> int:
        how = f"explain (analyze, buffers, format json) {query(name, DEFAULT_SCHEMA)}"
        answer = await database.connection.fetchval(how, *fetch_arguments(tasks, limit, name))
        root = json.loads(answer)[0]["Plan"]
        blocks: int = root["Shared Hit Blocks"] + root["Shared Read Blocks"]
        return blocks

    blocks, _ = await rolled_back(database, explain)
    runs = [await rolled_back(database, lambda: claim(database.connection, tasks, limit, name)) for _ in range(TRIES)]
    return Fetch(statistics.median(took for _, took in runs), blocks, runs[0][0])


async def claim(connection: asyncpg.Connection, tasks: list[int], limit: int, name: FetchName = "fetch_jobs") -> int:
    """Claim jobs by a worker's statement; returns how many."""
    rows = await connection.fetch(query(name, DEFAULT_SCHEMA), *fetch_arguments(tasks, limit, name))
    # A batch is one row.
    return sum(row["id"] is not None if row["ids"] is None else len(sent_numbers(row["ids"], "q")) for row in rows)


def fetch_arguments(tasks: list[int], limit: int, name: FetchName) -> tuple[Any, ...]:
    """The arguments of a worker's fetch."""
    last = False if name == "fetch_jobs" else None
    return (WORKER, next(tokens), limit, array_text(tasks), *[None] * 6, BATCH_FROM, "{}", last)


async def rolled_back(database: Database, act: Callable[[], Awaitable[int]]) -> tuple[int, float]:
    """Run an act and roll it back; returns its result and its milliseconds."""
    transaction = database.connection.transaction()
    await transaction.start()
    try:
        began = time.perf_counter()
        found = await act()
        return found, (time.perf_counter() - began) * 1000
    finally:
        await transaction.rollback()


async def median_ms(act: Callable[[], Awaitable[object]], tries: int) -> float:
    """The median time of some tries, without the first."""
    took: list[float] = []
    for _ in range(tries + 1):
        began = time.perf_counter()
        await act()
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took[1:])
