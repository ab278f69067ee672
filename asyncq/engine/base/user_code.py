"""Runs code of the user in its own asyncio task and context: its end, however it happens, affects nothing else.

Only this module catches BaseException and keeps it: SystemExit must not end the event loop, and a CancelledError must
not look like a cancellation of the worker's own parts.
"""

import asyncio
import inspect
import sys
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any

import msgspec

# Exceptions of user functions that are called without await: a CancelledError that they raise cancels nothing here.
# Do not use it around an await: there a CancelledError may be addressed to the worker.
USERS_ERRORS = (Exception, asyncio.CancelledError)


class Raised(msgspec.Struct, frozen=True):
    """The result of a task that did not return."""

    error: BaseException


def start(
    variables: Context, function: Callable[..., Coroutine[Any, Any, Any]], args: tuple[Any, ...] = ()
) -> asyncio.Task[Any]:
    """Start user code in its own task, with these context variables; eagerly if Python can. `end_of` awaits it."""
    loop, code = asyncio.get_running_loop(), _caught(function, args)
    if sys.version_info >= (3, 12):
        return asyncio.Task(code, loop=loop, context=variables, eager_start=True)
    return asyncio.Task(code, loop=loop, context=variables)


def has_ended(task: asyncio.Task[Any]) -> bool:
    """Whether the code of a task of `start` has ended; then the task's result is the result of `end_of`."""
    return task.done() and not task.cancelled()


async def end_of(task: asyncio.Task[Any]) -> Any:
    """Wait for a task of `start`: the result of the code, or `Raised`. If cancelled, the task always continues."""
    if not task.done():
        # Not `await task`: a cancellation of the waiter would cancel the task.
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake(_: asyncio.Task[Any]) -> None:
            if not waiter.done():
                waiter.set_result(None)

        task.add_done_callback(wake)
        await waiter
    if task.cancelled():
        # A cancellation before its first step, or in its last step after the code had returned.
        return Raised(asyncio.CancelledError())
    return task.result()


async def call(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of the user that is not a handler, plain or async, and return its result, or `Raised`.

    If cancelled, the function is cancelled too, once, and not awaited.
    """

    async def run() -> Any:
        answer = function(*args)
        return await answer if inspect.isawaitable(answer) else answer

    task = start(copy_context(), run)
    try:
        return await end_of(task)
    finally:
        task.cancel()


async def _caught(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    try:
        return await function(*args)
    except BaseException as error:  # noqa: BLE001 - see the top of the file
        return Raised(error)
