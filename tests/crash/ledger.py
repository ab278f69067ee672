"""The runs that handlers of the chaos suite record, and the checks that judge them."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

Spans = list[tuple[int, int]]
# A run that has ended is settled within that time, on a machine that has much else to do.
SETTLED_NS = 2_000_000_000
# A process that was stopped for long cancels its handlers within this time after it continues.
WOKEN_NS = 1_000_000_000


@dataclass
class Run:
    """A run of a handler; times are those of the machine's monotonic clock, in nanoseconds.

    Attributes:
        process: Which worker process it ran in.
        began_at: When it began by the machine's clock, in nanoseconds since 1970.
        attempt: Which attempt it was.
        ending: "completed", "failed", "cancelled", or "" if its process died under it.
    """

    number: int
    queue: str
    process: int
    began: int
    began_at: int
    attempt: int
    ended: int = 0
    ending: str = ""


@dataclass
class Fate:
    """The faults that a worker process suffered.

    Attributes:
        died: When it was killed, or ended.
        stalled: From when to when it was stopped for so long that others may have taken over.
        cut_off: From when to when it could not reach the server for so long.
        cut: From when to when the server ended its connections, or was down.
    """

    died: int = 0
    stalled: Spans = field(default_factory=list)
    cut_off: Spans = field(default_factory=list)
    cut: Spans = field(default_factory=list)

    def may_overlap(self, run: Run) -> bool:
        """Whether another worker may have run the job at the same time.

        Its process was paused, or had just continued.
        """
        return any(began <= run.ended <= ended + WOKEN_NS and run.began <= ended for began, ended in self.stalled)

    def may_repeat(self, run: Run) -> bool:
        """Whether the process may have been unable to settle a run for so long that others took over."""
        return _touches([*self.stalled, *self.cut_off], run)

    def may_lose_connection(self, run: Run) -> bool:
        """Whether a transaction of a run may have been lost with its connection, which is no attempt."""
        return _touches(self.cut, run)

    def lived_until(self, moment: int) -> bool:
        """Whether the process still lived at a moment."""
        return not 0 < self.died < moment


def _touches(spans: Spans, run: Run) -> bool:
    return any(began <= run.ended + SETTLED_NS and run.began <= ended for began, ended in spans)


def read(paths: Iterable[tuple[int, Path, Fate]]) -> list[Run]:
    """The runs of all processes, in the order in which they began."""
    runs: list[Run] = []
    for process, path, fate in paths:
        # Several of one job where its process was stalled for so long that it took the job from itself.
        open_runs: defaultdict[int, list[Run]] = defaultdict(list)
        for line in path.read_text().splitlines():
            word, number, queue, steady, real, attempt = line.split(" ")
            if word == "begin":
                runs.append(run := Run(int(number), queue, process, int(steady), int(real), int(attempt), fate.died))
                open_runs[run.number].append(run)
            else:
                ended = open_runs[int(number)].pop(0)
                ended.ended, ended.ending = int(steady), word
    return sorted(runs, key=lambda run: run.began)


def never_ran(numbers: Iterable[int], runs: Iterable[Run]) -> list[int]:
    """Jobs that were committed and never completed."""
    return sorted({*numbers} - {run.number for run in runs if run.ending == "completed"})


def overlapping(runs: Iterable[Run], fates: dict[int, Fate], serial: Collection[str]) -> list[tuple[Run, Run]]:
    """Yield overlapping runs of one job, or of one of the serial queues, although no process was stalled."""
    groups: defaultdict[object, list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.number].append(run)
        if run.queue in serial:
            groups[run.queue].append(run)
    return [
        (earlier, later)
        for group in groups.values()
        for earlier, later in pairwise(group)
        if later.began < earlier.ended and not fates[earlier.process].may_overlap(earlier)
    ]


def repeated(runs: Iterable[Run], fates: dict[int, Fate]) -> Iterator[tuple[Run, Run]]:
    """Yield completed runs that another run of the job followed, although its process lived and reached the server."""
    for earlier, later in _followed(runs):
        fate = fates[earlier.process]
        is_rerun = not fate.may_repeat(earlier) and fate.lived_until(later.began)
        if earlier.ending == "completed" and is_rerun:
            yield earlier, later


def early(runs: Iterable[Run], due: Mapping[int, int], moves: Spans) -> list[Run]:
    """Runs that began before their job was due.

    Args:
        runs: The runs.
        due: When jobs are due by the clock of the schema, in nanoseconds since 1970.
        moves: From when on that clock was by how much ahead of the machine's, in nanoseconds.
    """

    def ahead(moment: int) -> int:
        return max((by for since, by in moves if since <= moment), default=0)

    return [run for run in runs if run.began_at + ahead(run.began_at) < due.get(run.number, 0)]


def uncounted(
    runs: Iterable[Run], fates: dict[int, Fate], transactional: Collection[int] = ()
) -> Iterator[tuple[Run, Run]]:
    """Yield pairs of runs of a job where the attempt number of the later one is wrong.

    Attempt numbers never fall. A recorded failure counts as an attempt; a cancelled or returned run need not.

    Args:
        runs: The runs, in the order in which they began.
        fates: The faults that their processes suffered.
        transactional: Jobs that run in a transaction of the worker: if its connection is lost just after their own
            failure, that failure is not recorded.
    """
    for earlier, later in _followed(runs):
        fate = fates[earlier.process]
        is_hindered = earlier.number in transactional and fate.may_lose_connection(earlier)
        is_written = not (is_hindered or fate.may_repeat(earlier))
        was_settled = earlier.ending == "failed" and is_written and fate.lived_until(later.began)
        if later.attempt < earlier.attempt + was_settled:
            yield earlier, later


def lost_starts(runs: Iterable[Run]) -> int:
    """How many attempts were counted beyond the runs that have begun: of jobs that their worker named, and no more."""
    counts: defaultdict[int, int] = defaultdict(int)
    most: dict[int, int] = {}
    for run in runs:
        counts[run.number] += 1
        most[run.number] = max(most.get(run.number, 0), run.attempt)
    return sum(max(0, most[number] - counts[number]) for number in most)


def _followed(runs: Iterable[Run]) -> Iterator[tuple[Run, Run]]:
    """Yield each run that was not the last one of its job, with the next one."""
    last: dict[int, Run] = {}
    for run in runs:
        if (earlier := last.get(run.number)) is not None:
            yield earlier, run
        last[run.number] = run
