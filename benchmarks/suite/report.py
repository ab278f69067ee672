"""A result for people, in Markdown: the headline figures beside their goals, then medians by work. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.peers.registry import ALL, FLOOR, OURS
from benchmarks.suite.ratios import HEADLINES
from benchmarks.suite.result import MAIN, Entry, Result, Series, series
from benchmarks.suite.works import WORKS


def report(result: Result) -> str:
    """The whole text."""
    parts = [conditions(result), headlines(result)]
    for line in result.lines:
        title = "All runs" if line == MAIN else f"The same on {line}"
        parts.append(f"## {title}\n\n{table(result.runs, line)}")
    parts.append(failures(result))
    return "\n\n".join(part for part in parts if part) + "\n"


def conditions(result: Result) -> str:
    """The conditions of the measurement."""
    main = ", ".join(f"{name} {value}" for name, value in result.lines.get(MAIN, {}).items())
    rotations = max((run.rotation for run in result.runs), default=0)
    return f"`{result.command}` on {result.date}, {result.machine}; {rotations} rotations; {main}."


def headlines(result: Result) -> str:
    """The figures with goals; figures of further lines in columns of their own."""
    further = [line for line in result.lines if line != MAIN]
    lines = [
        row("figure", "goal", "median", "range", *further),
        row("---", "---", "---:", "---:", *("---:" for _ in further)),
    ]
    for each in HEADLINES:
        if each.name not in result.ratios:
            continue
        value = result.ratios[each.name]
        low, high = result.ranges[each.name]
        others = [result.others.get(line, {}).get(each.name) for line in further]
        sign = "" if each.goal is None else f"{'>=' if each.better == 'more' else '<='} {each.goal:g}"
        told = number(value) if each.is_met(value) in (None, True) else f"**{number(value)}** (missed)"
        shown = ["" if other is None else number(other) for other in others]
        lines.append(row(each.words, sign, told, f"{number(low)} - {number(high)}", *shown))
    return "\n".join(lines)


def table(runs: Sequence[Entry], line: str) -> str:
    """Medians with their range, and the ratio to the floor, by work; the best first."""
    lines = [
        row("work", "queue", "median", "range", "to the floor", "runs"),
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for work in WORKS:
        floor = series(runs, line, work, FLOOR.name, "best")
        for peer, variant, found in ranked(runs, line, work):
            low, high = found.spread
            share = f"{found.median / floor.median:.2f}" if floor else ""
            name = ALL[peer].title if len(ALL[peer].variants) == 1 else f"{ALL[peer].title} ({variant})"
            title = f"{WORKS[work].code} {WORKS[work].title}, {WORKS[work].unit}"
            shown = f"**{name}**" if peer == OURS.name else name
            lines.append(
                row(
                    title, shown, number(found.median), f"{number(low)} - {number(high)}", share, str(len(found.values))
                )
            )
    return "\n".join(lines)


def ranked(runs: Sequence[Entry], line: str, work: str) -> list[tuple[str, str, Series]]:
    """The queues that took part with success, the best first."""
    entered = sorted({(run.peer, run.variant) for run in runs if (run.line, run.work) == (line, work)})
    found = [
        (peer, variant, figures) for peer, variant in entered if (figures := series(runs, line, work, peer, variant))
    ]
    return sorted(found, key=lambda each: each[2].median, reverse=WORKS[work].better == "more")


def failures(result: Result) -> str:
    """The runs that do not count, with their reasons."""
    return "\n".join(f"- {line}" for line in _failures(result))


def _failures(result: Result) -> Iterator[str]:
    for words in result.below:
        yield f"below its recorded share, so that this run does not count: {words}"
    for run in result.runs:
        if run.failure:
            where = f"{run.line}, {run.work}, {run.peer} ({run.variant}), rotation {run.rotation}, lap {run.lap}"
            yield f"failed: {where}: {run.failure[:200]}"


def row(*cells: str) -> str:
    """A line of a table."""
    return f"| {' | '.join(cells)} |"


def number(value: float) -> str:
    """Format a number with its significant digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}" if abs(value) >= 20 else f"{value:.2f}"
