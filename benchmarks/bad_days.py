"""`python -m benchmarks.bad_days`: the effects of a crash of the server and of a rolling restart.

Each figure is compared with a control of the same run. Its limit is the guarantee or three times the control, whichever
is larger: a busy machine is not the queue's fault.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import NamedTuple

import asyncpg

from asyncq import Client
from asyncq.server import Server, start
from benchmarks import tasks

AWAY_S = 4.0  # long enough for every back-off to have grown to its longest
LATENCY_MS = 100.0
RETURN_LIMIT_MS = 1_000.0
ROLLING_LIMIT_MS = 1_000.0
PAUSE_S = 0.01
WORKERS = 3
RATE = 1_000
LOAD_S = 12.0


class Process(NamedTuple):
    """A worker in a process of its own."""

    popen: subprocess.Popen[str]

    @classmethod
    async def begin(cls, dsn: str) -> Process:
        """Start it, and wait until it listens."""
        command = [sys.executable, "-m", "benchmarks.steady_worker", dsn]
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        made = cls(await asyncio.to_thread(partial(subprocess.Popen, command, stdout=pipe, stderr=null, text=True)))
        await made.line()
        return made

    async def line(self) -> str:
        """The next line that it says."""
        assert self.popen.stdout is not None
        return await asyncio.to_thread(self.popen.stdout.readline)

    async def end(self) -> list[tuple[int, int]]:
        """Stop it; returns the times at which its jobs were sent and started."""
        self.popen.send_signal(signal.SIGTERM)
        while (said := await self.line()) == "ready\n":  # once for each time that it had to connect
            continue
        await asyncio.to_thread(self.popen.wait)
        assert self.popen.stdout is not None
        self.popen.stdout.close()
        return json.loads(said)


async def outage(server: Server) -> dict[str, float]:
    """Kill the server, restart it, add jobs at once.

    Returns:
        How long after the restart all jobs start within `LATENCY_MS`; the same for the echo of a bare LISTEN.
    """
    worker = await Process.begin(server.dsn)
    await asyncio.to_thread(server.kill)
    bare = asyncio.create_task(_bare_echo(server.dsn))  # noqa: TID251
    await asyncio.sleep(AWAY_S)
    await asyncio.to_thread(server.restart)
    back = time.monotonic_ns()
    sent = 0
    async with Client(server.dsn) as client:
        while time.monotonic_ns() < back + 3e9:
            await client.add_job(tasks.stamp, time.monotonic_ns())
            sent += 1
            await asyncio.sleep(PAUSE_S)
        heard = await bare
        while (await client.admin.counts()).available:
            await asyncio.sleep(PAUSE_S)
    starts = await worker.end()
    assert sent == len(starts), f"{sent} jobs were added, {len(starts)} have run"
    slow = [sent for sent, started in starts if started - sent > LATENCY_MS * 1e6]
    return {"return_ms": (max(slow, default=back) - back) / 1e6, "return_control_ms": max(heard - back, 0) / 1e6}


async def _bare_echo(dsn: str) -> int:
    """Retry to connect, LISTEN, and receive an own notification; returns the time of its arrival."""
    while True:
        with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
            connection = await asyncpg.connect(dsn, timeout=1)
            try:
                heard = asyncio.get_running_loop().create_future()
                await connection.add_listener("bench_echo", partial(_note, heard))
                await connection.execute("notify bench_echo")
                await heard
                return time.monotonic_ns()
            finally:
                await connection.close()
        await asyncio.sleep(PAUSE_S)


def _note(heard: asyncio.Future[None], *_: object) -> None:
    if not heard.done():
        heard.set_result(None)


@asynccontextmanager
async def load(dsn: str) -> AsyncGenerator[list[int]]:
    """Add jobs at a steady rate while the block lasts; yields when each was sent."""
    sent: list[int] = []
    stop = asyncio.Event()

    async def add() -> None:
        async with Client(dsn) as client:
            due = time.monotonic()
            while not stop.is_set():
                batch = [time.monotonic_ns() for _ in range(RATE // 100)]
                await client.add_jobs([tasks.stamp.job(at) for at in batch])
                sent.extend(batch)
                due += 0.01
                await asyncio.sleep(max(due - time.monotonic(), 0))

    async with asyncio.TaskGroup() as group:
        group.create_task(add())
        yield sent
        stop.set()


async def rolling(dsn: str, *, restart: bool) -> float:
    """Let workers run under a steady load.

    Args:
        dsn: The server.
        restart: Whether each of them is replaced meanwhile, one after the other.

    Returns:
        The longest time from the add of a job to its start, in milliseconds.
    """
    workers = [await Process.begin(dsn) for _ in range(WORKERS)]
    starts: list[tuple[int, int]] = []
    async with load(dsn) as sent:
        for number in range(WORKERS):
            await asyncio.sleep(LOAD_S / (WORKERS + 1))
            if restart:
                starts += await workers[number].end()
                workers[number] = await Process.begin(dsn)
        await asyncio.sleep(LOAD_S / (WORKERS + 1))
    await asyncio.sleep(1)
    for worker in workers:
        starts += await worker.end()
    lost, doubled = len(set(sent) - {at for at, _ in starts}), len(starts) - len(sent)
    assert (0, 0) == (lost, doubled), f"{lost} jobs were lost, {doubled} ran twice"
    return max(started - at for at, started in starts) / 1e6


async def measure(server: Server) -> list[tuple[str, float, float, float]]:
    """Every bad day: its name, the figure, its control, its limit, in milliseconds."""
    await Client(server.dsn).migrate()
    return_ms, control_ms = (await outage(server)).values()
    calm_ms = await rolling(server.dsn, restart=False)
    rolling_ms = await rolling(server.dsn, restart=True)
    return [
        ("server killed: latency is back after", return_ms, control_ms, max(RETURN_LIMIT_MS, 3 * control_ms)),
        ("workers replaced: longest latency", rolling_ms, calm_ms, max(ROLLING_LIMIT_MS, 3 * calm_ms)),
    ]


def main() -> int:
    """Measure and print; 1 if a limit is broken."""
    with start(fsync=True) as server:
        rows = asyncio.run(measure(server))
    print(f"{'ms':<40} {'figure':>10} {'control':>10} {'limit':>10}")
    for name, figure, control, limit in rows:
        print(f"{name:<40} {figure:>10,.0f} {control:>10,.0f} {limit:>10,.0f}")
    return int(any(figure > limit for _, figure, _, limit in rows))


if __name__ == "__main__":
    raise SystemExit(main())
