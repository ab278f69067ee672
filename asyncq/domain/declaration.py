"""The declaration of a worker: the limits of its tasks and queues, which the database stores when it registers."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from asyncq.domain.errors import TaskError
from asyncq.domain.limit import Path, Queue, TaskLimit


class DeclaredLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A limit. `at_once` and `rate` hold for each key, the totals for all of them; None is no limit."""

    name: str
    at_once: int | None = None
    total: int | None = None
    rate: int | None = None
    per_s: float | None = None
    total_rate: int | None = None
    total_per_s: float | None = None
    fair: bool = False


class DeclaredTask(msgspec.Struct, frozen=True):
    """The limit of a task, None for no limit, and the path of the key in its payloads, None for one key."""

    identifier: str
    limit: str | None = None
    by: Path | None = None


class DeclaredQueue(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs of a queue may run at once, and how many may start in `per_s` seconds."""

    name: str
    at_once: int = 1
    rate: int | None = None
    per_s: float | None = None


class Declaration(msgspec.Struct, frozen=True):
    """All limits of a worker. It names each of its tasks, so that one without a limit loses the limit that it had."""

    limits: tuple[DeclaredLimit, ...] = ()
    tasks: tuple[DeclaredTask, ...] = ()
    queues: tuple[DeclaredQueue, ...] = ()


def declaration_of(
    tasks: Mapping[str, TaskLimit | None], queues: Iterable[Queue] = (), used: Collection[str] = ()
) -> Declaration:
    """Gather the limits of a worker.

    Args:
        tasks: The limit of each task, by the name of the task. A limit without a name gets this name.
        queues: The queues that have limits.
        used: The names of the queues of its tasks.

    Returns:
        The declaration, in the order of names.

    Raises:
        TaskError: Two tasks declare one limit differently, a queue has two limits, or a limit has the name of a queue.
    """
    declared_queues = _queues(queues)
    limits: dict[str, DeclaredLimit] = {}
    owners: dict[str, tuple[str, TaskLimit]] = {}
    for task, limit in sorted(tasks.items()):
        if limit is None:
            continue
        if limit.name is not None and (limit.name in declared_queues or limit.name in used):
            raise TaskError(f"task {task!r}: its limit has the name of queue {limit.name!r}; give it another name")
        name = limit.name or task
        _check_same(name, task, limit, *owners.setdefault(name, (task, limit)))
        limits[name] = DeclaredLimit(
            name=name,
            at_once=limit.at_once,
            total=limit.total,
            rate=limit.rate,
            per_s=limit.per_s,
            total_rate=limit.total_rate,
            total_per_s=limit.total_per_s,
            fair=limit.fair,
        )
    return Declaration(
        limits=tuple(limits[name] for name in sorted(limits)),
        tasks=tuple(_declared_task(name, limit) for name, limit in sorted(tasks.items())),
        queues=tuple(declared_queues[name] for name in sorted(declared_queues)),
    )


def check_keys_are_clear(declaration: Declaration) -> None:
    """Raise TaskError if the database would look for a key in payloads that a codec encodes."""
    for task in declaration.tasks:
        if task.by is not None:
            said = f"its limit has the key {'.'.join(task.by)!r}, which the database does not find in encoded payloads"
            raise TaskError(f"task {task.identifier!r}: {said}; use a limit without a key, or no codec")


def _declared_task(task: str, limit: TaskLimit | None) -> DeclaredTask:
    return DeclaredTask(task) if limit is None else DeclaredTask(task, limit.name or task, limit.by)


def _queues(queues: Iterable[Queue]) -> dict[str, DeclaredQueue]:
    found: dict[str, DeclaredQueue] = {}
    for queue in queues:
        rate, per_s = (None, None) if queue.rate is None else (queue.rate.count, queue.rate.per_s)
        declared = DeclaredQueue(name=queue.name, at_once=queue.concurrency or 1, rate=rate, per_s=per_s)
        if found.setdefault(queue.name, declared) != declared:
            raise TaskError(f"queue {queue.name!r} has two limits: leave one Queue({queue.name!r}, ...) out")
    return found


def _check_same(name: str, task: str, limit: TaskLimit, other: str, known: TaskLimit) -> None:
    """Raise TaskError if two tasks with one limit declare it differently. Their keys may have different paths."""
    parts, others = _parts(limit), _parts(known)
    for part, value in parts.items():
        if value != others[part]:
            said = f"{part} is {others[part]} for {other!r} and {value} for {task!r}"
            raise TaskError(f"tasks {other!r} and {task!r} have one limit {name!r}, but {said}: declare it alike")


def _parts(limit: TaskLimit) -> dict[str, Any]:
    return {
        "at_once": limit.at_once,
        "total": limit.total,
        "rate": None if limit.rate is None else f"{limit.rate} per {limit.per_s:g} s",
        "total rate": None if limit.total_rate is None else f"{limit.total_rate} per {limit.total_per_s:g} s",
        "fair": limit.fair,
    }
