"""Helpers for the steps of jobs in SQL: store one as a worker does, and read them."""

from collections.abc import Mapping
from typing import Any

from tests.support.jobs import WORKER
from tests.support.session import Session


async def store(sql: Session, claim: Mapping[str, Any], name: str = "s", worker: int = WORKER) -> bool:
    """Store a step of a claim; returns whether the claim exists."""
    ids = claim["id"], claim["lock_token"]
    return await sql.value("select asyncq._store_step($1, $2, $3, $4, '[1]')", worker, *ids, name)


async def stored(sql: Session) -> list[int]:
    """The job of each stored step."""
    return await sql.values("select job_id from asyncq._steps order by job_id")
