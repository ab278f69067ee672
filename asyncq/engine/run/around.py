"""Wraps the calls of handlers in middleware and resources, once for each task, when the worker starts."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from asyncq.domain.around import AddMiddleware, Middleware, RunInfo, name_of
from asyncq.domain.errors import ConfigurationError
from asyncq.domain.resource import Resource
from asyncq.domain.task import Task
from asyncq.engine.base.observers import Observers
from asyncq.engine.run.resources import Handle, Resources
from asyncq.engine.run.run import Run


class Around:
    """What runs around the handlers of one worker.

    From the outside to the inside: the middleware of the worker, that of the task, the resources, the handler.
    """

    def __init__(
        self,
        middleware: Sequence[Middleware],
        overrides: Mapping[Resource[Any], Resource[Any]],
        lifespan: Any,
        observers: Observers,
        *,
        add_middleware: Sequence[AddMiddleware] = (),
    ) -> None:
        """`lifespan` is the value that the lifespan yielded; `add_middleware` runs around the adds of handlers."""
        self.add_middleware = add_middleware
        self._middleware = middleware
        self._lifespan = lifespan
        self._resources = Resources(overrides, lifespan, observers)

    def wrapped(self, tasks: Mapping[str, Task[...]], handle: Handle) -> Mapping[str, Handle] | None:
        """The wrapped call of each task that has anything around it, by name; None if none has."""
        found = {name: self._wrapped(task, handle) for name, task in tasks.items()}
        return {name: call for name, call in found.items() if call is not handle} or None

    def _wrapped(self, task: Task[...], handle: Handle) -> Handle:
        call = self._resources.around(task.signature.uses, handle) if task.signature.uses else handle
        for middleware in reversed((*self._middleware, *task.middleware)):
            call = partial(self._within, middleware, call)
        return call

    async def _within(
        self, middleware: Middleware, inner: Handle, run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        has_begun = False

        async def call() -> Any:
            nonlocal has_begun
            if has_begun:
                # Resources, transactions and the outcome belong to one call of the handler.
                raise ConfigurationError(f"middleware {name_of(middleware)} called its handler a second time")
            has_begun = True
            return await inner(run, args, kwargs)

        if run.carried is None:
            run.carried = []
        return await middleware(RunInfo(run.claims, run.task.name, run.worker_id, self._lifespan, run.carried), call)

    async def close(self) -> None:
        """Close the resources, after the last run."""
        await self._resources.close()
