"""`python -m benchmarks.scale`: how cost grows with jobs, workers, queues and payloads, and estimates for others."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from asyncq.server import available_binaries, start
from benchmarks.scale import model
from benchmarks.scale.checks import Checker
from benchmarks.scale.fleets import busy, idle
from benchmarks.scale.payloads import payloads
from benchmarks.scale.place import Place, place
from benchmarks.scale.queues import queues
from benchmarks.scale.report import report
from benchmarks.scale.result import Scale
from benchmarks.scale.waiting import waiting
from benchmarks.suite import machine
from benchmarks.suite.docs import replaced
from benchmarks.suite.environment import prepare, say
from benchmarks.suite.places import CACHE, RESULTS, ROOT
from benchmarks.suite.postgres import SETTINGS

PAGE = ROOT / "docs" / "scale.md"
FOLDER = RESULTS / "scale"
PARTS = ("waiting", "busy", "idle", "queues", "payloads", "model")
LEAST_WAITING = 1_000

Row = TypeVar("Row")


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments."""
    parser = argparse.ArgumentParser(prog="benchmarks.scale", description=__doc__)
    parser.add_argument("--parts", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}; all by default")
    parser.add_argument(
        "--most", type=int, default=1_000_000, help="jobs that wait; 1000000 by default, at most 10000000"
    )
    parser.add_argument("--workers", type=int, default=64, help="processes at most; 64 by default")
    parser.add_argument("--queues", type=int, default=1_000_000, help="serial queues at most; 1000000 by default")
    parser.add_argument("--bytes", type=int, default=1_000_000, help="of a payload at most; 1000000 by default")
    parser.add_argument("--jobs", type=int, default=100_000, help="of a drain; 100000 by default")
    parser.add_argument("--out", type=Path, help="the result file; in benchmarks/results/scale by default")
    parser.add_argument("--show", type=Path, help="write the table of a result file again, and measure nothing")
    parser.add_argument("--docs", action="store_true", help="with --show: into docs/scale.md too")
    args = parser.parse_args(words)
    args.parts = args.parts.split(",")
    if unknown := set(args.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}: it is one of {', '.join(PARTS)}")
    return args


def main(words: Sequence[str] | None = None) -> int:
    """Measure, or show an earlier result."""
    given = sys.argv[1:] if words is None else list(words)
    args = arguments(given)
    if args.show:
        publish(Scale.load(args.show), args.show, in_docs=args.docs)
        return 0
    if "asyncq" not in prepare({"asyncq"}):
        return 1
    now = datetime.now(UTC)
    [binaries, *_] = sorted(available_binaries(), key=lambda found: found.numbers, reverse=True)
    result = Scale(
        date=now.strftime("%Y-%m-%d %H:%M"),
        machine=machine.name(),
        command=command(given),
        conditions=machine.conditions(binaries.version, "uvloop"),
    )
    try:
        with start(binaries=binaries, fsync=True, settings=SETTINGS) as server:
            say(f"PostgreSQL {binaries.version}: {', '.join(args.parts)}")

            async def run() -> None:
                async with place(server) as ours:
                    await measure(ours, args, result)

            asyncio.run(run())
    finally:
        result.save(CACHE / "last-scale.json")  # the results so far, even after a failure
    path = args.out or FOLDER / f"{now:%Y-%m-%d}-{result.machine}.json"
    result.save(path)
    publish(result, path)
    return 0


async def measure(place: Place, args: argparse.Namespace, result: Scale) -> None:
    """All parts that were asked for."""
    wanted = set(args.parts)
    if "waiting" in wanted:
        await note(waiting(place, steps(LEAST_WAITING, args.most, 10)), result.waiting)
    if "busy" in wanted:
        await note(busy(place, steps(1, args.workers, 2), args.jobs), result.busy)
    if "idle" in wanted:
        await note(idle(place, steps(1, args.workers, 4)), result.idle)
    if "queues" in wanted:
        await note(queues(place, steps(1, args.queues, 10)), result.queues)
    if "payloads" in wanted:
        await note(payloads(place, steps(10, args.bytes, 10)), result.payloads)
    if "model" in wanted:
        checker = Checker(place, args.jobs)
        result.parts, result.checks = await checker.parts()
        await note(checker.checks(result.parts), result.checks)
        result.estimates = model.estimates(result.parts)


async def note(found: AsyncGenerator[Row], rows: list[Row]) -> None:
    """Keep each result, and show it."""
    async for each in found:
        rows.append(each)
        print(each, flush=True)


def steps(first: int, last: int, factor: int) -> list[int]:
    """The steps from the first number to the last, each a multiple of the one before, except the last."""
    found = [first]
    while found[-1] * factor < last:
        found.append(found[-1] * factor)
    return [*found, last] if last > first else found


def command(words: Sequence[str]) -> str:
    """The command line, without the name of the output file."""
    kept = [word for at, word in enumerate(words) if "--out" not in (word, *words[max(at - 1, 0) : at])]
    return f"make bench-scale ARGS={shlex.quote(shlex.join(kept))}" if kept else "make bench-scale"


def publish(result: Scale, path: Path, *, in_docs: bool = False) -> None:
    """Write the tables beside the result, print them, and put them into the documentation."""
    made = report(result)
    path.with_suffix(".md").write_text(made)
    print(made)
    if in_docs:
        origin = f"From `benchmarks/results/scale/{path.name}`:"
        PAGE.write_text(replaced(PAGE.read_text(), "scale", f"{origin} {made}"))
    say(f"written: {path.name}, and .md beside it")


if __name__ == "__main__":
    raise SystemExit(main())
