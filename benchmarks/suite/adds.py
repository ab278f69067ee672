"""Adds: one by one by one producer or many, or in chunks; no worker runs."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.peers.peer import Peer
from benchmarks.suite.child import Child
from benchmarks.suite.drains import Jobs
from benchmarks.suite.places import Unfit

LONGEST_S = 60.0


async def add(
    peer: Peer, variant: str, table: Jobs, jobs: int, *, waiting: int | None = None, **wish: Any
) -> dict[str, Any]:
    """Let one process add jobs.

    Args:
        peer: The queue whose client adds.
        variant: Its settings.
        table: The table of the jobs.
        jobs: How many.
        waiting: How many jobs wait before; None if workers run them meanwhile, so that they cannot be counted.
        **wish: producers, or chunk.

    Returns:
        The rate in jobs a second.

    Raises:
        Unfit: Some jobs are missing.
    """
    child = await Child.begin(peer, "add", table.dsn, **{**peer.variants[variant], **wish}, jobs=jobs)
    try:
        await child.go()
        async with asyncio.timeout(LONGEST_S):
            added = await child.hear("added")
    except TimeoutError:
        raise Unfit(f"{peer.name}: {jobs} adds took longer than {LONGEST_S:g} s") from None
    finally:
        await child.close()
    if waiting is not None and peer.store == "postgres":
        before = waiting + added["warm_up"]
        if (there := await table.count()) != jobs + before:
            raise Unfit(f"{peer.name}: {there} rows for {jobs} jobs and {before} before them")
    return {"value": jobs / added["took_s"]}
