"""The result of a suite: every run, and the figures computed from them. No I/O but the file."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

MAIN = "main"


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run.

    Args:
        line: The conditions that it belongs to: `main`, or those of a further line.
        rotation: Its number, from 1.
        lap: Its number in the rotation, if all do the work more than once in it.
        work: The kind of work.
        peer: The queue.
        variant: The name of its settings.
        size: The number of jobs.
        value: The figure; None for a run that failed a check.
        failure: The failed check.
        took_s: How long all of it took, with its preparation.
        details: Further figures.
    """

    line: str
    rotation: int
    work: str
    peer: str
    variant: str
    size: int
    value: float | None = None
    failure: str = ""
    took_s: float = 0.0
    lap: int = 1
    details: dict[str, Any] = {}


class Result(msgspec.Struct, kw_only=True):
    """A result file.

    Args:
        date: Of the start, in UTC.
        machine: A description without names of hosts or people.
        command: The command line.
        lines: Name -> versions and settings.
        versions: Package -> version, by queue.
        settings: Queue -> variant -> settings.
        ratios: The headline figures: those of the main line, ours to theirs, of medians.
        ranges: The same ratios, least and greatest over the rotations.
        others: Ratios of the further lines.
        below: Peers that were slower than their recorded share of the floor: the run does not count.
        runs: Every run.
    """

    date: str
    machine: str
    command: str
    lines: dict[str, dict[str, str]]
    versions: dict[str, dict[str, str]]
    settings: dict[str, dict[str, dict[str, Any]]]
    ratios: dict[str, float] = {}
    others: dict[str, dict[str, float]] = {}
    ranges: dict[str, tuple[float, float]] = {}
    below: list[str] = []
    runs: list[Entry] = []

    def save(self, path: Path) -> None:
        """Write it as JSON, a run a line."""
        text = msgspec.json.encode(msgspec.structs.replace(self, runs=[])).decode()
        body = msgspec.json.format(text, indent=2).removesuffix('"runs": []\n}')
        runs = ",\n".join(f"    {msgspec.json.encode(run).decode()}" for run in self.runs)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{body}"runs": [\n{runs}\n  ]\n}}\n')

    @classmethod
    def load(cls, path: Path) -> Result:
        """Read one."""
        return msgspec.json.decode(path.read_bytes(), type=cls)


class Series:
    """The figures of one queue with one variant in one work of one line, by rotation and lap."""

    def __init__(self, entries: Iterable[Entry], field: str = "value") -> None:
        self.by_lap: dict[tuple[int, int], float] = {}
        for entry in entries:
            value = entry.value if field == "value" else entry.details.get(field)
            if entry.value is not None and value is not None:
                self.by_lap[entry.rotation, entry.lap] = value

    def __bool__(self) -> bool:
        return bool(self.by_lap)

    def of(self, laps: Collection[tuple[int, int]]) -> Series:
        """Those of some laps."""
        chosen = Series(())
        chosen.by_lap = {lap: self.by_lap[lap] for lap in laps}
        return chosen

    @property
    def values(self) -> Sequence[float]:
        """In the order of the laps."""
        return list(self.by_lap.values())

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.values)

    @property
    def spread(self) -> tuple[float, float]:
        """The least and the greatest."""
        return min(self.values), max(self.values)


def series(runs: Iterable[Entry], line: str, work: str, peer: str, variant: str, field: str = "value") -> Series:
    """Find the figures of one queue."""
    wanted = (line, work, peer, variant)
    return Series((run for run in runs if (run.line, run.work, run.peer, run.variant) == wanted), field)


def ratio(ours: Series, theirs: Series) -> tuple[float, tuple[float, float]] | None:
    """Our figure divided by theirs: of the medians, and the range over the laps that have both."""
    if not ours or not theirs:
        return None
    both = ours.by_lap.keys() & theirs.by_lap.keys()
    if not both:
        of_medians = ours.median / theirs.median
        return of_medians, (of_medians, of_medians)
    ours, theirs = ours.of(both), theirs.of(both)
    each = [ours.by_lap[lap] / theirs.by_lap[lap] for lap in both]
    return ours.median / theirs.median, (min(each), max(each))
