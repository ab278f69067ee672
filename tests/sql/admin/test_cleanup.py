"""`cleanup`: the rows that each of graphile-worker's names removes, and the rows that stay."""

import pytest

from tests.support.jobs import add, fetch
from tests.support.keyed import STATES, hold, stored
from tests.support.session import Session

CLEANUP = "select task, removed from asyncq.cleanup($1)"


async def test_jobs_that_are_discarded_are_deleted(sql: Session) -> None:
    """They may even have more attempts than allowed, which graphile-worker forgets. All others stay."""
    kept = [(await hold(sql, state, key=state))["id"] for state in STATES if state != "discarded"]
    await hold(sql, "discarded")
    await hold(sql, "discarded", key="more")
    await sql.rows("update asyncq._jobs set attempts = 20 where key = 'more'")
    rows = await sql.rows(CLEANUP, ["DELETE_PERMAFAILED_JOBS"])

    assert [("DELETE_PERMAFAILED_JOBS", 2)] == [tuple(row) for row in rows]
    assert kept == list(await stored(sql))


async def test_a_deleted_job_that_asked_to_be_kept_is_kept(sql: Session) -> None:
    """It is kept as discarded, so that a unique period over discarded jobs goes on."""
    await hold(sql, "discarded")
    await sql.rows("update asyncq._jobs set keep_until = now() + interval '1 h', keep_states = '{discarded}'")
    await sql.rows(CLEANUP, ["DELETE_PERMAFAILED_JOBS"])

    assert ["discarded"] == await sql.values("select state from asyncq._ended_jobs")


async def test_by_default_only_unused_names_are_deleted(sql: Session) -> None:
    """Only names are removed. Discarded jobs stay until they are requested."""
    await hold(sql, "discarded")
    rows = await sql.rows("select task, removed from asyncq.cleanup()")

    assert [("GC_JOB_QUEUES", 0), ("GC_TASK_IDENTIFIERS", 0)] == [tuple(row) for row in rows]
    assert 1 == len(await stored(sql))


async def test_queues_need_no_cleanup(sql: Session) -> None:
    """The name is accepted, since scripts use it."""
    await add(sql, queue="q")
    claims = await fetch(sql)
    rows = await sql.rows(CLEANUP, ["GC_JOB_QUEUES"])

    assert ([("GC_JOB_QUEUES", 0)], 1) == ([tuple(row) for row in rows], len(claims))


@pytest.mark.parametrize("tasks", [[], None])
async def test_null_does_nothing(sql: Session, tasks: list[str] | None) -> None:
    """Null does not mean the default; a missing argument does."""
    await hold(sql, "discarded")

    assert [] == await sql.rows(CLEANUP, tasks)


@pytest.mark.parametrize("tasks", [["GC_WORKERS"], ["GC_JOB_QUEUES", "gc_task_identifiers"], [""], [None]])
async def test_an_unknown_task_is_an_error(sql: Session, tasks: list[str | None]) -> None:
    """Known ones in the call are not executed either."""
    error = await sql.refusal(CLEANUP, tasks)

    assert ("22023", "tasks") == (error.sqlstate, error.column_name)
    assert "expected DELETE_PERMAFAILED_JOBS, GC_JOB_QUEUES or GC_TASK_IDENTIFIERS" in str(error)
