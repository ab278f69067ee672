"""The outcome of a run whose handler has returned an outcome for each item of its payload.

    the outcomes of the items                  the outcome of the run
    all good                                   Completed
    Discards, and good ones                    Discarded, with the items of the Discards as payload
    a RetryAfter                               RetryLater, with the longest wait of all verdicts; for the partition if
                                               one of them is, and then no attempt counts
    Snoozes, and good ones                     Snoozed, with the longest wait; no attempt counts
    any other exception                        Failed

The items that failed are the payload of the next run. An item of a Discard is left out, if others failed otherwise.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from asyncq.domain.errors import Discard, RetryAfter, Snooze, TaskError, members_of
from asyncq.domain.many import errors_of
from asyncq.domain.outcome import (
    Completed,
    Discarded,
    Failed,
    Outcome,
    Rest,
    RetryLater,
    Snoozed,
    clean_error,
    error_line,
)
from asyncq.engine.run.verdict import backs_off, longest_s, traceback_of, verdict_among

NAMED = 10
LONGEST_LINE = 1000


def outcome_of_items(returned: Any, payload: str, stored: Callable[[str], str]) -> tuple[Outcome, BaseException | None]:
    """The outcome of a run by the value that its handler returned, and the exception that explains it.

    `stored` makes the text that is stored of a payload. It raises errors of attributes of the user's exceptions.
    """
    items = msgspec.json.decode(payload, type=list[msgspec.Raw])
    try:
        errors = errors_of(returned, len(items), "items")
    except TaskError as error:
        return Failed(error_line(error)), error
    failed = {place: error for place, error in enumerate(errors) if error is not None}
    if not failed:
        return Completed(), None
    verdicts = {place: verdict_among(members_of(error)) for place, error in failed.items()}
    left = {place: error for place, error in failed.items() if not isinstance(verdicts[place], Discard)}
    kept = left or failed
    rest = None
    if len(kept) < len(items):
        rest = Rest(stored(_joined([items[place] for place in kept])), len(failed), len(items))
    said = _said(failed, len(items))
    whole = BaseExceptionGroup(said.partition(":")[0], [*failed.values()])
    found = [verdicts[place] for place in kept]
    waits = [verdict for verdict in found if isinstance(verdict, RetryAfter | Snooze)]
    if not left:
        return Discarded(said, rest), whole
    if len(waits) == len(failed) and all(isinstance(verdict, Snooze) for verdict in waits):
        return Snoozed(longest_s(waits), rest), None
    if any(isinstance(verdict, RetryAfter) for verdict in waits):
        return RetryLater(said, longest_s(waits), rest, backs_off(waits)), whole
    return Failed(said, rest), whole


def _said(failed: Mapping[int, BaseException], total: int) -> str:
    """The first items that failed, by their places from 0, and the first traceback."""
    lines = [f"{len(failed)} of {total} items failed:"]
    lines += [f"[{place}] {error_line(error)[:LONGEST_LINE]}" for place, error in [*failed.items()][:NAMED]]
    if len(failed) > NAMED:
        lines.append(f"and {len(failed) - NAMED} more")
    for place, error in failed.items():
        if error.__traceback__ is not None:
            lines.append(f"\nThe traceback of [{place}]:\n{traceback_of(error)}")
            break
    return clean_error("\n".join(lines))


def _joined(items: list[msgspec.Raw]) -> str:
    return f"[{b','.join(cast('list[bytes]', items)).decode()}]"
