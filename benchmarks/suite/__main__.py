"""`python -m benchmarks.suite`: asyncq and its peers on the same work, server, machine and run; see `--help`."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from asyncq.server import Binaries, available_binaries, start
from benchmarks.peers.peer import Peer
from benchmarks.peers.registry import ALL, FLOOR, OURS
from benchmarks.suite import compare, docs, machine
from benchmarks.suite.environment import prepare, redis_is_here, say, versions
from benchmarks.suite.picture import picture
from benchmarks.suite.places import CACHE, RESULTS
from benchmarks.suite.postgres import SETTINGS, postgres
from benchmarks.suite.ratios import figures
from benchmarks.suite.recorded import below
from benchmarks.suite.redis import redis
from benchmarks.suite.report import number, report
from benchmarks.suite.result import MAIN, Entry, Result
from benchmarks.suite.rotation import rotate
from benchmarks.suite.stage import Stage
from benchmarks.suite.works import WORKS

FURTHER_WORKS = ("drain", "drain_2", "latency", "add_1", "add_10", "bulk_1000")
QUICK_WORKS = ("drain", "latency", "add_1", "bulk_1000", "serial", "stuck")


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the arguments."""
    parser = argparse.ArgumentParser(prog="benchmarks.suite", description=__doc__)
    parser.add_argument("--works", help=f"some of {', '.join(WORKS)}, or their numbers such as W3; all by default")
    parser.add_argument("--peers", help=f"some of {', '.join(ALL)}; all by default, and asyncq and the floor always")
    parser.add_argument("--rounds", type=int, default=5, help="rotations; 5 by default")
    parser.add_argument(
        "--further", type=int, default=3, help="rotations of the further lines; 3 by default, 0 for none"
    )
    parser.add_argument("--quick", action="store_true", help="asyncq and the floor alone, little work, one rotation")
    parser.add_argument("--out", type=Path, help="the result file; benchmarks/results/<date>-<machine>.json by default")
    parser.add_argument("--show", type=Path, help="write table and picture of a result file again, and measure nothing")
    parser.add_argument("--docs", action="store_true", help="with --show: into the documentation too")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("OLD", "NEW"), help="compare two result files")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Measure, or show an earlier result; 1 if a figure became worse or the run does not count."""
    args = arguments(words)
    if args.compare:
        changes = compare.compare(*(Result.load(path) for path in args.compare))
        print(compare.lines(changes))
        return int(any(change.verdict == "worse" for change in changes))
    if args.show:
        shown = Result.load(args.show)
        if shown.below:  # The rule may have changed since.
            shown.below = below(shown.runs)
            shown.save(args.show)
        publish(shown, args.show)
        if args.docs:
            docs.publish(shown, args.show)
        return 0
    result = Result(
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        machine=machine.name(),
        command=command(sys.argv[1:] if words is None else words),
        lines={},
        versions={},
        settings={},
    )
    try:
        measure(args, result)
    finally:
        result.save(CACHE / "last.json")  # the results so far, even after a failure
    result.below = [] if args.quick else below(result.runs)
    if args.quick:
        print(report(result))
        return int(any(run.failure for run in result.runs))
    path = args.out or RESULTS / f"{result.date[:10]}-{result.machine}.json"
    result.save(path)
    publish(result, path)
    return int(bool(result.below))


def command(words: Sequence[str]) -> str:
    """The command line, without the name of the output file."""
    kept = [word for place, word in enumerate(words) if "--out" not in (word, *words[max(place - 1, 0) : place])]
    return f"make bench ARGS={shlex.quote(shlex.join(kept))}" if kept else "make bench"


def publish(result: Result, path: Path) -> None:
    """Write the table and the picture beside the result, and print the table."""
    made = report(result)
    path.with_suffix(".md").write_text(made)
    path.with_suffix(".svg").write_text(picture(result))
    print(made)
    say(f"written: {path.name}, and .md and .svg beside it")


def chosen_works(asked: str | None, quick: bool) -> list[str]:
    """The works with these names or numbers."""
    if asked is None:
        return [name for name in QUICK_WORKS if name in WORKS] if quick else list(WORKS)
    wanted = set(asked.split(","))
    found = [name for name, work in WORKS.items() if name in wanted or work.code in wanted]
    if unknown := wanted - set(found) - {work.code for work in WORKS.values()}:
        raise SystemExit(f"there is no work {', '.join(sorted(unknown))}: it is one of {', '.join(WORKS)}")
    return found


def chosen_peers(asked: str | None, quick: bool, works: Sequence[str]) -> list[Peer]:
    """The queues that take part and whose environments can be set up."""
    names = set(ALL) if asked is None else {*asked.split(","), OURS.name, FLOOR.name}
    if unknown := names - set(ALL):
        raise SystemExit(f"there is no queue {', '.join(sorted(unknown))}: it is one of {', '.join(ALL)}")
    peers = [OURS, FLOOR] if quick else [peer for name, peer in ALL.items() if name in names]
    peers = [peer for peer in peers if any(work in peer.entries for work in works)]
    ready = prepare({peer.home for peer in peers})
    peers = [peer for peer in peers if peer.home in ready]
    if any(peer.store == "redis" for peer in peers) and not redis_is_here():
        peers = [peer for peer in peers if peer.store != "redis"]
    return peers


def measure(args: argparse.Namespace, result: Result) -> None:
    """All lines."""
    works = chosen_works(args.works, args.quick)
    peers = chosen_peers(args.peers, args.quick, works)
    result.versions = {peer.name: versions(peer.home, peer.packages) for peer in peers}
    result.settings = {peer.name: {name: dict(each) for name, each in peer.variants.items()} for peer in peers}
    servers = sorted(available_binaries(), key=lambda found: found.numbers, reverse=True)
    rounds, scale = (1, 0.2) if args.quick else (args.rounds, 1.0)
    line(result, MAIN, servers[0], "uvloop", peers, works, rounds, scale)
    ours = [peer for peer in peers if peer in (OURS, FLOOR)]
    fewer = [work for work in FURTHER_WORKS if work in works]
    if args.quick or not args.further or not fewer:
        return
    line(result, "asyncio's own loop", servers[0], "asyncio", ours, fewer, args.further, scale)
    if older := next((found for found in servers if found.origin == "system" and found != servers[0]), None):
        line(result, f"PostgreSQL {older.major}", older, "uvloop", ours, fewer, args.further, scale)


def line(
    result: Result,
    name: str,
    binaries: Binaries,
    loop: str,
    peers: Sequence[Peer],
    works: Sequence[str],
    rounds: int,
    scale: float,
) -> None:
    """Measure one line, and add it to the result."""
    say(f"{name}: PostgreSQL {binaries.version}, {loop}, {rounds} rotations of {', '.join(works)}")
    result.lines[name] = machine.conditions(binaries.version, loop)

    def note(entry: Entry) -> None:
        result.runs.append(entry)
        told = "FAILED" if entry.value is None else number(entry.value)
        who = f"{entry.work:<16}{entry.peer:<14}{entry.variant:<10}"
        print(f"{entry.rotation:>3}  {who}{told:>10}{entry.took_s:>8.1f} s", flush=True)

    with ExitStack() as stack:
        server = stack.enter_context(start(binaries=binaries, fsync=True, settings=SETTINGS))
        with_redis = any(peer.store == "redis" for peer in peers)
        kept, durable = (
            stack.enter_context(redis(durable=durable)) if with_redis else None for durable in (False, True)
        )
        if kept:
            result.lines[name]["Redis"] = kept.version

        async def run() -> None:
            async with postgres(server) as databases:
                stage = Stage(postgres=databases, redis=kept, durable=durable, loop=loop)
                await rotate(stage, name, peers, works, rounds, scale, note)

        asyncio.run(run())
    made = figures(result.runs, name)
    if name == MAIN:
        result.ratios = {key: value for key, (value, _) in made.items()}
        result.ranges = {key: spread for key, (_, spread) in made.items()}
    else:
        result.others[name] = {key: value for key, (value, _) in made.items()}


if __name__ == "__main__":
    raise SystemExit(main())
