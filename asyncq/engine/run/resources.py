"""Opens the resources of handlers: those of the worker once, those of a job around its run."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from contextvars import copy_context
from functools import partial
from typing import Any

import anyio

from asyncq.domain.events import ResourceFailed
from asyncq.domain.outcome import error_line
from asyncq.domain.resource import Resource
from asyncq.engine.base.held import Held
from asyncq.engine.base.loop_time import loop_time
from asyncq.engine.base.observers import Observers
from asyncq.engine.base.to_the_end import run_to_the_end
from asyncq.engine.run.run import Run

# Less than a cancelled handler may take to end: `stuck.STUCK_S`.
CLOSE_OF_JOB_S = 4.0

Handle = Callable[[Run, tuple[Any, ...], dict[str, Any]], Coroutine[Any, Any, Any]]


class _Closing:
    """The closing of the resources of a job, which ends with the scope."""

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()

    def limit(self) -> None:
        self.scope.deadline = loop_time() + CLOSE_OF_JOB_S


class Resources:
    """The resources of one worker.

    A resource of the worker has an asyncio task of its own. It outlives the handler that uses it first, and the
    cancellation of a job must not end an opening for which others wait.
    """

    def __init__(self, overrides: Mapping[Resource[Any], Resource[Any]], lifespan: Any, observers: Observers) -> None:
        """`lifespan` is the value that the lifespan yielded."""
        self._overrides = overrides
        self._lifespan = lifespan
        self._observers = observers
        # Without the mark by which the asyncio tasks of handlers are found.
        self._variables = copy_context()
        self._held: dict[Resource[Any], Held] = {}
        self._is_closed = False

    def around(self, uses: Mapping[str, Resource[Any]], handle: Handle) -> Handle:
        """Wrap the call of a handler that takes resources."""
        given = {name: self._overrides.get(used, used) for name, used in uses.items()}
        if any(used.scope == "job" for used in given.values()):
            return partial(self._with_those_of_job, given, handle)
        return partial(self._with_those_of_worker, given, handle)

    async def close(self) -> None:
        """Close the resources of the worker, in the reverse order; errors are reported as events.

        If cancelled, it closes all of them before it ends.
        """
        self._is_closed = True
        await run_to_the_end(self._close_all)

    async def _close_all(self) -> None:
        while self._held:
            _, held = self._held.popitem()
            await held.close()

    async def _with_those_of_worker(
        self,
        uses: Mapping[str, Resource[Any]],
        handle: Handle,
        run: Run,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        for name, used in uses.items():
            held = self._usable(used)
            # The usual case, without the cost of three coroutines.
            kwargs[name] = held.value if held is not None and held.is_open else await self._of_worker(used)
        return await handle(run, args, kwargs)

    async def _with_those_of_job(
        self,
        uses: Mapping[str, Resource[Any]],
        handle: Handle,
        run: Run,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        answer: Any = None
        closing = _Closing()
        try:
            # The scope is entered first, because resources may enter scopes that must be left before it.
            with closing.scope:
                async with AsyncExitStack() as stack:
                    opened: dict[Resource[Any], Any] = {}
                    try:
                        for name, used in uses.items():
                            kwargs[name] = await self._of_job(used, stack, opened)
                        answer = await handle(run, args, kwargs)
                    except asyncio.CancelledError:
                        closing.limit()
                        raise
                    finally:
                        # A scope of a middleware that was cancelled would cancel each `await` of the closing.
                        closing.scope.shield = True
                        run.closing = closing
        finally:
            run.closing = None
            if closing.scope.cancel_called:
                error = TimeoutError(f"it was not closed within {CLOSE_OF_JOB_S:g} s")
                self._failed(f"a resource of job {run.claim.id}", error)
        if closing.scope.cancelled_caught:
            raise asyncio.CancelledError
        return answer

    async def _of_job(self, used: Resource[Any], stack: AsyncExitStack, opened: dict[Resource[Any], Any]) -> Any:
        """The value of a resource in one run, which opens those of the job."""
        if used.scope == "worker":
            return await self._of_worker(used)
        if used not in opened:
            values = {
                name: await self._of_job(self._overrides.get(inner, inner), stack, opened)
                for name, inner in used.uses.items()
            }
            opened[used] = await stack.enter_async_context(used.enter(values, self._lifespan))
        return opened[used]

    async def _of_worker(self, used: Resource[Any]) -> Any:
        """The value of a resource of the worker, which the first caller opens; raises the error of opening it."""
        if (held := self._usable(used)) is None:
            # Those that it uses come before it in `_held`, and so are closed after it.
            values = {
                name: await self._of_worker(self._overrides.get(inner, inner)) for name, inner in used.uses.items()
            }
            # Meanwhile another run may have begun to open it.
            held = self._usable(used) or self._open(used, values)
        return await held.opened()

    def _usable(self, used: Resource[Any]) -> Held | None:
        held = self._held.get(used)
        return None if held is None or held.has_ended else held

    def _open(self, used: Resource[Any], values: Mapping[str, Any]) -> Held:
        if self._is_closed:
            raise RuntimeError(f"resource {used.name} is not opened any more: the worker has stopped")
        self._held.pop(used, None)
        failed = partial(self._failed, f"resource {used.name}")
        held = self._held[used] = Held(partial(used.enter, values, self._lifespan), self._variables.copy(), failed)
        return held

    def _failed(self, name: str, error: BaseException) -> None:
        self._observers.emit(ResourceFailed(name=name, error=error_line(error)), error)
