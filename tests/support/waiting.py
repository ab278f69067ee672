"""Waiting in tests: for a condition, with a limit, instead of sleeping for a guess."""

import inspect
from collections.abc import Awaitable, Callable

import anyio

# Long enough for a machine that is busy with much else; shorter than the polls and leases of tests.
LIMIT_S = 20.0
PAUSE_S = 0.005


async def wait_until(
    predicate: Callable[[], bool | Awaitable[bool]], *, description: str, limit_s: float = LIMIT_S
) -> None:
    """Wait until a condition holds.

    Args:
        predicate: The condition: a function, or an async function.
        description: The name of the condition, for the error.
        limit_s: For how long at most.

    Raises:
        AssertionError: It did not hold in time.
    """
    with anyio.move_on_after(limit_s):
        while True:
            answer = predicate()
            if await answer if inspect.isawaitable(answer) else answer:
                return
            await anyio.sleep(PAUSE_S)
    raise AssertionError(f"not within {limit_s:g} s: {description}")
