"""The results of the demo: read from its tables, written as a table or as JSON."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from examples.demo import tables as ask
from examples.demo.files import STDLIB
from examples.demo.tables import Tables


class Longest(msgspec.Struct, frozen=True):
    """A long function."""

    lines: int
    name: str
    file: str
    line: int


class Tally(msgspec.Struct, frozen=True):
    """The serial queue: the jobs, the workers, and how many jobs began before the end of the one before."""

    jobs: int
    workers: int
    overlaps: int


class Priority(msgspec.Struct, frozen=True):
    """The jobs that were added last with priority, and their places in the order of all starts."""

    jobs: int
    first: int
    last: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a demo; times in seconds."""

    python: str
    folder: str
    server: str
    files: int
    lines: int
    words: int
    imports: int
    problems: dict[str, str]
    longest: list[Longest]
    tally: Tally
    priority: Priority
    retry_attempts_after_s: list[float]
    future_late_s: float
    jobs: int
    seconds: float
    jobs_per_second: float
    workers: list[int]


async def read_report(tables: Tables, server: str, urgent: Sequence[str]) -> Report:
    """Read the results.

    Args:
        tables: The demo's tables, when all jobs are done.
        server: The name of the server.
        urgent: The files whose jobs had priority.

    Returns:
        The report.
    """
    totals = (await tables.rows(ask.TOTALS))[0]
    tally = Tally(**(await tables.rows(ask.TALLIES))[0])
    place = (await tables.rows(ask.PLACES, list(urgent)))[0]
    speed = (await tables.rows(ask.SPEED))[0]
    attempts = [row["after"] for row in await tables.rows(ask.ATTEMPTS)]
    jobs = speed["jobs"] + tally.jobs + len(attempts) + 1
    return Report(
        python=platform.python_version(),
        folder=str(STDLIB),
        server=server,
        **totals,
        problems={row["file"]: row["problem"] for row in await tables.rows(ask.PROBLEMS)},
        longest=[Longest(**row) for row in await tables.longest()],
        tally=tally,
        priority=Priority(len(urgent), place["first"], place["last"]),
        retry_attempts_after_s=attempts,
        future_late_s=(await tables.rows(ask.APPOINTMENT))[0]["late"],
        jobs=jobs,
        seconds=speed["seconds"],
        jobs_per_second=speed["jobs"] / max(speed["seconds"], 0.001),
        workers=[row["jobs"] for row in await tables.rows(ask.SHARES)],
    )


def as_json(report: Report) -> str:
    """The report as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()


def as_text(report: Report) -> Iterator[str]:
    """The report as lines for a reader."""
    yield "The longest functions"
    yield "  lines  name"
    for found in report.longest:
        yield f"{found.lines:>7,}  {found.name}, {found.file}:{found.line}"
    yield ""
    yield (
        f"totals    {report.files:,} files, {report.lines:,} lines, {report.words:,} words, {report.imports:,} imports"
    )
    problems = sorted(Counter(report.problems.values()).items())
    if problems:
        yield "          " + ", ".join(f"{number} {_verb(problem, number)}" for problem, number in problems)
    tally, priority = report.tally, report.priority
    series = f"{tally.overlaps} OVERLAPPED" if tally.overlaps else "no two at once"
    yield f"queue     {tally.jobs} packages tallied in series, {series}, by {tally.workers} of the workers"
    yield f"priority  the {priority.jobs} jobs added last started as number {priority.first} to {priority.last}"
    times = ", ".join(f"{after:.2f}" for after in report.retry_attempts_after_s)
    yield f"retry     `stumble` failed twice, then succeeded: tried at {times} s"
    yield f"schedule  the job for later started {report.future_late_s * 1000:.0f} ms after its due time"
    shares = " + ".join(f"{jobs:,}" for jobs in report.workers)
    yield (
        f"speed     {report.jobs_per_second:,.0f} jobs a second, {shares} by worker: {report.files:,} files parsed in "
        f"{report.seconds:.1f} s"
    )


def _verb(problem: str, number: int) -> str:
    """`does not parse` of one, `do not parse` of several."""
    return problem if number == 1 else problem.replace("does ", "do ")
