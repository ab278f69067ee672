"""The outcome of a run whose handler raised: a verdict, a cancellation or a failure.

A handler may raise a verdict (`Discard`, `RetryAfter`, `Snooze`) alone or in exception groups, as task groups do:

    the group holds                        the outcome
    a Discard                              Discarded
    a RetryAfter, no Discard               RetryLater, with the longest wait of all verdicts; for the partition if one
                                           of them is, and then no attempt counts
    Snoozes, and no other error            Snoozed, with the longest wait
    Snoozes, and other errors              Failed: a snooze counts no attempt, and would hide these errors
    cancellations only                     as one CancelledError

A CancelledError beside other errors changes nothing. After a hard time limit the outcome is TimedOut, except for a
verdict.
"""

import asyncio
import os
import signal
import threading
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path

from asyncq.domain.errors import Discard, ProcessDied, RaisedInProcess, RetryAfter, Snooze, members_of, seconds
from asyncq.domain.outcome import (
    Discarded,
    Failed,
    Interrupted,
    Outcome,
    RetryLater,
    Snoozed,
    TimedOut,
    clean_error,
    error_line,
    text_of,
)
from asyncq.engine.base import user_code

_ENGINE = f"{Path(__file__).parents[1]}{os.sep}"
"""The folder of the frames that precede the handler's in each traceback."""


def outcome_of(error: BaseException, *, interrupted: bool, timed_out: TimedOut | None = None) -> Outcome:
    """The outcome of a run whose handler raised, or was interrupted by the worker, or by a time limit.

    It raises a KeyboardInterrupt of the handler that may come from a real SIGINT, and errors of attributes of the
    user's exception.
    """
    members = members_of(error)
    for member in members:
        if isinstance(member, KeyboardInterrupt) and _may_be_real():
            raise member
    errors = [member for member in members if not isinstance(member, asyncio.CancelledError)]
    verdict = verdict_among(errors)
    if timed_out is not None and verdict is None:
        return TimedOut(clean_error(f"{timed_out.error}\n\n{traceback_of(error)}"), timed_out.timeout_s)
    if not errors:
        if interrupted:
            return Interrupted()
        return Failed(clean_error(f"CancelledError: the handler cancelled itself\n\n{traceback_of(error)}"))
    if verdict is None:
        return Failed(describe(error))
    # For a verdict with more to record than its reason, such as other errors of its group.
    whole = error if len(errors) > 1 else verdict
    match verdict:
        case Discard():
            return Discarded(_last_error("Discard", verdict, whole))
        case RetryAfter():
            said = _last_error("RetryAfter", verdict, whole)
            return RetryLater(said, longest_s(errors), partition=backs_off(errors))
        case _:
            return Snoozed(longest_s(errors))


def describe(error: BaseException) -> str:
    """Write an error, even one whose `__str__` raises, as `last_error`: type, message, traceback, cut at 16 KiB."""
    if isinstance(error, RaisedInProcess):
        return clean_error(error.error)
    if isinstance(error, ProcessDied):  # Its traceback has no frame of the handler.
        return error_line(error)
    return clean_error(f"{type(error).__name__}: {text_of(error)}\n\n{traceback_of(error)}")


def verdict_among(errors: Sequence[BaseException]) -> Discard | RetryAfter | Snooze | None:
    """The verdict among these errors that decides, or None."""
    found = [error for error in errors if isinstance(error, Discard | RetryAfter | Snooze)]
    for kind in (Discard, RetryAfter):
        for verdict in found:
            if isinstance(verdict, kind):
                return verdict
    return found[0] if found and len(found) == len(errors) else None


def longest_s(errors: Sequence[BaseException]) -> float:
    """The longest wait of the verdicts among these errors."""
    return max(seconds(error.delay_s) for error in errors if isinstance(error, RetryAfter | Snooze))


def backs_off(errors: Iterable[object]) -> bool:
    """Whether one of the verdicts asks that the whole partition of the job waits."""
    return any(isinstance(error, RetryAfter) and error.partition for error in errors)


def _last_error(name: str, verdict: Discard | RetryAfter, whole: BaseException) -> str:
    """The reason; with the traceback if it has a cause, or its group has other errors."""
    reason = text_of(verdict.reason)
    said = f"{name}: {reason}" if reason else name
    has_cause = verdict.__cause__ is not None or (verdict.__context__ is not None and not verdict.__suppress_context__)
    if has_cause or whole is not verdict:
        said += f"\n\n{traceback_of(whole)}"
    return clean_error(said)


def _may_be_real() -> bool:
    """Whether a KeyboardInterrupt may be a Ctrl-C: not in other threads, nor if SIGINT has another handler."""
    in_main = threading.current_thread() is threading.main_thread()
    return in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def traceback_of(error: BaseException) -> str:
    """The traceback of an error, without the frames of the engine that precede the handler's."""
    try:
        shown = error.__traceback__
        while shown is not None and shown.tb_frame.f_code.co_filename.startswith(_ENGINE):
            shown = shown.tb_next
        whole = traceback.TracebackException(type(error), error, shown, limit=-30, compact=True)
        for frame in whole.stack:
            # Python parses the line again to mark the columns: half of the time of a failed attempt.
            frame.colno = None
        return "".join(whole.format())
    except user_code.USERS_ERRORS:  # of a __str__ or __repr__
        return "".join(traceback.format_tb(error.__traceback__, limit=-30))
