"""Runs a coroutine of a command to its end, or until Ctrl-C."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a new event loop; Ctrl-C cancels it, and raises KeyboardInterrupt.

    asyncpg may then fail on the answer to a statement that was cancelled. The event loop would log its traceback.
    """

    async def main() -> T:
        task = asyncio.current_task()
        assert task is not None

        def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            if not task.cancelling():
                loop.default_exception_handler(context)

        asyncio.get_running_loop().set_exception_handler(report)
        return await work

    return asyncio.run(main())
