"""Jobs that pass at full speed: a producer keeps a short backlog in front of one worker, however many there are."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from asyncq import Worker, task
from benchmarks.producer import CHUNK

AHEAD = 8  # chunks that wait or are being added
LOOK_S = 0.005


class Stream:
    """Jobs that pass through one worker of this process.

    Args:
        dsn: The server, with the schema and no jobs.
        jobs: How many.
        mark_each: The number of jobs between two recorded times.
        at_mark: Called for each mark, with the number of jobs that have passed.

    Attributes:
        passed: How many handlers were called so far.
        marks: The time of the first call, and of each mark, on `time.perf_counter`.
    """

    def __init__(self, dsn: str, jobs: int, mark_each: int, at_mark: Callable[[int], object] = int) -> None:
        self._dsn = dsn
        self._jobs = jobs
        self._mark_each = mark_each
        self._at_mark = at_mark
        self.passed = 0
        self.marks: list[float] = []

    async def run(self) -> float:
        """Let them pass.

        Returns:
            Jobs a second, from the first handler to the last.
        """

        @task(name="noop")
        async def count(id: int) -> None:
            if self.passed % self._mark_each == 0:
                self._mark()
            self.passed += 1

        async with _producer(self._dsn) as add, Worker(self._dsn, tasks=[count]).start():
            for first in range(0, self._jobs, CHUNK):
                while first - self.passed > AHEAD * CHUNK:
                    await asyncio.sleep(LOOK_S)
                await add(first, min(CHUNK, self._jobs - first))
            while self.passed < self._jobs:
                await asyncio.sleep(LOOK_S)
            self._mark()
        return self._jobs / (self.marks[-1] - self.marks[0])

    def _mark(self) -> None:
        self.marks.append(time.perf_counter())
        self._at_mark(self.passed)

    def rates(self) -> list[float]:
        """Jobs a second, mark by mark."""
        spans = zip(self.marks, self.marks[1:], strict=False)
        return [self._mark_each / (end - begin) for begin, end in spans]


@asynccontextmanager
async def _producer(dsn: str) -> AsyncGenerator[Callable[[int, int], Awaitable[None]]]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.producer", dsn, stdin=pipe, stdout=pipe
    )
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None

    async def add(first: int, count: int) -> None:
        stdin.write(f"{first} {count}\n".encode())
        if not await stdout.readline():
            raise SystemExit("the producer has ended")

    try:
        yield add
    finally:
        stdin.close()
        await process.wait()
