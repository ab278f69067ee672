"""Runs a coroutine of a command to its end, or until Ctrl-C."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

WAKE_S = 0.5


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a new event loop; Ctrl-C cancels it, and raises KeyboardInterrupt.

    asyncpg may then fail on the answer to a statement that was cancelled. The event loop would log its traceback.

    A Ctrl-C that comes just before the event loop waits, or to another thread, does not wake it: so a timer does.
    """

    async def main() -> T:
        task = asyncio.current_task()
        assert task is not None

        def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            if not task.cancelling():
                loop.default_exception_handler(context)

        def wake() -> None:
            loop.call_later(WAKE_S, wake)

        loop = asyncio.get_running_loop()
        loop.set_exception_handler(report)
        wake()
        return await work

    return asyncio.run(main())
