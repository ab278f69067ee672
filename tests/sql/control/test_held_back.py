"""`held_back`: how many due jobs a limit, a rate or a pause holds back, for the event of a worker that stops."""

import pytest

from asyncq.store.arrays import array_text
from tests.sql.control.test_declare_limits import declare
from tests.support.jobs import add, add_many, fetched
from tests.support.session import Session


async def held_back(sql: Session, *tasks: str) -> dict[str, int]:
    """The jobs of these tasks that are held back."""
    ids = await sql.values("select id from asyncq._tasks where identifier = any($1)", list(tasks))
    return {row["identifier"]: row["jobs"] for row in await sql.run("held_back", array_text(ids))}


async def test_due_jobs_that_wait_for_a_limit_or_a_pause_are_counted_by_task(sql: Session) -> None:
    """Not those that run, are due later, have no partition, or are of tasks that the worker does not know."""
    await declare(sql, t={"total": 1}, u={"at_once": 1, "by": ["k"]})
    for task in ("t", "t", "t", "u", "u", "plain"):
        await add(sql, task)
    await add(sql, "unknown", queue="q")
    await add(sql, run_at="asyncq.now() + interval '1 h'")
    await fetched(sql)
    await add(sql, "paused", queue="paused")
    await sql.rows("select asyncq.pause(queue => 'paused')")

    assert {"paused": 1, "t": 2, "u": 1} == await held_back(sql, "t", "u", "plain", "paused")
    assert {} == await held_back(sql)


@pytest.mark.parametrize("jobs", [999, 1001])
async def test_at_most_a_thousand_jobs_are_looked_at(sql: Session, jobs: int) -> None:
    """The worker stops: it has no time to count a backlog."""
    await add_many(sql, jobs, queue="'q'")

    assert {"t": min(jobs, 1000)} == await held_back(sql, "t")
