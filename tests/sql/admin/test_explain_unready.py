"""`_explain_unready`: the explanation for a running job."""

import pytest

from tests.sql.admin.test_explain import EXPLAIN, reasons, worker
from tests.support.jobs import add, fetch
from tests.support.session import Session


async def test_the_worker_of_a_running_job_is_named_with_the_time_of_the_claim(sql: Session) -> None:
    """The worker is given by its number, its host and its process."""
    job = await add(sql)
    me = await worker(sql, "t")
    await fetch(sql, worker=me)
    row = await sql.row(EXPLAIN, job)

    assert "running" == row["reason"]
    assert row["detail"].startswith(f"runs on worker {me} (h, process 1) since ")


@pytest.mark.parametrize(
    "end", ["delete from asyncq._workers", "update asyncq._workers set last_seen = now() - lease * 2"]
)
async def test_a_job_whose_worker_has_died_is_explained(sql: Session, end: str) -> None:
    """It does not run, and a rescue returns it."""
    job = await add(sql)
    me = await worker(sql, "t")
    await fetch(sql, worker=me)
    await sql.execute(end)
    row = await sql.row(EXPLAIN, job)

    assert row["detail"].startswith(f"was taken by worker {me}, which is not alive: another worker will return it")


@pytest.mark.parametrize(
    "change",
    [
        "select asyncq.add_job('t', job_key := 'k')",
        "select asyncq.remove_job('k')",
        "update asyncq._jobs set attempts = 24",
    ],
)
async def test_a_job_that_will_not_be_retried_is_explained(sql: Session, change: str) -> None:
    """Its key was taken by a newer request or removed, or its attempts are used up."""
    job = await sql.value("select id from asyncq.add_job('t', job_key := 'k')")
    await fetch(sql)
    before = await reasons(sql, job)
    await sql.execute(change)

    assert (["running"], ["running", "last_attempt"]) == (before, await reasons(sql, job))


async def test_a_running_job_that_was_cancelled_is_explained_as_such_first(sql: Session) -> None:
    """For all other callers the job has ended."""
    job = await add(sql)
    await fetch(sql)
    await sql.rows("update asyncq._jobs set cancelled_at = now()")

    assert ["cancelled", "running"] == await reasons(sql, job)
