"""Helpers of the tests of jobs that wait for others: adds with `after`, looks, what is left."""

import json
from collections.abc import Sequence

from tests.support.laws import LAWS
from tests.support.session import Session

ADD = "select id from asyncq.add_job($1, options => $2::text::jsonb)"
MOST = 500
OF_WAITS = ("stale_closing", "lost_waiter", "lost_edge", "unmarked_job", "ended_twice")


async def wait_for(
    sql: Session, *awaited: int, if_failed: str | None = None, task: str = "w", **options: object
) -> int:
    """Add a job that waits for others. Returns its id."""
    given = {"after": awaited, **({} if if_failed is None else {"if_failed": if_failed}), **options}
    return await sql.value(ADD, task, json.dumps(given))


async def look(sql: Session, most: int = MOST) -> list[tuple[str, int, int | None]]:
    """Look at all ends, at most so many in a call. Returns the outcomes."""
    found: list[tuple[str, int, int | None]] = []
    after: int | None = 0
    while after is not None:
        rows = await sql.run("look", after, most)
        found += [tuple(row) for row in rows if row["outcome"] != "next"]
        after = next((row["waiter"] for row in rows if row["outcome"] == "next"), None)
    return found


async def state(sql: Session, job: int) -> str | None:
    """The state of a job; None if it has ended and is not kept."""
    states = await sql.values(
        "select asyncq._state(job) from asyncq._all_jobs() as job where job.id = $1"
        " union all select state from asyncq._ended_jobs where id = $1",
        job,
    )
    return states[0] if states else None


async def states(sql: Session, jobs: Sequence[int]) -> list[str | None]:
    """The states of several jobs."""
    return [await state(sql, job) for job in jobs]


async def left(sql: Session) -> tuple[int, int]:
    """How many edges and closings there are."""
    row = await sql.row(
        "select (select count(*) from asyncq._waits) as waits, (select count(*) from asyncq._closings) as closings"
    )
    return row["waits"], row["closings"]


async def broken_laws(sql: Session) -> list[str]:
    """The laws about waiting jobs that are broken."""
    rows = await sql.rows(LAWS)
    return [f"{law} {job}: {said}" for law, job, said in rows if law in OF_WAITS]
