"""Helpers for the progress of jobs in SQL: write it as a worker does, and read it."""

import json
from collections.abc import Mapping
from typing import Any

from tests.support.jobs import WORKER
from tests.support.session import Session


async def write(sql: Session, *reports: tuple[Mapping[str, Any], float | None], worker: int = WORKER) -> None:
    """Write how much of each claim is done, in one statement; None deletes its row."""
    rows = [
        {"job_id": claim["id"], "locked_by": worker, "lock_token": claim["lock_token"], "done": done}
        for claim, done in reports
    ]
    await sql.run("write_progress", json.dumps(rows))


async def done(sql: Session) -> dict[int, float]:
    """The progress that the view shows: job -> how much of it is done."""
    return {row["job_id"]: row["done"] for row in await sql.rows("select job_id, done from asyncq.progress")}


async def rows(sql: Session) -> int:
    """The number of stored rows."""
    return await sql.value("select count(*) from asyncq._progress")
