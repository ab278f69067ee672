"""`python -m benchmarks.fleet`: the cost of listening workers for producers, and the queries of many idle workers."""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import asyncpg

from asyncq import Client, Worker
from asyncq.server import start
from asyncq.store.database import ReconnectingConnection
from benchmarks import tasks

PROCESSES, PRODUCERS = 4, 64
WORKERS = 4
FLEET = 50
POLL_S = 1.0
WATCHED_POLLS = 5
LISTENED_LIMIT = 0.8  # a share of the rate beside workers that poll: alone, producers have the cores of the workers too
QUERIES_LIMIT = 1.0
WOKEN_LIMIT = 2
CALM_S = 2.0
SERVER = {"shared_buffers": "1GB", "max_wal_size": "8GB", "max_connections": "500"}
# Statements of an idle worker for other reasons than jobs: the watch for dead workers, and its own beat.
FETCHING = ("fetch_jobs", "fetch_partitions", "next_due")


async def _process(*words: str) -> Process:
    """A process of this module that has printed its first line."""
    made = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.fleet", *words, stdin=PIPE, stdout=PIPE
    )
    assert made.stdout is not None
    await made.stdout.readline()
    return made


async def _produce(dsn: str, producers: int, adds: int) -> None:
    """In a process: open connections, report, wait for a line, add jobs one by one from each, report the time."""
    connections = [await asyncpg.connect(dsn) for _ in range(producers)]
    async with Client(dsn) as client:

        async def add(connection: asyncpg.Connection) -> None:
            for number in range(adds // producers):
                await client.add_job(tasks.noop, number, connection=connection, autocommit=True)

        await asyncio.gather(*map(add, connections[:1]))  # Statements are prepared.
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        began = time.perf_counter()
        await asyncio.gather(*map(add, connections))
        print(time.perf_counter() - began, flush=True)
    for connection in connections:
        await connection.close()


async def _work(dsn: str, listen: str) -> None:
    """In a process: a worker, until the input ends."""
    async with Worker(dsn, tasks=[tasks.noop], listen=listen == "listen").start():
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)


