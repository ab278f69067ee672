"""Compares two results, and knows the noise: the range of the rotations. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from benchmarks.suite.headline import Headline
from benchmarks.suite.ratios import HEADLINES
from benchmarks.suite.report import number
from benchmarks.suite.result import Result

Verdict = Literal["same", "perhaps better", "perhaps worse", "better", "worse"]
SMALL = 0.05  # a smaller change counts as none, whatever the ranges are


class Change(NamedTuple):
    """A figure of two results."""

    name: str
    old: float
    new: float
    verdict: Verdict


def compare(old: Result, new: Result) -> list[Change]:
    """Every headline figure that both have."""
    return list(_changes(old, new))


def _changes(old: Result, new: Result) -> Iterator[Change]:
    for each in HEADLINES:
        if each.name in old.ratios and each.name in new.ratios:
            yield Change(
                each.name,
                old.ratios[each.name],
                new.ratios[each.name],
                verdict(
                    each,
                    (old.ratios[each.name], old.ranges[each.name]),
                    (new.ratios[each.name], new.ranges[each.name]),
                ),
            )


def verdict(each: Headline, old: tuple[float, tuple[float, float]], new: tuple[float, tuple[float, float]]) -> Verdict:
    """Judge a change of a figure.

    Args:
        each: The figure.
        old: Its median and range.
        new: The new median and range.

    Returns:
        `better` or `worse` if the ranges do not overlap: by chance that happens to two samples of five in one case of
        126, to larger ones more rarely. `perhaps` if they do, and each median lies outside of the other's range. Else
        `same`.
    """
    (was, (old_low, old_high)), (now, (new_low, new_high)) = old, new
    if abs(now - was) <= SMALL * max(abs(was), abs(now)):
        return "same"
    improved = (now > was) == (each.better == "more")
    if old_high < new_low or new_high < old_low:
        return "better" if improved else "worse"
    if not old_low <= now <= old_high and not new_low <= was <= new_high:
        return "perhaps better" if improved else "perhaps worse"
    return "same"


def lines(changes: list[Change]) -> str:
    """The comparison as lines."""
    width = max((len(change.name) for change in changes), default=0)
    return "\n".join(
        f"{change.name:<{width}}  {number(change.old):>8} -> {number(change.new):>8}  "
        f"x {change.new / change.old if change.old else 0:.2f}  {change.verdict}"
        for change in changes
    )
