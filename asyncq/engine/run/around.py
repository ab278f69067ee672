"""Wraps the calls of handlers, once for each task, when the worker starts."""

from collections.abc import Mapping
from typing import Any

from asyncq.domain.resource import Resource
from asyncq.domain.task import Task
from asyncq.engine.base.observers import Observers
from asyncq.engine.run.resources import Handle, Resources


class Around:
    """What runs around the handlers of one worker."""

    def __init__(self, overrides: Mapping[Resource[Any], Resource[Any]], lifespan: Any, observers: Observers) -> None:
        """`lifespan` is the value that the lifespan yielded."""
        self._resources = Resources(overrides, lifespan, observers)

    def wrapped(self, tasks: Mapping[str, Task[...]], handle: Handle) -> Mapping[str, Handle] | None:
        """The wrapped call of each task that has anything around it, by name; None if none has."""
        found = {name: self._wrapped(task, handle) for name, task in tasks.items()}
        return {name: call for name, call in found.items() if call is not handle} or None

    def _wrapped(self, task: Task[...], handle: Handle) -> Handle:
        return self._resources.around(task.signature.uses, handle) if task.signature.uses else handle

    async def close(self) -> None:
        """Close the resources, after the last run."""
        await self._resources.close()
