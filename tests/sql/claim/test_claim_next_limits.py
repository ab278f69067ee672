"""`claim_next` beside limits: a start that a total or a rate has to count is left to a fetch."""

import json
from typing import Any

import pytest

from tests.support.jobs import COUNTED, add, claim_next, fetch, fetched
from tests.support.session import Session

WRONG = "select id, running, jobs from asyncq._partition_counts() where running <> jobs"


async def declare(sql: Session, limits: dict[str, Any], queues: dict[str, Any]) -> None:
    """Declare limits by the names of their tasks, `a` and `b`, and those of queues."""
    await sql.rows("select asyncq._store_tasks('{a,b}')")
    declaration = {
        "limits": [{"name": name, **values} for name, values in limits.items()],
        "tasks": [{"identifier": task, "limit": task if task in limits else None, "by": None} for task in "ab"],
        "queues": [{"name": name, **values} for name, values in queues.items()],
    }
    await sql.run("declare_limits", json.dumps(declaration), "worker 1")
    await sql.execute(COUNTED)


async def follow(sql: Session, first: str, second: str) -> list[int]:
    """End a job of one task, behind which one of another task waits in its queue. Returns the ids that are claimed."""
    await add(sql, first, queue="q")
    (claim,) = [claim for claim in await fetch(sql) if claim["queue"] == "q"]
    await add(sql, second, queue="q")
    _, claims = await claim_next(sql, [claim])
    return [each["id"] for each in claims]


async def test_a_total_counts_a_job_that_follows_one_of_another_task(sql: Session) -> None:
    """Else more jobs would run than the total says."""
    await declare(sql, {"a": {"total": 1}}, {})
    await add(sql, "a", queue="other")

    assert [] == await follow(sql, "b", "a")
    assert [] == await fetched(sql)
    assert [] == await sql.rows(WRONG)


async def test_a_total_does_not_count_a_job_whose_place_another_task_has_taken(sql: Session) -> None:
    """Else its slot would be lost."""
    await declare(sql, {"a": {"total": 1}}, {})

    assert [] == await follow(sql, "a", "b")
    assert 1 == len(await fetched(sql))
    assert [] == await sql.rows(WRONG)


async def test_the_next_job_of_the_same_total_follows_at_once(sql: Session) -> None:
    """As many run as before."""
    await declare(sql, {"a": {"total": 1}}, {})

    assert 1 == len(await follow(sql, "a", "a"))
    assert [] == await sql.rows(WRONG)


async def test_no_job_follows_while_more_run_than_a_total_allows(sql: Session) -> None:
    """The total was lowered meanwhile."""
    await declare(sql, {"a": {"total": 2}}, {})
    await add(sql, "a", queue="q")
    await add(sql, "a", queue="other")
    claims = await fetch(sql)
    await add(sql, "a", queue="q")
    await declare(sql, {"a": {"total": 1}}, {})
    _, following = await claim_next(sql, [claim for claim in claims if claim["queue"] == "q"])

    assert (2, [], []) == (len(claims), following, await fetched(sql))


@pytest.mark.parametrize(
    ("limits", "queues"),
    [({"a": {"total_rate": 1, "total_per_s": 60}}, {}), ({}, {"q": {"at_once": 1, "rate": 1, "per_s": 60}})],
    ids=["of a task", "of a queue"],
)
async def test_a_rate_counts_the_job_that_follows(sql: Session, limits: Any, queues: Any) -> None:
    """Else a queue whose jobs follow each other would start as many as it can."""
    await declare(sql, limits, queues)

    assert [] == await follow(sql, "a", "a")
    assert [] == await fetched(sql)
