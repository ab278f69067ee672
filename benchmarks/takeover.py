"""`python -m benchmarks.takeover`: how soon the job of a killed worker runs again, and the cost of that watch."""

from __future__ import annotations

import argparse
import asyncio
import signal
import statistics
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import AsyncExitStack

import asyncpg

from asyncq import Client, Worker, task
from asyncq.engine.base.lease import GRACE_S, LOOK_S
from asyncq.server import start

LIMIT_S = 2.0
FLEETS = (1, 8, 64)
SERVER = {"max_connections": "400", "track_functions": "all"}
# The server of a benchmark has not been up for a lease.
UP_FOR_LONG = """
create or replace function asyncq._locks_since() returns timestamptz language sql volatile
as $$ select '-infinity'::timestamptz $$
"""
LOCK = 77


@task
async def hold(victim: int) -> None:
    """Run until killed in the process that is to die; in ours, say when it starts."""
    if victim and len(sys.argv) > 1 and sys.argv[1] == "victim":
        print("started", flush=True)
        await asyncio.Event().wait()
    runs.set()


runs = asyncio.Event()


async def be_up_for_long(dsn: str) -> None:
    """Let a free lock count at once on a server that has just started."""
    db = await asyncpg.connect(dsn)
    await db.execute(UP_FOR_LONG)
    await db.close()


async def process(*words: str) -> Process:
    """A process of ours that has printed its first line."""
    made = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.takeover", *words, stdout=PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert made.stdout is not None
    await made.stdout.readline()
    return made


async def takeover(dsn: str) -> float:
    """Seconds from the SIGKILL of a worker to the next start of its job elsewhere."""
    runs.clear()
    victim = asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.takeover", "victim", dsn, stdout=PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    async with Client(dsn) as client:
        await client.add_job(hold.job(victim=1))
        made = await victim
        assert made.stdout is not None
        await made.stdout.readline()
        async with Worker(dsn, [hold]).start():
            made.send_signal(signal.SIGKILL)
            began = time.perf_counter()
            await runs.wait()
            took_s = time.perf_counter() - began
    await made.wait()
    return took_s


async def control(dsn: str) -> float:
    """Measure the least possible time: a process that holds a lock is killed, another gets it.

    Then the grace passes.
    """
    holder = await process("holder", dsn)
    waiter = await asyncpg.connect(dsn)
    async with asyncio.TaskGroup() as group:
        freed = group.create_task(waiter.execute(f"select pg_advisory_lock({LOCK})"))
        await asyncio.sleep(0.1)
        holder.send_signal(signal.SIGKILL)
        began = time.perf_counter()
        await freed
        await asyncio.sleep(GRACE_S)
    took_s = time.perf_counter() - began
    await waiter.close()
    await holder.wait()
    return took_s


async def idle_fleet(dsn: str, workers: int, seconds: float) -> tuple[float, float, float]:
    """Count the queries of so many idle workers.

    Returns:
        Checks for dead workers a second; microseconds for each in the server; transactions of all kinds a second.
    """
    db = await asyncpg.connect(dsn)
    async with AsyncExitStack() as stack:
        for _ in range(workers):
            await stack.enter_async_context(Worker(dsn, [hold], poll=60).start())
        # Until everybody has found its turn, and the server has counted what came before.
        await asyncio.sleep(3.0 + 2 * workers * LOOK_S)
        before = await _counted(db)
        await asyncio.sleep(seconds)
        after = await _counted(db)
    await db.close()
    looks, spent_ms, commits = (new - old for new, old in zip(after, before, strict=True))
    return looks / seconds, spent_ms * 1000 / max(looks, 1), commits / seconds


async def _counted(db: asyncpg.Connection) -> tuple[float, float, float]:
    # Sessions report at most once a second, and an idle one not before its next statement.
    row = await db.fetchrow("""
        select coalesce(sum(calls), 0)::float8, coalesce(sum(total_time), 0)::float8,
          (select xact_commit from pg_stat_database where datname = current_database())::float8
        from pg_stat_user_functions where funcname = '_watch_workers'""")
    assert row is not None
    return row[0], row[1], row[2]


async def measure(dsn: str, rounds: int, seconds: float) -> bool:
    """Print everything; returns whether the takeover is within its limit."""
    await Client(dsn).migrate()
    await be_up_for_long(dsn)
    least = [await control(dsn) for _ in range(rounds)]
    took = [await takeover(dsn) for _ in range(rounds)]
    limit_s = max(LIMIT_S, 3 * statistics.median(least))
    for name, values in (("control", least), ("takeover", took)):
        print(f"{name:<10} {statistics.median(values):.2f} s   ({min(values):.2f} - {max(values):.2f})")
    print(f"limit      {limit_s:.2f} s, the greater of {LIMIT_S:g} s and three times the control")
    for workers in FLEETS:
        looks, each_us, commits = await idle_fleet(dsn, workers, seconds)
        print(
            f"{workers:>3} idle workers: {looks:.1f} looks/s of {each_us:.0f} us, {commits:.1f} transactions/s in all"
        )
    return max(took) <= limit_s


async def be(role: str, dsn: str) -> None:
    """One of the processes that are to die."""
    if role == "victim":
        await Worker(dsn, [hold]).run()
    connection = await asyncpg.connect(dsn)
    await connection.execute(f"select pg_advisory_lock({LOCK})")
    print("holds", flush=True)
    await asyncio.Event().wait()


def main(words: Sequence[str] | None = None) -> int:
    """Measure on a server of our own."""
    given = sys.argv[1:] if words is None else list(words)
    if given and given[0] in ("victim", "holder"):
        asyncio.run(be(*given))
        return 0
    parser = argparse.ArgumentParser(prog="benchmarks.takeover", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="how many workers are killed; 10 by default")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long a fleet is watched; 10 by default")
    args = parser.parse_args(given)
    with start(fsync=True, settings=SERVER) as server:
        return 0 if asyncio.run(measure(server.dsn, args.rounds, args.seconds)) else 1


if __name__ == "__main__":
    raise SystemExit(main())
