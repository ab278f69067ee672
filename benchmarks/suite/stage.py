"""The place of the runs, and the kinds of work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.peers.peer import Peer
from benchmarks.suite.drains import Jobs
from benchmarks.suite.places import Unfit
from benchmarks.suite.postgres import Postgres
from benchmarks.suite.redis import Redis

RATE = "jobs/s"


def has_turn(turns: int, rotation: int, rotations: int) -> bool:
    """Whether a queue with so many turns in five rotations has one in this rotation, counted from 0; spread evenly."""
    kept = max(1, round(turns * rotations / 5))
    return rotation * kept // rotations != (rotation - 1) * kept // rotations


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
        """So many new jobs in the store of this queue."""
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
        title: Its name in reports.
        unit: Of the figure.
        better: Which figure is better.
        run: Lets one queue do it once; `value` in the result is the figure.
        beside_plain: Whether a plain drain goes before it, so that both see the same minute of the machine: `of_plain`
            in the result is the figure as a share of that one's.
        laps: How often all do it in a rotation, in turn: more than once if it is short, and the noise of the machine
            exceeds the differences.
        laps_with_floor: How many laps more asyncq and the floor do by themselves.
    """

    code: str
    title: str
    unit: str
    better: Literal["more", "less"] = "more"
    run: Run
    beside_plain: bool = False
    laps: int = 1
    laps_with_floor: int = 0
