"""The way of one job to an idle worker, step by step."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

STEPS = ("add called -> worker notified", "worker notified -> handler starts")
WHOLE = "add called -> handler starts"
RETURN = "add called -> add returned"


def steps(
    sent: Sequence[int], returned: Sequence[int], told: Sequence[int], starts: Sequence[tuple[int, int]], warm_up: int
) -> dict[str, float]:
    """Medians of the steps of jobs that were added one by one.

    Args:
        sent: When each add was called; all are nanoseconds of the monotonic clock.
        returned: When each returned.
        told: When the worker received a job that was handed to it.
        starts: When each job was sent, and when its handler started.
        warm_up: How many jobs do not count.

    Returns:
        Step -> milliseconds. A job that the worker had to fetch does not count.
    """
    began = dict(starts)
    found: dict[str, list[float]] = {}
    for sent_ns, returned_ns in list(zip(sent, returned, strict=True))[warm_up:]:
        start_ns = began[sent_ns]
        place = bisect_left(told, sent_ns)
        if place == len(told) or told[place] > start_ns:
            continue
        took = [later - earlier for earlier, later in pairwise((sent_ns, told[place], start_ns))]
        for step, ns in zip((*STEPS, WHOLE, RETURN), (*took, start_ns - sent_ns, returned_ns - sent_ns), strict=True):
            found.setdefault(step, []).append(ns / 1e6)
    return {step: median(each) for step, each in found.items()}
