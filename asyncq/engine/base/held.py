"""Holds a context manager of the user open, in one asyncio task that enters it and leaves it."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import Context, ContextVar
from typing import Any

from asyncq.engine.base import user_code

CLOSE_S = 10.0  # how long the lifespan or a resource of a worker may take to close
CANCELLED_S = 1.0  # how long it may take after that, once it was cancelled

# The workers in whose lifespan or resources the code runs: that of one may run another one.
_workers: ContextVar[tuple[object, ...]] = ContextVar("asyncq_held_by", default=())


@contextmanager
def held_by(worker: object) -> Generator[None]:
    """Mark context variables that are copied in the block as those of the lifespan and resources of a worker."""
    before = _workers.set((*_workers.get(), worker))
    try:
        yield
    finally:
        _workers.reset(before)


def is_held_by(worker: object) -> bool:
    """Whether the current code was called by the lifespan or a resource of a worker, or by a task of one."""
    return any(each is worker for each in _workers.get())


class Held:
    """An async context manager that is entered at once, and left by `close`.

    It has an asyncio task of its own: a cancel scope, as of a task group, must be left in the task that entered it.

    Attributes:
        is_open: Whether it has been entered.
        is_closing: Whether `close` was called.
        value: What it yielded, once it is open.
    """

    def __init__(
        self,
        enter: Callable[[], AbstractAsyncContextManager[Any]],
        variables: Context,
        failed: Callable[[BaseException], None],
    ) -> None:
        """`failed` is called if the manager ends with an error after it was open, or before it was closed."""
        self.is_open = False
        self.is_closing = False
        self.value: Any = None
        self._failed = failed
        self._late: TimeoutError | None = None
        self._ready, self._close = asyncio.Event(), asyncio.Event()
        self._task = user_code.start(variables, self._hold, (enter,))
        self._task.add_done_callback(self._ended)

    async def _hold(self, enter: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        async with enter() as self.value:
            self.is_open = True
            self._ready.set()
            await self._close.wait()

    @property
    def has_ended(self) -> bool:
        """Whether the manager has been left, or could not be entered."""
        return self._task.done()

    async def opened(self) -> Any:
        """Wait until it is open, and return its value, or raise its error. If cancelled, opening continues."""
        await self._ready.wait()
        if self.is_open:
            return self.value
        error = self._error
        if error is None or isinstance(error, asyncio.CancelledError):
            raise RuntimeError("it was cancelled while it was opened") from error
        raise error

    async def close(self) -> None:
        """Leave the manager, and cancel it after `CLOSE_S`; if it is still being opened, cancel that.

        Call it by `run_to_the_end`: a cancellation would end the wait.
        """
        self.is_closing = True
        self._close.set()
        if not self.is_open:
            self._task.cancel()
        await asyncio.wait([self._task], timeout=CLOSE_S)
        if self._task.done():
            return
        self._late = TimeoutError(f"it was not closed within {CLOSE_S:g} s")
        self._task.cancel()
        await asyncio.wait([self._task], timeout=CANCELLED_S)
        if not self._task.done():
            self._failed(self._late)

    @property
    def _error(self) -> BaseException | None:
        """The error with which the task has ended."""
        if self._task.cancelled():
            return asyncio.CancelledError()
        end = self._task.result()
        return end.error if isinstance(end, user_code.Raised) else None

    def _ended(self, _: asyncio.Task[Any]) -> None:
        self._ready.set()
        error = self._late or self._error
        if error is None and not self.is_closing:
            error = RuntimeError("it ended while it was in use")
        if self.is_open and error is not None:
            self._failed(error)