async def _end(processes: Sequence[Process]) -> list[str]:
    """Send a line to each, and wait; returns their outputs."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"\n")
    return [(await process.communicate())[0].decode() for process in processes]


async def produced(dsn: str, adds: int, mode: str) -> float:
    """Measure how many jobs 64 producers add in a second, one by one, each on its own connection.

    Args:
        dsn: The server.
        adds: How many, each of them.
        mode: `alone`, or beside four workers that `listen`, or only `poll`.
    """
    db = await asyncpg.connect(dsn)
    await db.execute("truncate asyncq._jobs")
    await db.execute("checkpoint")
    workers = [] if mode == "alone" else [await _process("work", dsn, mode) for _ in range(WORKERS)]
    each = PRODUCERS // PROCESSES
    producers = [await _process("produce", dsn, str(each), str(adds * each)) for _ in range(PROCESSES)]
    took_s = max(map(float, await _end(producers)))
    while workers and await db.fetchval("select exists (select from asyncq.jobs)"):
        await asyncio.sleep(0.05)
    await _end(workers)
    await db.close()
    return adds * PRODUCERS / took_s


async def listened(dsn: str, adds: int, rounds: int) -> dict[str, float]:
    """Measure the cost of listening workers for 64 producers: medians of rounds that rotate.

    Returns:
        Adds a second `alone`, beside workers that `listen`, and beside such that `poll`; the ratios of the second to
        the others.
    """
    rates: dict[str, list[float]] = {"alone": [], "listen": [], "poll": []}
    for _ in range(rounds):
        for mode, values in rates.items():
            values.append(await produced(dsn, adds, mode))
    medians = {mode: statistics.median(values) for mode, values in rates.items()}
    return {
        **{f"adds_per_s_{mode}": value for mode, value in medians.items()},
        "listened_vs_alone": medians["listen"] / medians["alone"],
        "listened_vs_polled": medians["listen"] / medians["poll"],
    }


@asynccontextmanager
async def _counted() -> AsyncGenerator[Counter[tuple[int, str]]]:
    """Count the statements of all workers of this process, by connection and name."""
    counts: Counter[tuple[int, str]] = Counter()
    real = ReconnectingConnection.fetch

    async def fetch(self: ReconnectingConnection, name: str, *args: Any) -> Any:
        counts[id(self), name] += 1
        return await real(self, name, *args)

    ReconnectingConnection.fetch = fetch
    try:
        yield counts
    finally:
        ReconnectingConnection.fetch = real


async def idle(dsn: str, workers: int) -> dict[str, float]:
    """Count the queries of so many idle workers.

    Returns:
        `queries_a_poll`: statements of one worker that look for jobs, in the time of a poll; `other_queries_per_s`, all
        others of their main connection, of all workers in a second; `woken_by_an_add`: how many workers looked for jobs
        when one job was added, the most of some tries.
    """
    async with _counted() as counts, AsyncExitStack() as stack:
        for _ in range(workers):
            await stack.enter_async_context(Worker(dsn, tasks=[tasks.noop], poll=POLL_S).start())
        await asyncio.sleep(CALM_S)
        counts.clear()
        await asyncio.sleep(WATCHED_POLLS * POLL_S)
        asked = sum(count for (_, name), count in counts.items() if name in FETCHING)
        others = counts.total() - asked
    return {
        "queries_a_poll": asked / workers / WATCHED_POLLS,
        "other_queries_per_s": others / WATCHED_POLLS / POLL_S,
        "woken_by_an_add": await woken(dsn, workers),
    }


async def woken(dsn: str, workers: int) -> int:
    """Count how many of so many idle workers look for jobs when one is added: the most of some tries."""
    most = 0
    async with _counted() as counts, AsyncExitStack() as stack, Client(dsn) as client:
        for _ in range(workers):
            await stack.enter_async_context(Worker(dsn, tasks=[tasks.noop], poll=60).start())
        await asyncio.sleep(CALM_S)
        for number in range(5):
            counts.clear()
            await client.add_job(tasks.noop, number)
            await asyncio.sleep(0.3)
            most = max(most, len({line for line, name in counts if name.startswith("fetch")}))
    return most


async def measure(dsn: str, *, adds: int, rounds: int, workers: int) -> dict[str, float]:
    """Everything; see `listened` and `idle`."""
    await Client(dsn).migrate()
    return {**await idle(dsn, workers), **await listened(dsn, adds, rounds)}


def main(words: Sequence[str] | None = None) -> int:
    """Measure on a server of our own, and print; 1 if a limit is broken."""
    given = sys.argv[1:] if words is None else list(words)
    if given and given[0] == "produce":
        asyncio.run(_produce(given[1], int(given[2]), int(given[3])))
        return 0
    if given and given[0] == "work":
        asyncio.run(_work(given[1], given[2]))
        return 0
    parser = argparse.ArgumentParser(prog="benchmarks.fleet", description=__doc__)
    parser.add_argument("--adds", type=int, default=500, help="jobs of each of the 64 producers; 500 by default")
    parser.add_argument("--rounds", type=int, default=5, help="how often; 5 by default")
    parser.add_argument("--workers", type=int, default=FLEET, help=f"how many idle ones; {FLEET} by default")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(given)
    with start(fsync=True, settings=SERVER) as server:
        found = asyncio.run(measure(server.dsn, adds=args.adds, rounds=args.rounds, workers=args.workers))
    lines = [f"{name:<22} {value:>12,.2f}" for name, value in found.items()]
    print(json.dumps(found, indent=2) if args.json else "\n".join(lines))
    is_well = found["queries_a_poll"] <= QUERIES_LIMIT and found["woken_by_an_add"] <= WOKEN_LIMIT
    return 0 if is_well and found["listened_vs_polled"] >= LISTENED_LIMIT else 1


if __name__ == "__main__":
    raise SystemExit(main())
