"""What the harness knows of a queue: where its program is, how it is set, which work it takes part in."""

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
        title: What people call it.
        store: Where it keeps its jobs.
        home: The environment that its program runs in: a folder of the cache.
        program: The module, or the file in `benchmarks/node`.
        packages: What its version is read from.
        variants: Settings by name: `default` is what a newcomer gets, `best` what a benchmark of its own would set.
        entries: The work that it takes part in -> variant -> how many jobs.
        left: What finds a job that is not settled: the end of an SQL query, where `and ...` may follow, or commands
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
