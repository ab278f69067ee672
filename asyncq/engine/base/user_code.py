"""Runs code of the user in an asyncio task and a context of its own: however that ends, it ends nothing else.

The one place that catches BaseException and keeps it: SystemExit must not end the event loop, and a CancelledError must
not look like a cancellation of the worker's own parts.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any

import msgspec

# What a function of the user may raise that is called here and now: a CancelledError out of it cancels nothing of ours.
# Not for where something is awaited: there it may be meant for us.
USERS_ERRORS = (Exception, asyncio.CancelledError)


class Raised(msgspec.Struct, frozen=True):
    """How a task ended that did not return."""

    error: BaseException


def start(
    variables: Context,
    function: Callable[..., Coroutine[Any, Any, Any]],
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
) -> asyncio.Task[Any]:
    """Start user code in a task of its own; eagerly where Python can.

    Args:
        variables: The context variables that it sees.
        function: The code, a coroutine function.
        args: What it is called with.
        kwargs: The same, by name.

    Returns:
        The task, for `end_of`.
    """
    loop, code = asyncio.get_running_loop(), _caught(function, args, kwargs or {})
    if sys.version_info >= (3, 12):
        return asyncio.Task(code, loop=loop, context=variables, eager_start=True)
    return asyncio.Task(code, loop=loop, context=variables)


def has_ended(task: asyncio.Task[Any]) -> bool:
    """Whether the code of a task of `start` has ended; the task's result is then what `end_of` returns."""
    return task.done() and not task.cancelled()


async def end_of(task: asyncio.Task[Any]) -> Any:
    """Wait for the end of a task of `start`.

    Returns:
        What its code returned, or `Raised`.

    If cancelled, the task goes on, however often that happens.
    """
    if not task.done():
        # Not `await task`: cancelling who waits would cancel the task.
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake(_: asyncio.Task[Any]) -> None:
            if not waiter.done():
                waiter.set_result(None)

        task.add_done_callback(wake)
        await waiter
    if task.cancelled():
        # Before its first step, or by its own last step, after the code had returned.
        return Raised(asyncio.CancelledError())
    return task.result()


async def call(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of the user's, plain or async, that is no handler.

    Returns:
        What it returned, or `Raised`.

    If cancelled, it is cancelled too, once, and not waited for.
    """

    async def run() -> Any:
        answer = function(*args)
        return await answer if inspect.isawaitable(answer) else answer

    task = start(copy_context(), run)
    try:
        return await end_of(task)
    finally:
        task.cancel()


async def _caught(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return await function(*args, **kwargs)
    except BaseException as error:  # noqa: BLE001 - see the top of the file
        return Raised(error)
