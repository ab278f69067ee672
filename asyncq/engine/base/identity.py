"""The identity of this worker in the database, and the numbers of its fetches."""

from collections.abc import Mapping
from typing import Any

from asyncq.domain.task import Registry, Task


class Identity:
    """The worker's id and the tasks that it knows.

    Attributes:
        worker_id: Its id; a new one after others declared it dead.
        tasks: Task id -> task, as registered under this worker id.
        unbatched: The ids of tasks whose jobs are never claimed in a batch, because their handlers complete them in
            transactions.
        row_flags: The current worker id -> the flags that its row says are forbidden.
    """

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.worker_id = 0
        self.tasks: dict[int, Task[...]] = {}
        self.unbatched: list[int] = []
        self._ever: dict[int, Task[...]] = {}
        self._token = 0
        self.row_flags: dict[int, list[str] | None] = {}

    def learn(self, task_ids: Mapping[int, str]) -> None:
        """Replace the ids of the tasks; ids of claims that still run are kept."""
        self.tasks = {task_id: self.registry[name] for task_id, name in task_ids.items()}
        self.unbatched = [task_id for task_id, task in self.tasks.items() if task.needs_row]
        self._ever |= self.tasks

    @property
    def nameless(self) -> list[str]:
        known = {task.name for task in self.tasks.values()}
        return [name for name in self.registry if name not in known]

    def next_token(self) -> int:
        """A number that no claim of this process had before."""
        self._token += 1
        return self._token

    def task(self, task_id: Any) -> Task[...]:
        return self._ever[task_id]
