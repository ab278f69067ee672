"""Measures drains and adds that the model can be checked with: more processes, a slower disk, a longer way."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import msgspec

from benchmarks.scale import crew, model
from benchmarks.scale.crew import Seen
from benchmarks.scale.fill import fill
from benchmarks.scale.model import Bounds, Machine
from benchmarks.scale.parts import commit_ms, costs, fsync_ms, held_us, log_mb_per_s, trip_ms
from benchmarks.scale.place import Place
from benchmarks.scale.relay import Way, far_away
from benchmarks.scale.result import Check, Parts
from benchmarks.suite.machine import cores

WORKERS = (2, 4)
DISKS_MS = (1.0, 5.0)
WAYS_MS = (1.0, 5.0)
ADDS, ADDS_OF_CROWD = 1_000, 5_000
TRIES = 3  # measurements of the model's parts
SLOWER = 5  # so many times fewer adds where each takes longer
ONE, MANY = "single adds, 1 producer", f"single adds, {model.CROWD} producers"


class Checker:
    """Predicts, and measures.

    Args:
        place: The server.
        jobs: How many jobs a drain has.
    """

    def __init__(self, place: Place, jobs: int) -> None:
        self._place = place
        self._jobs = jobs

    async def parts(self) -> tuple[Parts, list[Check]]:
        """Measure the parts of the model; returns the runs that it comes from too."""
        drain = middle([await self._drain(1) for _ in range(TRIES)])
        add = middle([await self._add(ADDS, 1) for _ in range(TRIES)])
        crowd = middle([await self._add(ADDS_OF_CROWD, model.CROWD) for _ in range(TRIES)])
        parts = Parts(
            cores=cores(),
            fsync_ms=fsync_ms(self._place.folder),
            trip_ms=await self._trip_ms(),
            log_mb_per_s=await self._log_mb_per_s(),
            held_us=await held_us(self._place),
            drain=costs(drain),
            add=costs(add),
            crowd=costs(crowd),
            overlap=1.0,
        )
        here = Machine(parts.cores, parts.fsync_ms, parts.trip_ms, is_shared=True)
        bounds = model.drain_bounds(parts, left(here, drain), 1)
        parts = msgspec.structs.replace(parts, overlap=model.fitted_overlap(bounds, drain.rate))
        return parts, [
            self._check("drain, 1 process", parts, bounds, drain, is_fitted=True),
            self._check(ONE, parts, model.add_bounds(parts.add, left(here, add), 1), add),
            self._check(MANY, parts, model.add_bounds(parts.crowd, left(here, crowd), model.CROWD), crowd),
        ]

    async def checks(self, parts: Parts) -> AsyncGenerator[Check]:
        """Compare the model with runs that it was not fitted to."""
        here = Machine(parts.cores, parts.fsync_ms, parts.trip_ms, is_shared=True)
        for workers in WORKERS:
            found = await self._drain(workers)
            bounds = model.drain_bounds(parts, left(here, found), workers)
            yield self._check(f"drain, {workers} processes", parts, bounds, found)
        for asked_ms in DISKS_MS:
            async with self._place.slow_disk(asked_ms):
                there = here._replace(fsync_ms=await self._commit_ms())
                async for check in self._all(parts, there, f"disk of {there.fsync_ms:.1f} ms"):
                    yield check
        for asked_ms in WAYS_MS:
            async with far_away(self._place, asked_ms) as way:
                there = here._replace(trip_ms=await self._trip_ms(way))
                async for check in self._all(parts, there, f"round trip of {there.trip_ms:.1f} ms", way):
                    yield check

    async def _all(self, parts: Parts, there: Machine, words: str, way: Way | None = None) -> AsyncGenerator[Check]:
        found = await self._drain(1, way)
        bounds = model.drain_bounds(parts, left(there, found), 1)
        yield self._check(f"drain, 1 process, {words}", parts, bounds, found)
        found = await self._add(ADDS // SLOWER, 1, way)
        yield self._check(f"{ONE}, {words}", parts, model.add_bounds(parts.add, left(there, found), 1), found)
        found = await self._add(ADDS_OF_CROWD, model.CROWD, way)
        bounds = model.add_bounds(parts.crowd, left(there, found), model.CROWD)
        yield self._check(f"{MANY}, {words}", parts, bounds, found)

    def _check(self, work: str, parts: Parts, bounds: Bounds, found: Seen, *, is_fitted: bool = False) -> Check:
        return Check(
            work=work,
            bound=model.limit(bounds),
            predicted=model.rate(bounds, parts.overlap),
            measured=found.rate,
            others=found.others,
            is_fitted=is_fitted,
        )

    async def _drain(self, workers: int, way: Way | None = None) -> Seen:
        async with self._place.database() as database:
            await fill(database, 0, self._jobs)
            await database.tidy()
            return await crew.drain(database, self._jobs, workers, dsn=way.to(database.dsn) if way else None)

    async def _add(self, jobs: int, producers: int, way: Way | None = None) -> Seen:
        async with self._place.database() as database:
            return await crew.add(database, jobs, dsn=way.to(database.dsn) if way else None, producers=producers)

    async def _trip_ms(self, way: Way | None = None) -> float:
        async with self._place.database() as database:
            return await trip_ms(way.to(database.dsn) if way else database.dsn, self._place)

    async def _log_mb_per_s(self) -> float:
        async with self._place.database() as database:
            return await log_mb_per_s(database.dsn)

    async def _commit_ms(self) -> float:
        async with self._place.database() as database:
            return await commit_ms(database.dsn, self._place)


def middle(runs: list[Seen]) -> Seen:
    """The run whose rate is the median."""
    return sorted(runs, key=_rate)[len(runs) // 2]


def _rate(found: Seen) -> float:
    return found.rate


def left(machine: Machine, found: Seen) -> Machine:
    """A machine without the cores that other programs used meanwhile; half a core is always left."""
    return machine._replace(cores=max(machine.cores - found.others, 0.5))
