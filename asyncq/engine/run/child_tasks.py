"""Finds the asyncio tasks of handlers that have ended, by a mark in the context that such tasks inherit."""

import asyncio
import sys
from contextvars import Context, ContextVar, copy_context
from typing import Any
from weakref import WeakKeyDictionary


class ChildTasks:
    """The marks of one worker; several workers may share an event loop.

    Python 3.11 cannot ask a task for its context. There a task factory stores the mark when a task is created, unless
    the loop has another factory.
    """

    def __init__(self) -> None:
        self._noting: asyncio.AbstractEventLoop | None = None

    def install(self) -> None:
        """Begin to store the marks of tasks, if that is needed."""
        loop = asyncio.get_running_loop()
        if sys.version_info >= (3, 12):
            return
        if loop.get_task_factory() is None:
            loop.set_task_factory(_note)
        if loop.get_task_factory() is _note:
            _users[loop] = _users.get(loop, 0) + 1
            self._noting = loop

    def uninstall(self) -> None:
        """Restore the task factory, once no worker of the loop needs it."""
        loop, self._noting = self._noting, None
        if loop is None:
            return
        _users[loop] -= 1
        if not _users[loop]:
            del _users[loop]
            if loop.get_task_factory() is _note:
                loop.set_task_factory(None)

    def mark(self, task_name: str, job: object = None) -> Context:
        """Copy the current context, marked as that of a handler that runs this job."""
        # To set it, copy and reset takes half as long as to set it in the copy.
        before = _owner.set((self, task_name, job))
        context = copy_context()
        _owner.reset(before)
        return context

    def job_of(self, task: asyncio.Task[Any]) -> object:
        """The job for which an asyncio task of this worker was marked; may be called in any thread."""
        owner = _owner_of(task)
        return owner[2] if owner is not None and owner[0] is self else None

    @property
    def in_handler(self) -> bool:
        """Whether the current code was called by a handler of this worker, or by a task that one started."""
        owner = _owner.get()
        return owner is not None and owner[0] is self

    def find(self) -> dict[asyncio.Task[Any], str]:
        """The marked asyncio tasks that are not done, running handlers too, each with the name of the job's task."""
        found: dict[asyncio.Task[Any], str] = {}
        for task in asyncio.all_tasks():
            owner = _owner_of(task)
            if owner is not None and owner[0] is self and not task.done():
                found[task] = owner[1]
        return found


_Owner = tuple[ChildTasks, str, object]
_owner: ContextVar[_Owner | None] = ContextVar("asyncq_job", default=None)
_noted: WeakKeyDictionary[asyncio.Task[Any], _Owner] = WeakKeyDictionary()
_users: dict[asyncio.AbstractEventLoop, int] = {}


def is_in_handler() -> bool:
    """Whether the current code was called by a handler of any worker, or by a task that one started."""
    return _owner.get() is not None


def _owner_of(task: asyncio.Task[Any]) -> _Owner | None:
    if sys.version_info >= (3, 12):
        return task.get_context().get(_owner)
    return _noted.get(task)


def _note(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    task = asyncio.Task(coroutine, loop=loop, **options)
    if (owner := _owner.get()) is not None:
        _noted[task] = owner
    return task
