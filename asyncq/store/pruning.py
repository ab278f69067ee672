"""Removes expired rows, a part at a time; it skips locked rows. If cancelled, the next call removes the rest."""

import msgspec

from asyncq.store.arrays import array_numbers
from asyncq.store.database import ReconnectingConnection

FIRST_KEY_LOCK = -(2**63)


async def prune(
    line: ReconnectingConnection, discarded_retention_s: float | None, error_retention_s: float, most: int
) -> dict[str, int]:
    """Remove old discarded jobs and failed attempts, and ended jobs and requests after their retention.

    Removes at most `most` of each kind. Returns the number of each kind; if one equals `most`, more may be left. None
    keeps discarded jobs.
    """
    return dict((await line.fetch("prune", discarded_retention_s, error_retention_s, most))[0])


class HistorySize(msgspec.Struct, frozen=True):
    """How many ended jobs are kept, the size of their table in bytes, and about how old the first of them is."""

    jobs: int
    bytes: int
    oldest_s: float | None


async def history_size(line: ReconnectingConnection, most: int) -> HistorySize:
    """Read how many ended jobs are kept; at most `most` are counted."""
    return HistorySize(*(await line.fetch("history_size", most))[0])


async def prune_key_locks(line: ReconnectingConnection, after: int, most: int) -> tuple[int, int | None]:
    """Remove key locks that were not used for a day, among the next `most` after a key (at first `FIRST_KEY_LOCK`).

    Returns the number of removed key locks, and the last checked key; None at the end.
    """
    (row,) = await line.fetch("prune_key_locks", after, most)
    return row["key_locks"], row["last_key"]


async def prune_partitions(line: ReconnectingConnection, after: int, most: int) -> int | None:
    """Remove idle partitions among the next `most` after an id, at first 0.

    Returns the last checked id; None at the end.
    """
    (row,) = await line.fetch("prune_partitions", after, most)
    return row["last_id"]


async def prune_steps(line: ReconnectingConnection, after: int, most: int) -> tuple[int, int | None]:
    """Remove steps of jobs that have ended, among the next `most` after a job, at first 0.

    Returns the number of removed steps, and the last checked job; None at the end.
    """
    (row,) = await line.fetch("prune_steps", after, most)
    return row["steps"], row["last_job"]


async def prune_stats(line: ReconnectingConnection, most: int) -> int:
    """Merge old numbers over time, and remove older ones; returns how many rows went."""
    ((gone,),) = await line.fetch("prune_stats", most)
    return gone


async def expire_jobs(line: ReconnectingConnection, most: int) -> list[int]:
    """End waiting jobs that have expired, at most `most`; returns their ids."""
    ((ids,),) = await line.fetch("expire_jobs", most)
    return array_numbers(ids)
