"""What the handlers of the chaos suite wrote down, and what is judged by it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path


@dataclass
class Run:
    """A run of a handler; times are those of the machine's monotonic clock, in nanoseconds.

    Attributes:
        process: Which worker process it ran in.
        ending: "completed", "failed", "cancelled", or "" if its process died under it.
    """

    number: int
    queue: str
    process: int
    began: int
    ended: int = 0
    ending: str = ""


@dataclass
class Fate:
    """What was done to a worker process.

    Attributes:
        died: When it was killed, or ended.
        stalled: From when to when it was stopped for so long that others may have taken over.
    """

    died: int = 0
    stalled: list[tuple[int, int]] = field(default_factory=list)

    def was_stalled(self, run: Run) -> bool:
        """Whether it was stopped for long during a run, or between its end and the settlement."""
        return any(began <= run.ended + 1_000_000_000 and run.began <= ended for began, ended in self.stalled)


def read(paths: Iterable[tuple[int, Path, Fate]]) -> list[Run]:
    """The runs of all processes, in the order in which they began."""
    runs: list[Run] = []
    for process, path, fate in paths:
        open_runs: dict[int, Run] = {}
        for line in path.read_text().splitlines():
            word, number, queue, at = line.split(" ")
            if word == "begin":
                runs.append(run := Run(int(number), queue, process, int(at), fate.died))
                open_runs[run.number] = run
            else:
                ended = open_runs.pop(int(number))
                ended.ended, ended.ending = int(at), word
    return sorted(runs, key=lambda run: run.began)


def never_ran(numbers: Iterable[int], runs: Iterable[Run]) -> list[int]:
    """Jobs that were committed and never completed."""
    return sorted({*numbers} - {run.number for run in runs if run.ending == "completed"})


def overlapping(runs: Iterable[Run], fates: dict[int, Fate]) -> list[tuple[Run, Run]]:
    """Two runs of one job, or of one serial queue, at once, although nobody was stalled."""
    groups: defaultdict[object, list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.number].append(run)
        if run.queue != "-":
            groups[run.queue].append(run)
    return [
        (earlier, later)
        for group in groups.values()
        for earlier, later in pairwise(group)
        if later.began < earlier.ended and not fates[earlier.process].was_stalled(earlier)
    ]


def repeated(runs: Iterable[Run], fates: dict[int, Fate]) -> Iterator[tuple[Run, Run]]:
    """Yield completed runs that another run of the job followed, although its process lived on and was not stalled."""
    last: dict[int, Run] = {}
    for run in runs:
        earlier = last.get(run.number)
        if earlier is not None and earlier.ending == "completed":
            fate = fates[earlier.process]
            if not fate.was_stalled(earlier) and not 0 < fate.died < run.began:
                yield earlier, run
        last[run.number] = run
