"""Handlers of many things in one call: the items of one job, or the payloads of several jobs."""

import inspect
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from asyncq.domain.errors import ConfigurationError, TaskError
from asyncq.domain.job import Claim, JobSpec, is_awaitable
from asyncq.domain.signature import Signature, is_list
from asyncq.domain.time_limit import Duration, duration_s, read_extras

MOST_COLLECTED = 10_000


@dataclass(frozen=True, slots=True, init=False)
class Collect:
    """How the jobs of a task are collected for one call of its handler: `collect=` of `@task`.

    Args:
        max: The largest number of jobs in a call, 1 to 10,000.
        within: How long a call waits for more jobs after its first one: seconds, a timedelta, or text such as
            `"250 ms"`. It starts earlier once it has `max` jobs, or another job needs its slot.

    Attributes:
        within_s: The wait in seconds.

    Raises:
        ConfigurationError: The number is outside of its range, or the wait is no duration.
    """

    max: int
    within_s: float

    def __init__(self, *, max: int, within: Duration) -> None:  # noqa: A002 - as users know it
        if isinstance(max, bool) or not isinstance(max, int) or not 1 <= max <= MOST_COLLECTED:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"max of a Collect is a number from 1 to {MOST_COLLECTED}, got {max!r}")
        object.__setattr__(self, "max", max)
        object.__setattr__(self, "within_s", duration_s(within, "within of a Collect"))


def may_be_collected(claim: Claim) -> bool:
    """Whether a job may share a call with others: not in a queue, and not with limits of its own for a run."""
    if claim.queue is not None or claim.deadline_at is not None:
        return False
    if claim.extras is None:
        return True
    extras = read_extras(claim.extras)
    return extras.timeout_s is None and extras.soft_s is None


def errors_of(returned: Any, total: int, things: str) -> list[BaseException | None]:
    """The error of each thing, or None if it is done, by the value that a handler returned for all of them.

    TaskError if the value is neither None nor a list of as many outcomes: then nothing counts as done.
    """
    if returned is None:
        return [None] * total
    expected = f"it returns None, or a list of {total} outcomes, one for each of its {things}"
    if not isinstance(returned, list | tuple):
        raise TaskError(f"the handler returned a value of type {type(returned).__name__}: {expected}")
    outcomes = typing.cast("Sequence[Any]", returned)
    if len(outcomes) != total:
        raise TaskError(f"the handler returned a list of {len(outcomes)}, but had {total} {things}: {expected}")
    return [_error_of(outcome) for outcome in outcomes]


def _error_of(outcome: Any) -> BaseException | None:
    if isinstance(outcome, BaseException):
        return outcome
    name: str = outcome.__class__.__name__
    if inspect.isclass(outcome) and issubclass(outcome, BaseException):
        fault = f"the class {outcome.__name__}, and no exception"
    elif is_awaitable(outcome):
        fault = f"a {name} that was not awaited"
    else:
        return None
    return TaskError(f"the outcome is {fault}: nothing says that it is done")


def check_items(given: Any, name: str, signature: Signature, *, completes: Any, run_in: Any) -> bool:
    """Check the option `items` of a task, or raise TaskError."""
    if not isinstance(given, bool):
        fault = f"items must be True or False, got {given!r}"
    elif given and not is_list(signature.payload_type):
        fault = "items=True needs one parameter that is a list, as in `async def send(emails: list[Email])`"
    elif given and signature.has_default:
        fault = "items=True takes its list from the payload: its parameter cannot have a default"
    elif given and completes:
        fault = "items=True and completes=True exclude each other: ctx.complete would complete the items that failed"
    elif given and run_in is not None:
        fault = "items=True and run_in exclude each other: the exceptions of items stay in their process"
    else:
        return given
    raise TaskError(f"task {name!r}: {fault}")


def check_collect(given: Any, defaults: JobSpec, signature: Signature, others: Sequence[str]) -> Collect | None:
    """Check the option `collect` of a task, or raise TaskError; `others` are its options that exclude it."""
    if given is None:
        return None
    if not isinstance(given, Collect):
        fault = f"collect must be a Collect, as Collect(max=100, within='2 s'), got {given!r}"
    elif others:
        fault = f"collect and {others[0]} exclude each other: a call with several jobs settles each of them by itself"
    elif defaults.queue is not None:
        fault = "collect and queue exclude each other: the jobs of a queue run one after the other"
    elif defaults.deadline is not None:
        fault = "collect and deadline exclude each other: a job with a deadline is cut off alone"
    elif defaults.max_attempts == 1:
        fault = "collect needs max_attempts of 2 or more: the last attempt of a job runs alone"
    elif signature.has_default:
        fault = "collect takes the list from the payloads: its parameter cannot have a default"
    else:
        return given
    raise TaskError(f"task {defaults.task!r}: {fault}")
