"""The lifespan of a worker: opened before the first fetch, closed after the last settlement."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from typing import Any

from asyncq.domain.errors import LifespanFailed
from asyncq.domain.events import ResourceFailed
from asyncq.domain.outcome import error_line
from asyncq.engine.base.held import Held
from asyncq.engine.base.observers import Observers
from asyncq.engine.base.to_the_end import run_to_the_end


class Lifespan:
    """The open lifespan of one worker.

    `fail` is called with the error if the lifespan ends while the worker runs.
    """

    def __init__(
        self,
        enter: Callable[[], AbstractAsyncContextManager[Any]],
        name: str,
        observers: Observers,
        *,
        fail: Callable[[Exception], None],
    ) -> None:
        self._name = name
        self._observers = observers
        self._fail = fail
        self._held = Held(enter, copy_context(), self._failed)

    async def open(self) -> Any:
        """Return the value that it yields; LifespanFailed if it raises. If cancelled, use `close`."""
        try:
            return await self._held.opened()
        except Exception as error:
            said = f"lifespan {self._name!r} failed, so the worker does not start: {error_line(error)}"
            raise LifespanFailed(said) from error

    async def close(self) -> None:
        """Leave it, within a few seconds, also if cancelled; its error is reported as an event."""
        await run_to_the_end(self._held.close)

    def _failed(self, error: BaseException) -> None:
        self._observers.emit(ResourceFailed(name=f"lifespan {self._name}", error=error_line(error)), error)
        if not self._held.is_closing:
            said = f"lifespan {self._name!r} ended while the worker ran: {error_line(error)}"
            failure = LifespanFailed(said)
            failure.__cause__ = error
            self._fail(failure)
