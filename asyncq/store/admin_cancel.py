"""Administration: cancelling jobs by their ids."""

from __future__ import annotations

from collections.abc import Collection

import asyncpg

from asyncq.store.database import Database
from asyncq.store.failures import calling


async def cancel_jobs(database: Database, connection: asyncpg.Connection, job_ids: Collection[int]) -> list[int]:
    """Cancel jobs: those that wait end at once, those that run are marked, and their workers told at the commit.

    Args:
        database: Names the schema.
        connection: An asyncpg connection, of ours or of a caller, inside its transaction if it has one.
        job_ids: Their ids; unknown ones, and those of jobs that have failed for good, are skipped.

    Returns:
        The ids of the jobs that were cancelled, sorted.

    Raises:
        StoreError: See `failures.calling`; at REPEATABLE READ and SERIALIZABLE with SQLSTATE 40001 when a job has
            changed since the transaction's snapshot.

    If cancelled, the outcome is unknown unless the connection's transaction rolls back; all were cancelled or none.
    """
    if not job_ids:
        return []
    with calling(database.schema):
        rows = await connection.fetch(database.query("cancel_jobs"), sorted(job_ids))
    return [row["id"] for row in rows]
