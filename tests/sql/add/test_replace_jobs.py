"""`_replace_jobs`: what is replaced makes room; the states are tested with the table of unique jobs."""

import json
from typing import Any

from tests.support.session import Session
from tests.support.unique import ALL_STATES, hold, left

REPLACE = "select asyncq._replace_jobs($1::text[]::jsonb[], $2::text[], $3::bigint[], asyncq.clock())"


async def extra(sql: Session, task: str, **policy: Any) -> str:
    """What an add that replaces asks."""
    policy = {"states": ALL_STATES, "on_conflict": "replace"} | policy
    return await sql.value(
        "select asyncq._extra($2::text::jsonb, $1, null, null, null)::text", task, json.dumps({"unique": policy})
    )


async def test_only_adds_that_have_an_existing_job_replace(sql: Session) -> None:
    """One that was dropped has one too, one that is simply added has none."""
    jobs = {task: await hold(sql, "available", task=task) for task in ("a", "b", "c", "d")}
    outcomes = {"a": "added", "b": "deduplicated", "c": "rejected", "d": "added"}
    await sql.rows(
        REPLACE,
        [await extra(sql, task) for task in jobs],
        [*outcomes.values()],
        [jobs["a"], jobs["b"], jobs["c"], None],
    )

    assert {jobs[task] for task in "bcd"} == set(await left(sql))
