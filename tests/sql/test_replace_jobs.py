"""`_replace_jobs`: what is replaced makes room; the states are tested with the table of unique jobs."""

import json
from typing import Any

import anyio

from tests.sql.jobs import fetch
from tests.sql.session import Session, session
from tests.sql.unique import ALL_STATES, hold, left
from tests.store.test_key_races import is_waiting
from tests.waiting import wait_until

REPLACE = "select asyncq._replace_jobs($1::text[]::jsonb[], $2::text[], $3::bigint[], asyncq.clock())"


async def dedupe(sql: Session, task: str, **policy: Any) -> str:
    """What an add that replaces asks."""
    policy = {"states": ALL_STATES, "on_conflict": "replace"} | policy
    return await sql.value(
        "select asyncq._dedupe($2::text::jsonb, $1, null, null, null)::text", task, json.dumps({"unique": policy})
    )


async def test_only_adds_that_have_an_existing_job_replace(sql: Session) -> None:
    """One that was dropped has one too, one that is simply added has none."""
    jobs = {task: await hold(sql, "available", task=task) for task in ("a", "b", "c", "d")}
    outcomes = {"a": "added", "b": "deduplicated", "c": "rejected", "d": "added"}
    await sql.rows(
        REPLACE,
        [await dedupe(sql, task) for task in jobs],
        [*outcomes.values()],
        [jobs["a"], jobs["b"], jobs["c"], None],
    )

    assert {jobs[task] for task in "bcd"} == set(await left(sql))


async def test_a_job_that_came_back_from_the_dead_is_locked_before_it_ends(dsn: str, own: Session) -> None:
    """It was not held when the gates were passed: a worker may be taking it, and must then be told."""
    job = await hold(own, "available")
    asked = await dedupe(own, "t", states=["available", "active"])
    async with session(dsn, own.schema) as other, session(dsn, own.schema) as watcher:
        transaction = own.connection.transaction()
        await transaction.start()
        await fetch(own, token=3)
        async with anyio.create_task_group() as group:
            group.start_soon(other.rows, REPLACE, [asked], ["added"], [job])
            await wait_until(lambda: is_waiting(watcher, other), description="the replacement to wait")
            await transaction.commit()
    found = await left(own)
    await own.execute("delete from asyncq._jobs")

    assert {job: ("cancelled", True)} == found
