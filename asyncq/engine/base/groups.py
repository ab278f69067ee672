"""The task group of a worker, and the error inside of an exception group."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, cast

from anyio.abc import TaskGroup


class WorkerTasks:
    """Starts asyncio tasks in the task group of one worker, which is opened after its parts were made."""

    def __init__(self) -> None:
        self._group: TaskGroup | None = None

    def open(self, group: TaskGroup) -> None:
        """Start tasks in this group from now on."""
        self._group = group

    def start_soon(self, function: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> None:
        """Start a task; the group must be open."""
        if self._group is None:
            raise RuntimeError(f"{function} was started before the worker's task group was opened")
        self._group.start_soon(function, *args)


def innermost(error: BaseException) -> BaseException:
    """Unwrap groups that contain a single error, which says more than they do."""
    while len(parts := _parts(error)) == 1:
        error = parts[0]
    return error


def _parts(error: BaseException) -> tuple[BaseException, ...]:
    """The errors in a group; none for any other error."""
    if isinstance(error, BaseExceptionGroup):
        return cast("BaseExceptionGroup[BaseException]", error).exceptions
    return ()
