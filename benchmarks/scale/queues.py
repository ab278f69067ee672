"""Jobs in serial queues, from one to a million."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from benchmarks.scale import crew
from benchmarks.scale.fill import fill
from benchmarks.scale.place import Place
from benchmarks.scale.result import Queues
from benchmarks.scale.waiting import BATCH, fetch

LEAST = 20_000  # jobs, so that there is something to run
LEAST_OF_ONE = 2_000  # of a few queues, which run their jobs one after the other
FEW = 100
FIRST = 50_000  # so many are run


async def queues(place: Place, counts: list[int]) -> AsyncGenerator[Queues]:
    """Measure each number of queues, with as many jobs, but not too few."""
    for count in counts:
        jobs = max(count, LEAST if count >= FEW else LEAST_OF_ONE)
        async with place.database() as database:
            await fill(database, 0, jobs, queues=count)
            await database.tidy()
            batch, one = await fetch(database, BATCH, "fetch_partitions"), await fetch(database, 1, "fetch_partitions")
            await database.tidy()
            found = await crew.drain(database, jobs, first=FIRST if jobs > FIRST else None)
        yield Queues(
            queues=count,
            jobs=jobs,
            rate=found.rate,
            batch_ms=batch.ms,
            batch_blocks=batch.blocks,
            batch_jobs=batch.jobs,
            one_ms=one.ms,
        )
