"""Handlers of many things in one call: the items of one job, or the payloads of several jobs."""

import typing
from collections.abc import Sequence
from typing import Any

from asyncq.domain.errors import TaskError
from asyncq.domain.job import is_awaitable
from asyncq.domain.signature import Signature, is_list


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
    if isinstance(outcome, type) and issubclass(outcome, BaseException):
        return TaskError(f"the outcome is the class {outcome.__name__}, and no exception: nothing says that it is done")
    if is_awaitable(outcome):
        return TaskError(
            f"the outcome is a {type(outcome).__name__} that was not awaited: nothing says that it is done"
        )
    return None


def check_items(given: Any, name: str, signature: Signature, *, completes: Any) -> bool:
    """Check the option `items` of a task, or raise TaskError."""
    if not isinstance(given, bool):
        fault = f"items must be True or False, got {given!r}"
    elif given and not is_list(signature.payload_type):
        fault = "items=True needs one parameter that is a list, as in `async def send(emails: list[Email])`"
    elif given and signature.has_default:
        fault = "items=True takes its list from the payload: its parameter cannot have a default"
    elif given and completes:
        fault = "items=True and completes=True exclude each other: ctx.complete would complete the items that failed"
    else:
        return given
    raise TaskError(f"task {name!r}: {fault}")
