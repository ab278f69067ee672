"""The picture of a result: the rate of each queue against asyncq as bars, in one SVG file without scripts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from benchmarks.peers.registry import ALL, OURS
from benchmarks.suite.report import number, ranked
from benchmarks.suite.result import MAIN, Result

PANELS = (
    ("drain", "Jobs a second, one process", "jobs/s, more is better"),
    ("bulk_1000", "Bulk adds, 1,000 at a time", "jobs/s, more is better"),
    ("latency", "From add to start of handler, idle", "median in ms, less is better"),
)
MOST_BARS = 11
WIDTH, LABEL, BAR, GAP, TITLE = 760, 190, 18, 8, 46
VALUE = 150  # room right of the longest bar
COLOURS = {"ours": "#2f6f4f", "floor": "#c9c9c9", "theirs": "#8aa4bd"}
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#222}.title{font-weight:600;font-size:15px}.unit,.range{fill:#666}"
    ".range-line{stroke:#222;stroke-width:1}"
    "@media(prefers-color-scheme:dark){text{fill:#eee}.unit,.range{fill:#aaa}.range-line{stroke:#eee}}"
)


def picture(result: Result) -> str:
    """Draw a panel for each work, and a bar for each queue at its best settings.

    A thin line is the range of the rotations.
    """
    body: list[str] = []
    top = 8
    for work, title, unit in PANELS:
        bars = best_of_each(result, work)
        if not bars:
            continue
        body.extend(panel(bars, title, unit, top))
        top += TITLE + len(bars) * (BAR + GAP) + 10
    foot = f"{result.machine}, {result.date}; each bar the median, beside it the ratio to asyncq in the same run"
    body.append(text(8, top + 8, foot, "unit"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + 20}" role="img" '
        f'aria-label="asyncq beside other queues">\n<style>{STYLE}</style>\n' + "\n".join(body) + "\n</svg>\n"
    )


Bar = tuple[str, str, float, tuple[float, float]]


def best_of_each(result: Result, work: str) -> list[Bar]:
    """A bar for each queue: its best variant in this work."""
    bars: dict[str, Bar] = {}
    for peer, _, found in ranked(result.runs, MAIN, work):
        bars.setdefault(peer, (peer, ALL[peer].title, found.median, found.spread))
    shown = list(bars.values())
    kept = [bar for bar in shown if bar[0] == OURS.name] + [bar for bar in shown if bar[0] != OURS.name][
        : MOST_BARS - 1
    ]
    return [bar for bar in shown if bar in kept]


def panel(bars: Sequence[Bar], title: str, unit: str, top: int) -> Iterator[str]:
    """The elements of one work."""
    most = max(high for _, _, _, (_, high) in bars)
    scale = (WIDTH - LABEL - VALUE) / most
    ours = next((median for peer, _, median, _ in bars if peer == OURS.name), None)
    yield text(8, top + 16, title, "title")
    yield text(8, top + 33, unit, "unit")
    for place, (peer, name, median, (low, high)) in enumerate(bars):
        y = top + TITLE + place * (BAR + GAP)
        middle = y + BAR / 2
        kind = "ours" if peer == OURS.name else "floor" if peer == "floor" else "theirs"
        yield text(LABEL - 8, y + 14, name, anchor="end")
        yield f'<rect x="{LABEL}" y="{y}" width="{median * scale:.1f}" height="{BAR}" fill="{COLOURS[kind]}"/>'
        yield (
            f'<line class="range-line" x1="{LABEL + low * scale:.1f}" x2="{LABEL + high * scale:.1f}" '
            f'y1="{middle}" y2="{middle}"/>'
        )
        told = number(median) if ours is None else f"{number(median)}  ({median / ours:.2f} x)"
        yield text(LABEL + high * scale + 8, y + 14, told)


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """A line of text."""
    of_kind = f' class="{kind}"' if kind else ""
    at_end = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:.1f}" y="{y}"{of_kind}{at_end}>{escape(words)}</text>'
