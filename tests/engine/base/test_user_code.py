"""Isolation: any end of user code becomes a value, so its caller cannot fail by it."""

import asyncio
from contextvars import ContextVar, copy_context

import pytest

from asyncq.engine.base import user_code
from asyncq.engine.base.user_code import Raised


@pytest.mark.parametrize(
    "error",
    [ValueError(), SystemExit(), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), StopAsyncIteration()],
    ids=lambda error: type(error).__name__,
)
async def test_an_exception_becomes_a_value(error: BaseException) -> None:
    """SystemExit in an asyncio task would end the event loop. A CancelledError would cancel the waiting group."""

    async def fail() -> None:
        await asyncio.sleep(0)
        raise error

    end = await user_code.end_of(user_code.start(copy_context(), fail))

    assert Raised(error) == end


async def test_a_task_that_is_cancelled_before_its_first_step_is_a_value_too() -> None:
    """Its own `except` never runs then."""

    async def work() -> None:
        await asyncio.sleep(0)

    task = user_code.start(copy_context(), work)
    task.cancel()
    end = await user_code.end_of(task)

    assert isinstance(end, Raised)
    assert isinstance(end.error, asyncio.CancelledError)


async def test_cancelling_a_waiting_caller_does_not_cancel_the_call() -> None:
    """Only the caller that started it may cancel it, even after repeated cancellations."""
    leave = asyncio.Event()

    async def work() -> str:
        await leave.wait()
        return "done"

    task = user_code.start(copy_context(), work)
    waiting = asyncio.get_running_loop().create_task(user_code.end_of(task))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    leave.set()

    assert "done" == await user_code.end_of(task)


async def test_its_context_variables_are_its_own() -> None:
    """Changes of user code to context variables are not visible outside."""
    variable: ContextVar[int] = ContextVar("variable", default=0)

    async def work() -> None:
        variable.set(1)

    await user_code.end_of(user_code.start(copy_context(), work))

    assert 0 == variable.get()


async def test_call_takes_plain_and_async_functions() -> None:
    """`on_discarded` and `forbidden_flags` may be either."""

    async def later(value: int) -> int:
        return value

    assert [1, 2] == [await user_code.call(lambda value: value, 1), await user_code.call(later, 2)]


async def test_a_cancelled_caller_cancels_its_call() -> None:
    """The call is cancelled once, and is not waited for."""
    entered, ended = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    calling = asyncio.get_running_loop().create_task(user_code.call(hang))
    await entered.wait()
    calling.cancel()
    await asyncio.wait({calling})
    await ended.wait()

    assert calling.cancelled()
