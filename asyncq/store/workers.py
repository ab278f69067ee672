"""Workers in the database: register, prove to be alive, rescue the jobs of dead ones. Leases use the real clock."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from asyncq.domain.errors import ConfigurationError
from asyncq.domain.sentence import command
from asyncq.store.arrays import array_text
from asyncq.store.database import ReconnectingConnection, Record

# The running jobs of a worker that were cancelled, as (id, lock token); None when others declared the worker dead.
Cancelled = list[tuple[int, int]] | None

DOORS_SHUT = {"select pg_catalog.now()", "select pg_catalog.clock_timestamp()"}


class Rescued(msgspec.Struct, frozen=True):
    """A job that was returned for a dead worker.

    Attributes:
        job_id: The job.
        worker_id: The worker.
        attempts: How many attempts have failed, this one included if it counts.
        max_attempts: How many there may be.
        ran: Whether it ran for certain, so that the attempt counts.
    """

    job_id: int
    worker_id: int
    attempts: int
    max_attempts: int
    ran: bool


async def set_forbidden_flags(
    line: ReconnectingConnection, worker_id: int, forbidden_flags: Sequence[str] | None
) -> None:
    """Tell which flags a worker forbids from its next fetch on, for those who ask why a job does not run."""
    await line.fetch("set_forbidden_flags", worker_id, forbidden_flags)


async def beat(line: ReconnectingConnection, worker_id: int, named: Sequence[str], stuck: Sequence[int]) -> Cancelled:
    """Prove that a worker lives over any of its connections, and look what it may not have heard.

    Args:
        line: One that does not hold the worker's lock: from now on only its lease counts.
        worker_id: The worker.
        named: Claims that have started, each as `job/token`.
        stuck: Jobs whose handlers ignore that they were cancelled.

    Returns:
        See `Cancelled`.

    Raises:
        StoreError: See `failures.calling`.
    """
    holds = False
    return cancelled_jobs(await line.fetch("beat", worker_id, holds, list(named), array_text(stuck)))


def cancelled_jobs(rows: Sequence[Record]) -> Cancelled:
    """Read what a beat returned."""
    if not rows:
        return None
    return [(row["job_id"], row["lock_token"]) for row in rows if row["job_id"] is not None]


async def is_known(line: ReconnectingConnection, worker_id: int) -> bool:
    """Whether no rescue has declared a worker dead.

    Raises:
        StoreError: See `failures.calling`.
    """
    (row,) = await line.fetch("find_worker", worker_id)
    return row["found"] == "known"


async def remove(line: ReconnectingConnection, worker_id: int) -> None:
    """Forget a worker that holds no claim."""
    await line.fetch("remove_worker", worker_id)


async def rescue_jobs(line: ReconnectingConnection, *, thorough: bool) -> list[Rescued]:
    """Return the jobs of dead workers.

    Args:
        line: A connection.
        thorough: Also look for claims whose worker has no row; reads the claims of all workers.

    Returns:
        The jobs that were returned.

    Raises:
        StoreError: See `failures.calling`.
    """
    rows = await line.fetch("rescue_jobs", thorough)
    return [Rescued(*row) for row in rows]


async def task_ids(line: ReconnectingConnection, names: Collection[str]) -> dict[int, str]:
    """The ids of tasks, stored on first use.

    Returns:
        Id -> name; without those that another open transaction has just stored.
    """
    rows = await line.fetch("task_ids", sorted(names))
    return {row["id"]: row["identifier"] for row in rows}


async def unknown_tasks(line: ReconnectingConnection, ids: Collection[int]) -> list[str]:
    """Names of tasks, other than these, for which a job waits."""
    return [row["identifier"] for row in await line.fetch("unknown_tasks", array_text(ids))]


async def wake_workers(line: ReconnectingConnection) -> None:
    """Tell all listening workers to look for jobs."""
    await line.fetch("wake_workers")


async def check_clock(line: ReconnectingConnection, schema: str) -> None:
    """Refuse a clock that a test has moved.

    Args:
        line: Any.
        schema: The schema, for the sentence.

    Raises:
        ConfigurationError: The two doors of time are not the server's own clock.
        StoreError: See `failures.calling`.
    """
    rows = await line.fetch("clock_functions")
    if {row["source"] for row in rows} != DOORS_SHUT:
        raise ConfigurationError(
            f"the clock of schema {schema!r} was moved by asyncq.testing; in a test, make the worker with "
            f"asyncq.testing; else run `{command('migrate', schema)}` to put it right"
        )
