"""The task group of a worker, the report that a task has started, and the error inside of an exception group."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from anyio.abc import TaskGroup, TaskStatus

from asyncq.domain.errors import members_of


class WorkerTasks:
    """Starts asyncio tasks in the task group of one worker, which is opened after its parts were made."""

    def __init__(self) -> None:
        self._group: TaskGroup | None = None
        self._of_callbacks: list[tuple[Callable[..., Coroutine[Any, Any, Any]], tuple[Any, ...]]] = []
        self._wanted = asyncio.Event()

    def open(self, group: TaskGroup) -> None:
        self._group = group
        group.start_soon(self._start_for_callbacks, group)

    def start_soon(self, function: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> None:
        """Start a task; the group must be open."""
        if self._group is None:
            raise RuntimeError(f"{function} was started before the worker's task group was opened")
        if asyncio.current_task() is not None:
            self._group.start_soon(function, *args)
        else:
            self._of_callbacks.append((function, args))
            self._wanted.set()

    async def _start_for_callbacks(self, group: TaskGroup) -> None:
        """Start the tasks that callbacks of the loop ask for: beside sniffio, anyio starts no task in a callback."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            while self._of_callbacks:
                function, args = self._of_callbacks.pop(0)
                group.start_soon(function, *args)


def report_started(task_status: TaskStatus[None]) -> None:
    """Report that a task has started; nothing if that was reported before."""
    try:
        task_status.started()
    except RuntimeError:
        return


def innermost(error: BaseException) -> BaseException:
    """The only error of a group and of the groups in it, which says more than they do; otherwise the group."""
    first, *others = members_of(error)
    return error if others else first
