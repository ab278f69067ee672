"""Workers in the database: register, prove to be alive, rescue the jobs of dead ones. Leases use the real clock."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from asyncq.store.database import Line

DOORS_SHUT = {"select pg_catalog.now()", "select pg_catalog.clock_timestamp()"}


class Rescued(msgspec.Struct, frozen=True):
    """A job that was returned for a dead worker."""

    job_id: int
    worker_id: int
    attempts: int
    max_attempts: int


async def register(line: Line, *, lease_s: float, pid: int, concurrency: int, host: str, tasks: Sequence[str]) -> int:
    """Make a worker known.

    Returns:
        Its id, never used before.

    Raises:
        StoreError: See `failures.calling`.
    """
    rows = await line.fetch("register_worker", lease_s, pid, concurrency, host, list(tasks))
    return int(rows[0]["id"])


async def tell_flags(line: Line, worker_id: int, forbidden_flags: Sequence[str] | None) -> None:
    """Tell which flags a worker forbids from its next fetch on, for those who ask why a job does not run."""
    await line.fetch("tell_flags", worker_id, forbidden_flags)


async def beat(line: Line, worker_id: int) -> list[tuple[int, int]] | None:
    """Prove that a worker lives, and look what it may not have heard.

    Returns:
        The running jobs of the worker that were cancelled, as (id, lock token); None when others declared it dead.

    Raises:
        StoreError: See `failures.calling`.
    """
    rows = await line.fetch("beat", worker_id)
    if not rows:
        return None
    return [(row["job_id"], row["lock_token"]) for row in rows if row["job_id"] is not None]


async def remove(line: Line, worker_id: int) -> None:
    """Forget a worker that holds no claim."""
    await line.fetch("remove_worker", worker_id)


async def rescue_jobs(line: Line, *, thorough: bool) -> list[Rescued]:
    """Return the jobs of dead workers.

    Args:
        line: A connection.
        thorough: Also look for claims whose worker has no row; scans the table.

    Returns:
        The jobs that were returned.

    Raises:
        StoreError: See `failures.calling`.
    """
    rows = await line.fetch("rescue_jobs", thorough)
    return [Rescued(*row) for row in rows]


async def task_ids(line: Line, names: Collection[str]) -> dict[int, str]:
    """The ids of tasks, stored on first use.

    Returns:
        Id -> name; without those that another open transaction has just stored.
    """
    rows = await line.fetch("task_ids", sorted(names))
    return {row["id"]: row["identifier"] for row in rows}


async def unknown_tasks(line: Line, ids: Collection[int]) -> list[str]:
    """Names of tasks, other than these, for which a job waits."""
    return [row["identifier"] for row in await line.fetch("unknown_tasks", sorted(ids))]


async def wake_workers(line: Line) -> None:
    """Tell all listening workers to look for jobs."""
    await line.fetch("wake_workers")


async def doors_are_shut(line: Line) -> bool:
    """Whether the two doors of time are the server's own clock, not moved by a test."""
    rows = await line.fetch("clock_doors")
    return {row["source"] for row in rows} == DOORS_SHUT
