"""Waits for the end of what must not be left running, in spite of cancellations."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any

import anyio

from asyncq.engine.base import user_code


async def until_done(future: asyncio.Future[Any]) -> None:
    """Wait until a future is done. A cancellation that arrives meanwhile is raised after that."""
    cancelled: asyncio.CancelledError | None = None
    # anyio repeats its cancellations at each wait; asyncio sends each one once.
    with anyio.CancelScope(shield=True):
        while not future.done():
            try:
                await asyncio.wait([future])
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        raise cancelled


async def run_to_the_end(function: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Call a coroutine function in an asyncio task of its own, and wait for its end as `until_done` does."""
    task = user_code.start(copy_context(), function)
    await until_done(task)
    end = await user_code.end_of(task)
    if isinstance(end, user_code.Raised):
        raise end.error
