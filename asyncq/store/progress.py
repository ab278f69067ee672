"""Writes the progress of running jobs. A row belongs to one claim: another worker or a later run has its own row."""

from collections.abc import Iterable

import msgspec

from asyncq.domain.job import Claim
from asyncq.domain.progress import Report
from asyncq.store.database import ReconnectingConnection


async def write_progress(line: ReconnectingConnection, reports: Iterable[tuple[Claim, int, Report | None]]) -> None:
    """Write reports, and delete the rows of runs that have ended (None), all in one statement.

    Each has its claim and the id of the worker. If cancelled, the statement writes all or nothing.
    """
    rows = [
        {
            "job_id": claim.id,
            "locked_by": worker_id,
            "lock_token": claim.token,
            **({} if report is None else msgspec.structs.asdict(report)),
        }
        for claim, worker_id, report in reports
    ]
    # One text: an array would need its type first, see arrays.py.
    await line.fetch("write_progress", msgspec.json.encode(rows).decode())
