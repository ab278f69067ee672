"""The way of one job to an idle worker, step by step."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

STEPS = (
    "add called -> notification heard",
    "heard -> fetch sent",
    "fetch sent -> claims here",
    "claims here -> handler starts",
)
WHOLE = "add called -> handler starts"
RETURN = "add called -> add returned"


def steps(
    sent: Sequence[int],
    returned: Sequence[int],
    heard: Sequence[int],
    asked: Sequence[int],
    answered: Sequence[int],
    starts: Sequence[tuple[int, int]],
    warm_up: int,
) -> dict[str, float]:
    """Medians of the steps of jobs that were added one by one.

    Args:
        sent: When each add was called; all are nanoseconds of the monotonic clock.
        returned: When each returned.
        heard: When the worker was notified.
        asked: When it sent the fetches that brought something.
        answered: When these were answered.
        starts: When each job was sent, and when its handler started.
        warm_up: How many jobs do not count.

    Returns:
        Step -> milliseconds. A job whose notification came after its fetch, or not at all, does not count.
    """
    began = dict(starts)
    found: dict[str, list[float]] = {}
    for sent_ns, returned_ns in list(zip(sent, returned, strict=True))[warm_up:]:
        start_ns = began[sent_ns]
        heard_ns = _next(heard, sent_ns)
        fetch = bisect_left(asked, heard_ns) if heard_ns else len(asked)
        if heard_ns is None or fetch == len(asked) or answered[fetch] > start_ns:
            continue
        marks = (sent_ns, heard_ns, asked[fetch], answered[fetch], start_ns)
        took = [later - earlier for earlier, later in pairwise(marks)]
        for step, ns in zip((*STEPS, WHOLE, RETURN), (*took, start_ns - sent_ns, returned_ns - sent_ns), strict=True):
            found.setdefault(step, []).append(ns / 1e6)
    return {step: median(each) for step, each in found.items()}


def _next(times: Sequence[int], after: int) -> int | None:
    place = bisect_left(times, after)
    return times[place] if place < len(times) else None
