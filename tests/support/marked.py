"""Helpers for marked jobs: running ones that were cancelled or asked for again, and those to be kept."""

from collections.abc import Sequence
from typing import Any

from tests.support.session import Session

CANCEL = "select from asyncq.cancel_jobs(array[$1::bigint])"
ASK_AGAIN = "update asyncq._jobs set rerun = '{\"again\": 1}' where id = $1 and locked_by is not null"
KEEP = """
update asyncq._jobs set unique_key = sha256('k'), keep_until = asyncq.now() + interval '1 h', keep_states = $2
where id = $1
"""
ENDED = "select id, state from asyncq._ended_jobs order by id"

ALL_ENDS = ["completed", "cancelled", "discarded"]


async def keep(sql: Session, job: int, states: Sequence[str] = ALL_ENDS) -> None:
    """Ask for a job to be kept, for an hour, once it has ended in one of these states."""
    await sql.rows(KEEP, job, states)


async def ended(sql: Session) -> list[tuple[int, str]]:
    """The ended jobs that are kept: id and state."""
    return [tuple(row) for row in await sql.rows(ENDED)]


async def only(sql: Session) -> dict[str, Any]:
    """The only job's row."""
    return dict(await sql.row("select * from asyncq._jobs"))
