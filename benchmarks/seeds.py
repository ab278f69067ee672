"""`python -m benchmarks.seeds`: start and stop, a load, and latency, each with the command that users run.

1. One `asyncq worker --once` on an empty queue, from its start to its end: it connects, looks at the migrations, finds
   nothing, and stops.
2. 20,000 jobs without work, 4 processes of 10 slots each. The rate leaves out the start and stop of as many processes.
3. The time from the call of `add_job` to the start of the handler, in another process that is idle.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack

from asyncq import Client
from asyncq.server import start
from benchmarks import work
from benchmarks.machine import conditions

SERVER = {"shared_buffers": "1GB", "max_wal_size": "8GB"}
COMPLETED = re.compile(r"has stopped: (\d+) jobs? completed")


def run_worker(dsn: str, *words: str) -> tuple[float, int]:
    """Run `asyncq worker --once` to its end; returns the seconds, and how many jobs its processes have completed."""
    command = [sys.executable, "-m", "asyncq", "worker", "--once", "--tasks", "benchmarks.tasks:noop", "--dsn", dsn]
    began = time.perf_counter()
    done = subprocess.run([*command, *words], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    took_s = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"the worker ended with {done.returncode}:\n{done.stderr}")
    return took_s, sum(map(int, COMPLETED.findall(done.stderr)))


async def measure(dsn: str, args: argparse.Namespace) -> dict[str, float]:
    """Measure the three parts.

    Args:
        dsn: The server.
        args: `rounds`, `jobs`, `processes`, `concurrency`, `latency`: how often, and how many.

    Returns:
        The figures by their names.
    """
    await Client(dsn).migrate()
    one = ("--migrate", "--concurrency", str(args.concurrency))
    group = (*one, "--processes", str(args.processes))
    alone_s = [(await asyncio.to_thread(run_worker, dsn, *one))[0] for _ in range(args.rounds)]
    empty_s = [(await asyncio.to_thread(run_worker, dsn, *group))[0] for _ in range(args.rounds)]
    loads_s: list[float] = []
    for _ in range(args.rounds):
        await work.fill(dsn, args.jobs)
        took_s, completed = await asyncio.to_thread(run_worker, dsn, *group)
        await work.check_empty(dsn, calls=completed, jobs=args.jobs)
        loads_s.append(took_s)
    delays = await work.latency(dsn, args.latency)
    load_s, start_s = statistics.median(loads_s), statistics.median(empty_s)
    return {
        "start_and_stop_ms": statistics.median(alone_s) * 1e3,
        "group_start_and_stop_ms": start_s * 1e3,
        "load_ms": load_s * 1e3,
        "jobs_per_s": args.jobs / max(load_s - start_s, 0.001),
        "latency_min_ms": delays[0],
        "latency_avg_ms": statistics.fmean(delays),
        "latency_p50_ms": delays[len(delays) // 2],
        "latency_p99_ms": delays[int(len(delays) * 0.99)],
        "latency_max_ms": delays[-1],
    }


def text_of(found: dict[str, float], args: argparse.Namespace) -> str:
    """The figures for people."""
    latencies = ", ".join(f"{name} {found[f'latency_{name}_ms']:.2f}" for name in ("min", "avg", "p50", "p99", "max"))
    load = f"{args.jobs:,} jobs, {args.processes} processes x {args.concurrency}: {found['load_ms']:,.0f} ms"
    of_start = f"{found['group_start_and_stop_ms']:,.0f} ms of start and stop"
    return "\n".join(
        (
            f"start and stop  {found['start_and_stop_ms']:,.0f} ms",
            f"load            {load} with {of_start}, {found['jobs_per_s']:,.0f} jobs/s without",
            f"latency         {latencies} ms",
        )
    )


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.seeds", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--dsn", help="a server whose schema asyncq may be used; else one is started")
    add("--jobs", type=int, default=20_000, help="jobs of the load (default: 20,000)")
    add("--processes", type=int, default=4, help="processes of the load (default: 4)")
    add("--concurrency", type=int, default=10, help="jobs at once in each (default: 10)")
    add("--latency", type=int, default=1_000, help="jobs that are added one by one (default: 1,000)")
    add("--rounds", type=int, default=3, help="how often the first parts are repeated; the median counts (default: 3)")
    add("--json", action="store_true", help="print JSON")
    args = parser.parse_args(words)
    with ExitStack() as stack:
        dsn = args.dsn or stack.enter_context(start(fsync=True, settings=SERVER)).dsn
        found = asyncio.run(measure(dsn, args))
        on = asyncio.run(conditions(dsn, "asyncio"))
    if args.json:
        print(json.dumps({"conditions": on, "figures": found}, indent=2))
    else:
        print(", ".join(f"{name} {value}" for name, value in on.items()))
        print(text_of(found, args))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
