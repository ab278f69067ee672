"""What a handler reports about its progress, and what others read of it."""

from datetime import datetime
from math import isfinite
from numbers import Real
from typing import Any

import msgspec

from asyncq.domain.stored_text import escaped

MAX_NOTE = 500


class Progress(msgspec.Struct, frozen=True):
    """The progress of a running job, as its handler reported it by `ctx.progress`.

    Attributes:
        done: How much is done.
        total: How much there is to do; None if it was not reported.
        note: A text for people, at most 500 characters; None if there is none.
        at: When the worker wrote this report, by the server's clock.
    """

    done: float
    total: float | None
    note: str | None
    at: datetime


class Report(msgspec.Struct, frozen=True, gc=False):
    """One call of `ctx.progress`."""

    done: float
    total: float | None
    note: str | None


def check_report(done: Any, total: Any, note: Any) -> Report:
    """Check and cut the arguments of `ctx.progress`; raises TypeError or ValueError, as its docstring says."""
    done = max(_number("done", done), 0.0)
    if total is not None:
        total = max(_number("total", total), 0.0)
        done = min(done, total)
    if note is not None:
        if not isinstance(note, str):
            raise TypeError(f"note must be a str or None, got {type(note).__name__}")
        note = escaped(note[:MAX_NOTE])[:MAX_NOTE]
    return Report(done, total, note)


def _number(name: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, Real):
        raise TypeError(f"{name} must be a number (int or float), got {type(given).__name__}")
    try:
        number = float(given)
    except OverflowError:
        raise ValueError(f"{name} must be at most 1e308, got a larger int") from None
    if not isfinite(number):
        raise ValueError(f"{name} must be a finite number, got {number}")
    return number
