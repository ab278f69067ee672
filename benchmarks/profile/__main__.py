"""`python -m benchmarks.profile`: microseconds a job by part of the worker and of the server, and the steps of one job.

The worker drains twice: alone, to measure its CPU, and under py-spy, to sample its distribution. It drains once more
while the server logs plans, if it can.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncpg

from asyncq import Client
from asyncq.server import Server, available_binaries, find_binaries, start
from benchmarks.profile import plans
from benchmarks.profile.child import child, sampled
from benchmarks.profile.server_side import EXTENSION, LOOK_S, READ, Backends, by_name, has
from benchmarks.profile.stacks import shares
from benchmarks.profile.steps import RETURN, WHOLE, steps
from benchmarks.profile.table import table
from benchmarks.suite.environment import prepare, say
from benchmarks.suite.places import Unfit
from benchmarks.suite.postgres import SETTINGS

ROLES = """
    select pid, coalesce(nullif(application_name, ''), backend_type) as role
    from pg_stat_activity where pid <> pg_backend_pid()
"""
WARM_UP = 20
QUIET_S = 0.5  # from its start, until a worker surely rests


def main(words: Sequence[str] | None = None) -> int:
    """Profile, and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.profile", description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000, help="how many are drained; 100,000 by default")
    parser.add_argument("--adds", type=int, default=300, help="how many are added one by one; 300 by default")
    parser.add_argument("--bin", help="the folder of PostgreSQL's programs; the newest that is here by default")
    args = parser.parse_args(words)
    if not {"asyncq", "profile"} <= prepare({"asyncq", "profile"}):
        return 1
    newest = max(available_binaries(), key=lambda found: found.numbers)
    binaries = find_binaries(args.bin) if args.bin else newest
    libraries = [library for library in (EXTENSION, plans.LIBRARY) if has(binaries, library)]
    settings = {**SETTINGS, "shared_preload_libraries": ",".join(libraries)}
    say(f"PostgreSQL {binaries.version}, with {' and '.join(libraries) or 'no more libraries'}")
    with start(binaries=binaries, fsync=True, settings=settings) as server:
        asyncio.run(Client(server.dsn).migrate())
        print(asyncio.run(drain(server, args.jobs, libraries)))
        print(asyncio.run(latency(server, args.adds)))
    return 0


async def drain(server: Server, jobs: int, libraries: Sequence[str]) -> str:
    """The time of a drain by part."""
    connection = await asyncpg.connect(server.dsn)
    try:
        if EXTENSION in libraries:
            await connection.execute(f"create extension if not exists {EXTENSION}")
        alone, backends = await drained(connection, server, jobs)
        statements = by_name([dict(row) for row in await connection.fetch(READ)]) if EXTENSION in libraries else {}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "stacks"
            await drained(connection, server, jobs, path)
            spread = shares(path.read_text().splitlines())
        steps_of_plans = await explained(connection, server, jobs) if plans.LIBRARY in libraries else {}
    finally:
        await connection.close()
    cpu_us = alone["cpu_s"] / jobs * 1e6
    rate = jobs / alone["wall_s"]
    made = [
        f"\n{rate:,.0f} jobs a second with start and stop of the worker, {cpu_us:.2f} us of CPU a job.\n",
        table("worker", "us a job", {part: share * cpu_us for part, share in spread.items()}),
        "",
        table("server, by connection", "us of CPU a job", {role: s / jobs * 1e6 for role, s in backends.items()}),
    ]
    if statements:
        named = {f"{name}, {calls:,} times": us / jobs for name, (calls, us, _) in statements.items()}
        wal = {name: size / jobs for name, (_, _, size) in statements.items()}
        made += ["", table("server, by statement", "us a job", named), "", table("WAL", "bytes a job", wal, 0)]
    if steps_of_plans:
        made += ["", table("server, by node of a plan", "% of the statements' time", steps_of_plans, 1)]
    return "\n".join(made)


async def explained(connection: asyncpg.Connection, server: Server, jobs: int) -> dict[str, float]:
    """Drain once more while a sample of the plans is logged: the nodes that take the most time."""
    for name, value in plans.SETTINGS.items():
        await connection.execute(f"alter system set {name} = '{value}'")
    await connection.execute("select pg_reload_conf()")
    log = server.folder / "server.log"
    before = log.stat().st_size
    await drained(connection, server, jobs)
    for name in plans.SETTINGS:
        await connection.execute(f"alter system reset {name}")
    await connection.execute("select pg_reload_conf()")
    with log.open(encoding="utf-8", errors="replace") as lines:
        lines.seek(before)
        return plans.parts(lines.read())


async def drained(
    connection: asyncpg.Connection, server: Server, jobs: int, path: Path | None = None
) -> tuple[dict[str, Any], dict[str, float]]:
    """Drain once. Returns the worker's report, and the seconds of CPU of the server's processes by role.

    Raises:
        Unfit: Not every job ran once.
    """
    backends = Backends()
    with child("drain", server.dsn, jobs) as worker:
        await asyncio.to_thread(worker.hear)
        if await connection.fetchval("select to_regclass('pg_stat_statements') is not null"):
            await connection.execute("select pg_stat_statements_reset()")
        if path is None:
            told = await watched(connection, backends, worker.tell, worker.hear)
        else:
            with sampled(worker.pid, path):
                told = await watched(connection, backends, worker.tell, worker.hear)
    if told["calls"] != jobs:
        raise Unfit(f"{told['calls']} calls for {jobs} jobs")
    return told, backends.seconds()


async def watched(connection: asyncpg.Connection, backends: Backends, tell: Any, hear: Any) -> dict[str, Any]:
    """Start the worker, and sample the server's processes until it has ended."""
    told: dict[str, Any] = {}

    async def listen() -> None:
        told.update(await asyncio.to_thread(hear))

    tell()
    async with asyncio.TaskGroup() as group:
        listening = group.create_task(listen())
        while not listening.done():
            rows = await connection.fetch(ROLES)
            backends.look({row["pid"]: row["role"] for row in rows})
            await asyncio.sleep(LOOK_S)
    return told


async def latency(server: Server, adds: int) -> str:
    """The way of one job."""
    with child("idle", server.dsn, 0) as worker:
        await asyncio.to_thread(worker.hear)
        await asyncio.sleep(QUIET_S)
        with child("add", server.dsn, adds + WARM_UP) as client:
            added = await asyncio.to_thread(client.hear)
        await asyncio.sleep(QUIET_S)
        worker.tell("stop")
        seen = await asyncio.to_thread(worker.hear)
    starts = [(sent, started) for sent, started in seen["starts"]]
    if len(starts) != adds + WARM_UP:
        raise Unfit(f"{len(starts)} calls for {adds + WARM_UP} jobs")
    sent = sorted(sent for sent, _ in starts)
    found = steps(sent, added["returned"], seen["told"], starts, WARM_UP)
    if not found:
        raise Unfit("no add has claimed its job for the worker")
    whole, returned = found.pop(WHOLE), found.pop(RETURN)
    lines = [f"| {step} | {ms:.3f} |" for step, ms in found.items()]
    told = f"| {WHOLE} | {whole:.3f} |\n| {RETURN} | {returned:.3f} |"
    return "\n".join(["", "| one job | ms, median |", "| --- | --- |", *lines, told])


if __name__ == "__main__":
    began = time.monotonic()
    code = main()
    say(f"done in {time.monotonic() - began:.0f} s")
    raise SystemExit(code)
