"""The harness's data of a queue: its program, its settings, and the works that it takes part in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Store = Literal["postgres", "redis"]


@dataclass(frozen=True, kw_only=True)
class Peer:
    """One of the queues.

    Args:
        name: Its folder's.
        title: Its name in reports.
        store: The database that has its jobs.
        home: The environment that its program runs in: a folder of the cache.
        program: The module, or the file in `benchmarks/node`.
        packages: The packages whose versions are reported.
        variants: Settings by name: `default` are those of a newcomer, `best` those of a benchmark of its own.
        entries: Each work that it takes part in -> variant -> number of jobs.
        left: A search for jobs that are not settled: the end of an SQL query, where `and ...` may follow, or commands
            for Redis whose answers are numbers.
        turns: In how many rotations of five it takes part: the slow ones have fewer.
    """

    name: str
    title: str
    store: Store = "postgres"
    home: str = "peers"
    program: str
    packages: tuple[str, ...]
    variants: Mapping[str, Mapping[str, Any]]
    entries: Mapping[str, Mapping[str, int]]
    left: str | tuple[str, ...] = field(repr=False)
    turns: int = 5
