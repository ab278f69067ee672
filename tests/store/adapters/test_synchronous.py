"""`adapters.synchronous`: functions of the store run without an event loop, as long as they wait for nothing else."""

import asyncio

import pytest

from asyncq.store.adapters.synchronous import at_once


async def answer(number: int) -> int:
    """Awaits a coroutine that never waits."""

    async def inner() -> int:
        return number

    return await inner()


async def fail() -> None:
    """Raises."""
    raise LookupError("as it is")


async def wait(ended: list[str]) -> None:
    """Waits for an event loop."""
    try:
        await asyncio.sleep(0)
    finally:
        ended.append("ended")


def test_a_coroutine_that_never_waits_returns_and_raises_as_a_function() -> None:
    """The adapters' statements have run when their coroutine is asked for the first time."""
    with pytest.raises(LookupError, match="as it is"):
        at_once(fail())

    assert 7 == at_once(answer(7))


def test_a_coroutine_that_waits_is_a_fault_of_asyncq() -> None:
    """Nothing would ever resume it. It is closed, so that its transaction does not stay open."""
    ended: list[str] = []
    with pytest.raises(RuntimeError) as caught:  # the traceback keeps the coroutine
        at_once(wait(ended))

    assert (["ended"], "waited for an event loop") == (ended, str(caught.value)[-24:])
