"""Estimates the speed of another machine from the cost of jobs on this one. Pure.

Each part that a job passes has a bound: the jobs a second that it could take alone. Parts that overlap perfectly reach
the least bound, parts that never overlap the sum of their times. How well they overlap is one number, fitted to the
drain by one process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from benchmarks.scale.result import Costs, Estimate, Parts

BATCH = 500  # jobs that one statement claims or settles under load
WAITS = 1.5  # writes to the disk for which a commit waits: half of the current one, and its own
CROWD = 64  # producers
MOST_WORKERS = 64
ENOUGH = 0.8  # a share of the server's limit
LEAST_OVERLAP, MOST_OVERLAP = 1.0, 16.0
CORES = (4, 16, 64)
FSYNCS_MS = (0.1, 1.0, 5.0)
TRIPS_MS = (0.05, 0.5, 2.0)

Bounds = Mapping[str, float]


class Machine(NamedTuple):
    """The machine of an estimate.

    Args:
        cores: The cores of the server; if `is_shared`, of all programs.
        fsync_ms: The time of an fsync of its disk.
        trip_ms: The round trip to the workers.
        is_shared: Whether workers and producers use the same cores.
    """

    cores: float
    fsync_ms: float
    trip_ms: float
    is_shared: bool = False


def drain_bounds(parts: Parts, machine: Machine, workers: int) -> Bounds:
    """The bound of each part of a drain by so many processes, in jobs a second.

    A fetch skips the jobs that others have claimed and not committed yet: as many as are claimed in the time of a
    fetch, which grows with them. If a second is not enough to skip the jobs of a second, it never ends.
    """
    drain = parts.drain
    statement_ms = BATCH * drain.backend_us / 1000 + machine.trip_ms + WAITS * machine.fsync_ms
    found = {
        **_cores(drain, machine),
        "CPU of the workers": workers * 1e6 / drain.client_us,
        "disk and round trip": workers * BATCH * 1000 / statement_ms,
        "log": parts.log_mb_per_s * 1e6 / drain.wal_bytes,
    }
    return found | ({"claims of others": 1e6 / parts.held_us} if workers > 1 else {})


def add_bounds(add: Costs, machine: Machine, producers: int) -> Bounds:
    """The bounds of the parts of single adds: one after the other, each producer waits for all of them."""
    waits = 1.0 if producers == 1 else WAITS
    add_ms = (add.server_us + add.client_us) / 1000 + machine.trip_ms + waits * machine.fsync_ms
    found = {"waiting for each add": producers * 1000 / add_ms}
    if producers > 1:
        found |= _cores(add, machine)
        if machine.is_shared:
            found["CPU of the producers"] = 1e6 / add.client_us  # they are one process
    return found


def _cores(costs: Costs, machine: Machine) -> Bounds:
    if machine.is_shared:
        return {"cores of all": machine.cores * 1e6 / (costs.server_us + costs.client_us)}
    return {"cores of the server": machine.cores * 1e6 / costs.server_us}


def rate(bounds: Bounds, overlap: float) -> float:
    """The rate of all parts together."""
    return sum(bound**-overlap for bound in bounds.values()) ** (-1 / overlap)


def limit(bounds: Bounds) -> str:
    """The part that matters most."""
    return min(bounds, key=lambda name: bounds[name])


def fitted_overlap(bounds: Bounds, measured: float) -> float:
    """The overlap with which the bounds give the measured rate, or the nearest possible one."""
    low, high = LEAST_OVERLAP, MOST_OVERLAP
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if rate(bounds, middle) < measured else (low, middle)
    return (low + high) / 2


def crew_for(parts: Parts, machine: Machine) -> int:
    """The number of processes that come near to the rate of as many as possible."""
    could = rate(drain_bounds(parts, machine, MOST_WORKERS), parts.overlap)
    for workers in range(1, MOST_WORKERS):
        if rate(drain_bounds(parts, machine, workers), parts.overlap) >= ENOUGH * could:
            return workers
    return MOST_WORKERS


def estimate(parts: Parts, machine: Machine) -> Estimate:
    """The estimate for one machine."""
    overlap = parts.overlap
    workers = crew_for(parts, machine)
    many = drain_bounds(parts, machine, workers)
    drain = rate(many, overlap)
    return Estimate(
        cores=round(machine.cores),
        fsync_ms=machine.fsync_ms,
        trip_ms=machine.trip_ms,
        drain_one=rate(drain_bounds(parts, machine, 1), overlap),
        drain=drain,
        drain_bound=limit(many),
        workers=workers,
        add_one=rate(add_bounds(parts.add, machine, 1), overlap),
        add=rate(add_bounds(parts.crowd, machine, CROWD), overlap),
        wal_mb_per_s=drain * parts.drain.wal_bytes / 1e6,
    )


def estimates(parts: Parts) -> list[Estimate]:
    """Servers of their own, with other disks and ways to their workers."""
    return [
        estimate(parts, Machine(cores, fsync_ms, trip_ms))
        for cores in CORES
        for fsync_ms in FSYNCS_MS
        for trip_ms in TRIPS_MS
    ]
