"""`cleanup`: what it removes, by graphile-worker's words, and what it leaves."""

import pytest

from tests.support.jobs import add, fetch
from tests.support.keyed import STATES, hold, stored
from tests.support.session import Session

CLEANUP = "select task, removed from asyncq.cleanup($1)"


async def test_jobs_that_are_discarded_are_deleted(sql: Session) -> None:
    """Also those with more attempts than there are, which graphile-worker forgets; all others stay."""
    kept = [(await hold(sql, state, key=state))["id"] for state in STATES if state != "discarded"]
    await hold(sql, "discarded")
    await hold(sql, "discarded", key="more")
    await sql.rows("update asyncq._jobs set attempts = 20 where key = 'more'")
    rows = await sql.rows(CLEANUP, ["DELETE_PERMAFAILED_JOBS"])

    assert [("DELETE_PERMAFAILED_JOBS", 2)] == [tuple(row) for row in rows]
    assert kept == list(await stored(sql))


async def test_a_deleted_job_that_asked_to_be_kept_is_kept(sql: Session) -> None:
    """As discarded: a unique window that counts those goes on."""
    await hold(sql, "discarded")
    await sql.rows("update asyncq._jobs set keep_until = now() + interval '1 h', keep_states = '{discarded}'")
    await sql.rows(CLEANUP, ["DELETE_PERMAFAILED_JOBS"])

    assert ["discarded"] == await sql.values("select state from asyncq._ended_jobs")


async def test_by_default_nothing_is_deleted_that_anybody_could_miss(sql: Session) -> None:
    """Names only: jobs that have failed stay until somebody says so."""
    await hold(sql, "discarded")
    rows = await sql.rows("select task, removed from asyncq.cleanup()")

    assert [("GC_JOB_QUEUES", 0), ("GC_TASK_IDENTIFIERS", 0)] == [tuple(row) for row in rows]
    assert 1 == len(await stored(sql))


async def test_queues_need_no_cleanup(sql: Session) -> None:
    """The word is accepted: scripts say it."""
    await add(sql, queue="q")
    claims = await fetch(sql)
    rows = await sql.rows(CLEANUP, ["GC_JOB_QUEUES"])

    assert ([("GC_JOB_QUEUES", 0)], 1) == ([tuple(row) for row in rows], len(claims))


@pytest.mark.parametrize("tasks", [[], None])
async def test_nothing_asked_is_nothing_done(sql: Session, tasks: list[str] | None) -> None:
    """Null is not the default: that is to leave the argument out."""
    await hold(sql, "discarded")

    assert [] == await sql.rows(CLEANUP, tasks)


@pytest.mark.parametrize("tasks", [["GC_WORKERS"], ["GC_JOB_QUEUES", "gc_task_identifiers"], [""], [None]])
async def test_an_unknown_task_is_an_error(sql: Session, tasks: list[str | None]) -> None:
    """And nothing is done, of the known ones too."""
    error = await sql.refusal(CLEANUP, tasks)

    assert ("22023", "tasks") == (error.sqlstate, error.column_name)
    assert "expected DELETE_PERMAFAILED_JOBS, GC_JOB_QUEUES or GC_TASK_IDENTIFIERS" in str(error)
