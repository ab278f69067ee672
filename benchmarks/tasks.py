"""The handlers that are measured: as little as a handler can do."""

from __future__ import annotations

import time

from asyncq import JobContext, task

starts: list[tuple[int, int]] = []  # (sent, started) in nanoseconds of the monotonic clock, which all processes share
runs: int = 0


@task
async def noop(id: int, ctx: JobContext) -> None:
    """Count the call; with a context, as the README writes handlers."""
    global runs
    runs += 1


@task
async def stamp(sent: int) -> None:
    """Note when the job was sent and when it started."""
    starts.append((sent, time.monotonic_ns()))
