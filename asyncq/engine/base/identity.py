"""The identity of this worker in the database, and the numbers of its fetches."""

from collections.abc import Collection, Mapping
from typing import Any

from asyncq.domain.job import Claim
from asyncq.domain.task import Registry, Task
from asyncq.domain.time_limit import Extras


class Identity:
    """The worker's id and the tasks that it knows.

    Attributes:
        worker_id: Its id; a new one after others declared it dead.
        tasks: Task id -> task, as registered under this worker id; without those whose limits it excludes.
        limits: The ids of these -> the names of their limits, None without a limit.
        unbatched: The ids of tasks whose jobs are never claimed in a batch, because their handlers complete them in
            transactions.
        kept: The ids of tasks whose ended jobs are kept.
        row_flags: The current worker id -> the flags that its row says are forbidden.
    """

    def __init__(self, registry: Registry, keep_s: float = 0.0, exclude: Collection[str] = ()) -> None:
        """`keep_s` is the time for which jobs are kept of tasks that do not say it; `exclude` are names of limits."""
        self.registry = registry
        self._keep_s = keep_s
        self._limits = {task.identifier: task.limit for task in registry.declaration.tasks}
        self._excluded = {name for name, limit in self._limits.items() if limit in exclude}
        self.worker_id = 0
        self.tasks: dict[int, Task[...]] = {}
        self.limits: dict[int, str | None] = {}
        self.unbatched: list[int] = []
        self.kept: set[int] = set()
        self._ever: dict[int, Task[...]] = {}
        self._token = 0
        self.row_flags: dict[int, list[str] | None] = {}

    def learn(self, task_ids: Mapping[int, str]) -> None:
        """Replace the ids of the tasks; ids of claims that still run are kept."""
        mine = {task_id: name for task_id, name in task_ids.items() if name not in self._excluded}
        self.tasks = {task_id: self.registry[name] for task_id, name in mine.items()}
        self.limits = {task_id: self._limits[name] for task_id, name in mine.items()}
        self.unbatched = [task_id for task_id, task in self.tasks.items() if task.needs_row]
        self._ever |= self.tasks
        self.kept = {task_id for task_id, task in self.tasks.items() if self.keep_s(task.name)}

    def keep_s(self, name: str) -> float:
        """For how long ended jobs of a task are kept; 0 if they are not."""
        keep_s = self.registry[name].keep_s
        return self._keep_s if keep_s is None else keep_s

    def is_kept(self, claim: Claim, extras: Extras) -> bool:
        """Whether a job is kept once it has ended, as itself says, or else its task."""
        return claim.task_id in self.kept if extras.keep_s is None else extras.keep_s > 0

    @property
    def nameless(self) -> list[str]:
        known = {task.name for task in self.tasks.values()}
        return [name for name in self.registry if name not in known and name not in self._excluded]

    def next_token(self) -> int:
        """A number that no claim of this process had before."""
        self._token += 1
        return self._token

    def task(self, task_id: Any) -> Task[...]:
        return self._ever[task_id]
