"""The work that is measured: what each is called, what its figure means, and how one run of it goes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.peers.peer import Peer
from benchmarks.suite.adds import add
from benchmarks.suite.drains import Jobs, drain
from benchmarks.suite.latency import latency
from benchmarks.suite.places import Unfit
from benchmarks.suite.postgres import Postgres
from benchmarks.suite.redis import Redis

FUTURE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Where runs take place.

    Args:
        postgres: The server.
        redis: A Redis as it is shipped; None where there is none.
        durable: A Redis that writes each command to disk.
        loop: The event loop of our own programs.
    """

    postgres: Postgres
    redis: Redis | None = None
    durable: Redis | None = None
    loop: str = "uvloop"

    def jobs(self, peer: Peer, variant: str, jobs: int, durable: bool = False) -> AbstractAsyncContextManager[Jobs]:
        """So many fresh jobs in the store of this queue."""
        if peer.store == "postgres":
            return self.postgres.copy(peer, variant, jobs)
        redis = self.durable if durable else self.redis
        if redis is None:
            raise Unfit("there is no Redis here")
        return redis.filled(peer, variant, jobs)


Run = Callable[[Stage, Peer, str, int], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Work:
    """One kind of work.

    Args:
        code: Its number in the list of goals.
        title: For people.
        unit: Of the figure.
        better: Which figure is better.
        run: Lets one queue do it once; `value` in the result is the figure.
        turns: In how many rotations of five it takes part.
    """

    code: str
    title: str
    unit: str
    better: Literal["more", "less"] = "more"
    run: Run
    turns: int = 5

    def takes_part(self, rotation: int, rotations: int) -> bool:
        """Whether it is done in this rotation, counted from 0: its turns are spread evenly, the first is in the first."""
        turns = max(1, round(self.turns * rotations / 5))
        return rotation * turns // rotations != (rotation - 1) * turns // rotations


async def run_drain(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
    """One process."""
    async with stage.jobs(peer, variant, size) as jobs:
        return await drain(peer, variant, jobs, size, loop=stage.loop)


async def run_drain_by_two(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
    """Two processes."""
    async with stage.jobs(peer, variant, size) as jobs:
        return await drain(peer, variant, jobs, size, loop=stage.loop, workers=2)


async def run_future(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
    """A million jobs that are due tomorrow stay where they are."""
    async with stage.postgres.copy(peer, variant, size, future=FUTURE) as jobs:
        return await drain(peer, variant, jobs, size, loop=stage.loop, among=f"and id <= {size}")


async def run_latency(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
    """One job at a time."""
    async with stage.jobs(peer, variant, 0) as jobs:
        return await latency(peer, variant, jobs, size, loop=stage.loop)


async def run_durable_latency(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
    """One job at a time, each on disk before its add returns."""
    async with stage.jobs(peer, variant, 0, durable=True) as jobs:
        return await latency(peer, variant, jobs, size, loop=stage.loop)


def adding(**wish: int) -> Run:
    """Adds by so many producers, or in chunks."""

    async def run(stage: Stage, peer: Peer, variant: str, size: int) -> dict[str, Any]:
        async with stage.jobs(peer, variant, 0) as jobs:
            return await add(peer, variant, jobs, size, loop=stage.loop, **wish)

    return run


RATE = "jobs/s"
WORKS: dict[str, Work] = {
    "drain": Work(code="W3", title="drain, one process", unit=RATE, run=run_drain),
    "drain_2": Work(code="W3", title="drain, two processes", unit=RATE, run=run_drain_by_two),
    "latency": Work(code="W4", title="add to start of handler, idle", unit="ms", better="less", run=run_latency),
    "latency_durable": Work(
        code="W4", title="the same, Redis with `appendfsync always`", unit="ms", better="less", run=run_durable_latency
    ),
    "add_1": Work(code="W1", title="add one by one, 1 producer", unit=RATE, run=adding(producers=1)),
    "add_10": Work(code="W1", title="add one by one, 10 producers", unit=RATE, run=adding(producers=10)),
    "bulk_1000": Work(code="W2", title="bulk add, chunks of 1,000", unit=RATE, run=adding(chunk=1_000)),
    "bulk_10000": Work(code="W2", title="bulk add, chunks of 10,000", unit=RATE, run=adding(chunk=10_000)),
    "future": Work(code="W5", title="drain beside 1,000,000 future jobs", unit=RATE, run=run_future, turns=3),
    "ready": Work(code="W5", title="drain from 500,000 ready jobs", unit=RATE, run=run_drain, turns=3),
}
