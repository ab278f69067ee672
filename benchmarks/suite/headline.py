"""A headline figure: what it divides by what, and its goal. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.peers.registry import OURS
from benchmarks.suite.result import MAIN, Entry, Series, ratio, series
from benchmarks.suite.works import WORKS

Range = tuple[float, float]
GRACE = 0.05  # how far a figure may miss its goal: two runs differ by as much


@dataclass(frozen=True, kw_only=True)
class Headline:
    """One figure.

    Args:
        name: Its key in the result.
        words: Its description.
        goal: The goal; None for a figure that is only informative.
        better: Which side of the goal is the right one.
        work: The work of asyncq.
        field: The figure of the work, or one of its details.
        theirs: The queues by the best of which it is divided; none for the figure itself.
        variant: Only this variant of theirs; any by default.
        their_work: The work of these queues, if it differs.
    """

    name: str
    words: str
    goal: float | None
    better: Literal["more", "less"] = "more"
    work: str
    field: str = "value"
    theirs: tuple[str, ...] = ()
    variant: str | None = None
    their_work: str = ""

    def figure(self, runs: Sequence[Entry], line: str = MAIN) -> tuple[float, Range] | None:
        """The figure and its range over the rotations; None without the runs for it."""
        ours = series(runs, line, self.work, OURS.name, "default", self.field)
        if not ours:
            return None
        if not self.theirs:
            return ours.median, ours.spread
        theirs = self.rival(runs, line)
        return None if theirs is None else ratio(ours, theirs)

    def rival(self, runs: Sequence[Entry], line: str) -> Series | None:
        """The best of those that we are compared with."""
        work = self.their_work or self.work
        named = {(run.peer, run.variant) for run in runs if run.work == work and run.peer in self.theirs}
        chosen = [
            found
            for peer, variant in sorted(named)
            if self.variant in (None, variant) and (found := series(runs, line, work, peer, variant, self.field))
        ]
        best = max if WORKS[work].better == "more" else min
        return best(chosen, key=lambda found: found.median) if chosen else None

    def is_met(self, value: float) -> bool | None:
        """Whether the goal is reached, or nearly; None where there is none."""
        if self.goal is None:
            return None
        return value >= self.goal * (1 - GRACE) if self.better == "more" else value <= self.goal * (1 + GRACE)
