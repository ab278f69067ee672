"""`python -m benchmarks.bloat`: the growth of tables while jobs pass at full speed, and the cost of an old snapshot."""

from __future__ import annotations

import argparse
import asyncio
import json
import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, asynccontextmanager, nullcontext
from typing import Any

import asyncpg

from asyncq import Client
from asyncq.server import start
from benchmarks.stream import Stream

JOBS = 15_000_000  # some three minutes: autovacuum comes by once in a minute, and a table grows until it has
HELD_JOBS = 5_000_000
MARKS = 10
SAMPLE_S = 1.0
HELD_LIMIT = 0.8  # of the rate of the first tenth, that of the last one
GROWTH_LIMIT = 1.5  # of the largest size in the first half, that in the second one
SERVER = {"shared_buffers": "1GB", "max_wal_size": "8GB"}
SIZES = """
select relation.relname as name, relation.relkind = 'i' as is_index,
  pg_relation_size(relation.oid) as bytes, coalesce(pg_stat_get_dead_tuples(relation.oid), 0) as dead
from pg_class as relation
where relation.relnamespace = 'asyncq'::regnamespace and relation.relkind in ('r', 'i')
"""


class Sizes:
    """The sizes of all tables and indexes, sampled at intervals.

    Attributes:
        series: Bytes of all tables, and of all indexes, sample by sample.
        largest: The most bytes of each of them.
        last: Its bytes in the last sample.
    """

    def __init__(self) -> None:
        self.series: list[tuple[int, int]] = []
        self.largest: dict[str, int] = {}
        self.last: dict[str, int] = {}
        self.most_dead = 0

    def note(self, rows: Sequence[asyncpg.Record]) -> None:
        """Take a sample."""
        self.last = {row["name"]: row["bytes"] for row in rows}
        self.largest = {name: max(size, self.largest.get(name, 0)) for name, size in self.last.items()}
        indexes = sum(row["bytes"] for row in rows if row["is_index"])
        self.series.append((sum(self.last.values()) - indexes, indexes))
        self.most_dead = max(self.most_dead, *(row["dead"] for row in rows))

    @property
    def growth(self) -> float:
        """The largest size in the second half of the samples, divided by that of the first half."""
        totals = [sum(pair) for pair in self.series]
        half = max(len(totals) // 2, 1)
        return max(totals[half:], default=0) / max(*totals[:half], 1)


@asynccontextmanager
async def watched(dsn: str) -> AsyncGenerator[Sizes]:
    """Sample the sizes for the duration of the block."""
    sizes = Sizes()
    db = await asyncpg.connect(dsn)

    async def look() -> None:
        while True:
            sizes.note(await db.fetch(SIZES))
            await asyncio.sleep(SAMPLE_S)

    async with asyncio.TaskGroup() as group:
        looking = group.create_task(look())
        yield sizes
        looking.cancel()
    sizes.note(await db.fetch(SIZES))
    await db.close()


@asynccontextmanager
async def old_snapshot(dsn: str) -> AsyncGenerator[None]:
    """A transaction of a report that never ends, for as long as the block lasts."""
    db = await asyncpg.connect(dsn, server_settings={"application_name": "report"})
    async with db.transaction(isolation="repeatable_read", readonly=True):
        await db.fetchval("select count(*) from asyncq._jobs")
        yield
    await db.close()


async def passing(dsn: str, jobs: int, *, held: bool) -> dict[str, Any]:
    """Run jobs at full speed.

    Args:
        dsn: A server with fsync.
        jobs: How many.
        held: Whether an old snapshot is held all the while.

    Returns:
        `jobs_per_s`; `rates` of each tenth; `last_vs_first` of them; `largest_mb` and `end_mb`, of all tables and
        indexes and of each that reached a megabyte; `most_dead`; `growth` from the first half to the second.
    """
    await Client(dsn).migrate()
    db = await asyncpg.connect(dsn)
    await db.execute("truncate asyncq._jobs")
    await db.execute("checkpoint")
    await db.close()
    stream = Stream(dsn, jobs, math.ceil(jobs / MARKS))
    async with old_snapshot(dsn) if held else nullcontext(), watched(dsn) as sizes:
        jobs_per_s = await stream.run()
    rates = stream.rates()
    large = sorted(name for name, size in sizes.largest.items() if size >= 2**20)
    return {
        "jobs": jobs,
        "jobs_per_s": jobs_per_s,
        "rates": rates,
        "last_vs_first": rates[-1] / rates[0],
        "largest_mb": {"all": max(map(sum, sizes.series)) / 2**20, **_mb(sizes.largest, large)},
        "end_mb": {"all": sum(sizes.series[-1]) / 2**20, **_mb(sizes.last, large)},
        "most_dead": sizes.most_dead,
        "growth": sizes.growth,
    }


def _mb(sizes: dict[str, int], names: Sequence[str]) -> dict[str, float]:
    return {name: sizes[name] / 2**20 for name in names}


def text(name: str, found: dict[str, Any]) -> str:
    """The figures as text."""
    rates = " ".join(f"{rate:,.0f}" for rate in found["rates"])
    ratios = (
        f"last tenth / first tenth {found['last_vs_first']:.2f}; second half / first half {found['growth']:.2f} in size"
    )
    lines = [
        f"{name}: {found['jobs']:,} jobs, {found['jobs_per_s']:,.0f} a second; by tenths {rates}",
        f"  {ratios}; most dead rows of a table {found['most_dead']:,}",
    ]
    lines += [
        f"  {one:<28} {most:>8,.1f} MB at most, {found['end_mb'][one]:>8,.1f} at the end"
        for one, most in found["largest_mb"].items()
    ]
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if a limit is broken."""
    parser = argparse.ArgumentParser(prog="benchmarks.bloat", description=__doc__)
    parser.add_argument("--dsn", help="a server whose schema asyncq may be used; else one is started")
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"how many pass without a snapshot; {JOBS:,} by default")
    parser.add_argument("--held-jobs", type=int, default=HELD_JOBS, help=f"and with one; {HELD_JOBS:,} by default")
    parser.add_argument("--uvloop", action="store_true", help="use uvloop")
    parser.add_argument("--json", action="store_true", help="print every figure as JSON")
    args = parser.parse_args(words)
    factory = None
    if args.uvloop:
        import uvloop

        factory = uvloop.new_event_loop
    found: dict[str, dict[str, Any]] = {}
    with ExitStack() as stack:
        dsn = args.dsn or stack.enter_context(start(fsync=True, settings=SERVER)).dsn
        runner = stack.enter_context(asyncio.Runner(loop_factory=factory))
        for name, jobs, held in (("free", args.jobs, False), ("held", args.held_jobs, True)):
            if jobs:
                found[name] = runner.run(passing(dsn, jobs, held=held))
                if not args.json:
                    print(text(name, found[name]), flush=True)
    if args.json:
        print(json.dumps(found, indent=2))
    is_bounded = found.get("free", {}).get("growth", 0) <= GROWTH_LIMIT
    return 0 if is_bounded and found.get("held", {}).get("last_vs_first", 1) >= HELD_LIMIT else 1


if __name__ == "__main__":
    raise SystemExit(main())
