"""The task group of a worker, the report that a task has started, and the error inside of an exception group."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any

from anyio.abc import TaskGroup, TaskStatus

from asyncq.domain.errors import members_of


class WorkerTasks:
    """Starts asyncio tasks in the task group of one worker, which is opened after its parts were made."""

    def __init__(self) -> None:
        self._group: TaskGroup | None = None

    def open(self, group: TaskGroup) -> None:
        self._group = group

    def start_soon(self, function: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> None:
        """Start a task, also from a callback of the loop; the group must be open."""
        if self._group is None:
            raise RuntimeError(f"{function} was started before the worker's task group was opened")
        context = copy_context()
        # In a callback there is no current task, by which sniffio knows the library that anyio asks it for.
        if asyncio.current_task() is None and (sniffio := sys.modules.get("sniffio")) is not None:
            context.run(sniffio.current_async_library_cvar.set, "asyncio")
        context.run(self._group.start_soon, function, *args)


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
