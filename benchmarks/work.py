"""The four measurements. Each checks itself: as many handler calls as jobs, nothing left in the table."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO

import asyncpg

from asyncq import Client, Worker, observer
from asyncq.domain.events import JobsFetched, WorkerStopping
from benchmarks import tasks

PAUSE_S = 0.01  # between two jobs of the latency measurement: the worker is idle again


async def drain(dsn: str, jobs: int) -> float:
    """Drain a filled queue with one process.

    Args:
        dsn: The server.
        jobs: How many jobs wait.

    Returns:
        Jobs a second, from the first fetch to the last committed settlement.
    """
    await fill(dsn, jobs)
    marks: list[float] = []

    @observer(JobsFetched, WorkerStopping)
    def watch(event: JobsFetched | WorkerStopping) -> None:
        # The first fetch began so long before its event; a run_once stops when the last settlement is committed.
        if isinstance(event, WorkerStopping):
            marks.append(time.perf_counter())
        elif not marks:
            marks.append(time.perf_counter() - event.duration_s)

    tasks.runs = 0
    await Worker(dsn, tasks=[tasks.noop], observers=[watch]).run_once()
    await check_empty(dsn, calls=tasks.runs, jobs=jobs)
    return jobs / (marks[1] - marks[0])


async def latency(dsn: str, jobs: int) -> list[float]:
    """Add jobs one by one to an idle worker in another process.

    Args:
        dsn: The server.
        jobs: How many.

    Returns:
        Milliseconds from the call of `add_job` to the start of the handler, sorted.
    """
    await tidy(dsn)
    with idle_worker(dsn, jobs) as output:
        async with Client(dsn) as client:
            for _ in range(jobs):
                await client.add_job(tasks.stamp, time.monotonic_ns())
                await asyncio.sleep(PAUSE_S)
        starts: list[tuple[int, int]] = json.loads(await asyncio.to_thread(output.readline))
    await check_empty(dsn, calls=len(starts), jobs=jobs)
    return sorted((started - sent) / 1e6 for sent, started in starts)


async def single_adds(dsn: str, jobs: int) -> float:
    """Add jobs one after the other, each committed; no worker runs. Returns adds a second."""
    async with Client(dsn) as client:
        began = time.perf_counter()
        for number in range(jobs):
            await client.add_job(tasks.noop, number)
        took_s = time.perf_counter() - began
    await clear(dsn, jobs)
    return jobs / took_s


async def bulk_adds(dsn: str, jobs: int, chunk: int) -> float:
    """Add jobs in chunks, specs built in the measured time; no worker runs. Returns adds a second."""
    async with Client(dsn) as client:
        began = time.perf_counter()
        for first in range(0, jobs, chunk):
            await client.add_jobs([tasks.noop.job(number) for number in range(first, first + chunk)])
        took_s = time.perf_counter() - began
    await clear(dsn, jobs)
    return jobs / took_s


@contextmanager
def idle_worker(dsn: str, jobs: int) -> Generator[IO[str]]:
    """A worker in its own process; yields the stream that it prints to after its last job."""
    command = [sys.executable, "-m", "benchmarks.idle_worker", dsn, str(jobs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise SystemExit("latency: the worker did not start")
        try:
            yield process.stdout
        finally:
            process.terminate()


async def fill(dsn: str, jobs: int) -> None:
    """Add so many waiting jobs."""
    async with Client(dsn) as client:
        for first in range(0, jobs, 5_000):
            await client.add_jobs([tasks.noop.job(number) for number in range(first, min(first + 5_000, jobs))])
    await tidy(dsn)


async def tidy(dsn: str) -> None:
    """Let the server vacuum and checkpoint now, so that no measurement pays for an earlier one."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("vacuum analyze asyncq._jobs")
        await connection.execute("checkpoint")
    finally:
        await connection.close()
    await asyncio.to_thread(os.sync)


async def clear(dsn: str, jobs: int) -> None:
    """Remove the jobs that an add measurement left, if they are all there."""
    connection = await asyncpg.connect(dsn)
    try:
        there = await connection.fetchval("select count(*) from asyncq.jobs")
        if there != jobs:
            raise SystemExit(f"adds: {there} rows for {jobs} jobs")
        await connection.execute("truncate asyncq._jobs")
    finally:
        await connection.close()


async def check_empty(dsn: str, *, calls: int, jobs: int) -> None:
    """End the benchmark unless every job ran once and none is left."""
    connection = await asyncpg.connect(dsn)
    left = 0
    try:
        # The last settlement may not be committed yet when the handler has reported its start.
        for _ in range(100):
            left = await connection.fetchval("select count(*) from asyncq.jobs")
            if not left:
                break
            await asyncio.sleep(0.01)
    finally:
        await connection.close()
    if calls != jobs or left:
        raise SystemExit(f"{calls} handler calls for {jobs} jobs, {left} rows left")
