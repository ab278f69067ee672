"""Finds the asyncio tasks that handlers started and left behind, by a mark in the context that such tasks inherit."""

from __future__ import annotations

import asyncio
import sys
from contextvars import Context, ContextVar, copy_context
from typing import Any
from weakref import WeakKeyDictionary

_owner: ContextVar[str | None] = ContextVar("asyncq_job", default=None)


class Leftovers:
    """The marks of one worker.

    Python 3.11 cannot ask a task for its context: there a task factory notes the mark when a task is created, unless the
    loop has a factory of its own.
    """

    def __init__(self) -> None:
        self._noted: WeakKeyDictionary[asyncio.Task[Any], str] = WeakKeyDictionary()
        self._installed: asyncio.AbstractEventLoop | None = None

    def install(self) -> None:
        """Begin to note tasks, where that is needed."""
        loop = asyncio.get_running_loop()
        if sys.version_info < (3, 12) and loop.get_task_factory() is None:
            loop.set_task_factory(self._note)
            self._installed = loop

    def uninstall(self) -> None:
        """Leave the loop as it was."""
        if self._installed is not None:
            self._installed.set_task_factory(None)
            self._installed = None

    def mark(self, task_name: str) -> Context:
        """A copy of the current context, marked as that of a handler."""
        context = copy_context()
        context.run(_owner.set, task_name)
        return context

    def find(self) -> dict[asyncio.Task[Any], str]:
        """Tasks that are not done and bear a mark: asyncio task -> name of the job's task.

        A handler that still runs is one of them.
        """
        found: dict[asyncio.Task[Any], str] = {}
        for task in asyncio.all_tasks():
            owner = self._owner_of(task)
            if owner is not None and not task.done():
                found[task] = owner
        return found

    def _owner_of(self, task: asyncio.Task[Any]) -> str | None:
        if sys.version_info >= (3, 12):
            return task.get_context().get(_owner)
        return self._noted.get(task)

    def _note(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(coroutine, loop=loop, **options)
        if (owner := _owner.get()) is not None:
            self._noted[task] = owner
        return task
