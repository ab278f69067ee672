"""Invented results."""

from collections.abc import Iterator

from benchmarks.suite.result import MAIN, Entry, Result


def runs(
    work: str, peer: str, variant: str, *values: float | None, line: str = MAIN, **details: float
) -> Iterator[Entry]:
    """One run a rotation, each with its figure; None is a run that failed."""
    for rotation, value in enumerate(values, 1):
        failure = "" if value is not None else "lost a job"
        yield Entry(
            line=line,
            rotation=rotation,
            work=work,
            peer=peer,
            variant=variant,
            size=100,
            value=value,
            failure=failure,
            details=dict(details),
        )


def result(*runs: Entry, ratios: dict[str, tuple[float, float, float]] | None = None) -> Result:
    """A result with these runs, and these figures with their ranges."""
    given = ratios or {}
    return Result(
        date="2026-01-02 03:04",
        machine="2-cores",
        command="make bench",
        lines={MAIN: {"PostgreSQL": "18.4", "loop": "uvloop"}},
        versions={},
        settings={},
        ratios={name: median for name, (median, _, _) in given.items()},
        ranges={name: (low, high) for name, (_, low, high) in given.items()},
        runs=list(runs),
    )
