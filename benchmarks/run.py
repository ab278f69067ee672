"""`python -m benchmarks.run`: speed, its floor, and the cost of keys, policies and cron, on a new server or --dsn."""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from asyncq import Client
from asyncq.server import start
from benchmarks import cron, dedupe, floor, work
from benchmarks.machine import conditions

SERVER = {"shared_buffers": "1GB", "max_wal_size": "8GB"}


async def measure(dsn: str, rounds: int, scale: float) -> dict[str, Any]:
    """Run all measurements in turn, for so many rounds.

    Args:
        dsn: The server.
        rounds: How often.
        scale: 1 for the full work.

    Returns:
        Conditions, and a list of figures for each measurement.
    """
    await Client(dsn).migrate()
    loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
    figures: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        figures.setdefault(name, []).append(value)

    rates = dedupe.Rates(dsn)
    for _ in range(rounds):
        note("drained_per_s", await work.drain(dsn, int(50_000 * scale)))
        delays = await work.latency(dsn, int(500 * scale))
        note("latency_p50_ms", delays[len(delays) // 2])
        note("latency_p99_ms", delays[int(len(delays) * 0.99)])
        least = await floor.latency(dsn, int(500 * scale), work.PAUSE_S)
        note("floor_p50_ms", least[len(least) // 2])
        note("latency_vs_floor", delays[len(delays) // 2] / least[len(least) // 2])
        note("single_adds_per_s", await work.single_adds(dsn, int(3_000 * scale)))
        note("bulk_adds_per_s", await work.bulk_adds(dsn, int(100_000 * scale), 1_000))
        for name, value in (await rates.measure(int(2_000 * scale), int(1_000 * scale))).items():
            note(name, value)
        for name, value in (await dedupe.prune(dsn, int(100_000 * scale))).items():
            note(name, value)
        for name, value in (cron.match_week() | await cron.fill_week(dsn)).items():
            note(name, value)
    return {"conditions": await conditions(dsn, loop), "figures": figures}


def table(result: dict[str, Any]) -> str:
    """The result for people: medians with their range."""
    lines = [", ".join(f"{name} {value}" for name, value in result["conditions"].items()), ""]
    for name, values in result["figures"].items():
        unit = 0 if name.endswith("per_s") else 1 if name.endswith("_us") else 3
        median, low, high = (f"{value:,.{unit}f}" for value in (statistics.median(values), min(values), max(values)))
        lines.append(f"{name:<30} {median:>10}   ({low} - {high})")
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.run", description=__doc__)
    parser.add_argument("--dsn", help="a server whose schema asyncq may be used; else one is started")
    parser.add_argument("--rounds", type=int, default=3, help="how often; 3 by default, the median is printed")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the work, one round: only to see it run")
    parser.add_argument("--uvloop", action="store_true", help="use uvloop")
    parser.add_argument("--json", action="store_true", help="print every figure as JSON")
    args = parser.parse_args(words)
    rounds, scale = (1, 0.05) if args.quick else (args.rounds, 1.0)
    factory = None
    if args.uvloop:
        import uvloop

        factory = uvloop.new_event_loop
    with ExitStack() as stack:
        dsn = args.dsn or stack.enter_context(start(fsync=True, settings=SERVER)).dsn
        with asyncio.Runner(loop_factory=factory) as runner:
            result = runner.run(measure(dsn, rounds, scale))
    print(json.dumps(result, indent=2) if args.json else table(result))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
