"""One line of the suite: every queue does every work, in turn, as often as there are rotations."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

import asyncpg
import msgspec

from benchmarks.peers.peer import Peer
from benchmarks.peers.registry import FLOOR, OURS
from benchmarks.suite.places import Unfit
from benchmarks.suite.result import Entry
from benchmarks.suite.stage import Stage, Work, has_turn
from benchmarks.suite.works import WORKS


class Turn(NamedTuple):
    """One run in a lap of its work; `plain` jobs are drained before it, if any."""

    work: str
    peer: Peer
    variant: str
    size: int
    plain: int = 0
    lap: int = 1


def turns(
    peers: Collection[Peer], works: Collection[str], rotation: int, rotations: int, scale: float
) -> Iterator[Turn]:
    """The runs of a rotation, counted from 0: work by work, lap by lap; another queue comes first each time."""
    for name, work in WORKS.items():
        if name not in works:
            continue
        entered = [
            Turn(name, peer, variant, scaled(size, scale), scaled(plain_jobs(peer, variant, work, size), scale))
            for peer in peers
            if has_turn(peer.turns, rotation, rotations)
            for variant, size in peer.entries.get(name, {}).items()
        ]
        closest = [turn for turn in entered if turn.peer in (OURS, FLOOR)]
        for lap, taking_part in enumerate([entered] * work.laps + [closest] * work.laps_with_floor):
            first = (rotation + lap) % max(1, len(taking_part))
            yield from (turn._replace(lap=lap + 1) for turn in taking_part[first:] + taking_part[:first])


def plain_jobs(peer: Peer, variant: str, work: Work, size: int) -> int:
    """The number of jobs of the drain before a work; 0 without one.

    It is at most that of the work: each has one start.
    """
    return min(size, peer.entries["drain"][variant]) if work.beside_plain else 0


def scaled(size: int, scale: float) -> int:
    """Scale a work, in whole thousands if it had those: bulk adds come in chunks."""
    if scale == 1 or size < 1_000:
        return size
    unit = 10_000 if size >= 50_000 else 100
    return max(unit, round(size * scale / unit) * unit)


async def run(turn: Turn, stage: Stage, line: str, rotation: int) -> Entry:
    """Run one turn; a failed check is its result, and the others continue."""
    made = Entry(
        line=line,
        rotation=rotation,
        lap=turn.lap,
        work=turn.work,
        peer=turn.peer.name,
        variant=turn.variant,
        size=turn.size,
    )
    try:
        plain = turn.plain and await WORKS["drain"].run(stage, turn.peer, turn.variant, turn.plain)
        seen = await WORKS[turn.work].run(stage, turn.peer, turn.variant, turn.size)
    except (Unfit, OSError, asyncpg.PostgresError, asyncio.IncompleteReadError) as error:
        return msgspec.structs.replace(made, failure=f"{type(error).__name__}: {error}"[:2_000])
    if plain:
        seen |= {"plain": plain["value"], "of_plain": seen["value"] / plain["value"]}
    details = {name: value for name, value in seen.items() if name != "value" and not name.startswith("_")}
    return msgspec.structs.replace(made, value=seen["value"], details=details)


async def rotate(
    stage: Stage,
    line: str,
    peers: Collection[Peer],
    works: Collection[str],
    rotations: int,
    scale: float,
    note: Callable[[Entry], None],
) -> None:
    """Run all rotations of a line; `note` gets each run at its end."""
    for rotation in range(rotations):
        for turn in turns(peers, works, rotation, rotations, scale):
            began = time.monotonic()
            entry = await run(turn, stage, line, rotation + 1)
            note(msgspec.structs.replace(entry, took_s=round(time.monotonic() - began, 1)))
