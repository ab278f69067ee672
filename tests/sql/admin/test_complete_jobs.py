"""`complete_jobs`: jobs that do not run end as completed."""

import pytest

from tests.support.keyed import KEY, add_one, hold, stored
from tests.support.session import Session

COMPLETE = "select * from asyncq.complete_jobs($1)"


@pytest.mark.parametrize("state", ["scheduled", "available", "retryable", "discarded"])
async def test_a_job_that_waits_or_has_failed_ends(sql: Session, state: str) -> None:
    """The returned row is as it was before its deletion."""
    job = await hold(sql, state)
    before = dict(await sql.row("select * from asyncq.jobs"))
    (row,) = await sql.rows(COMPLETE, [job["id"]])

    assert (before, {}) == (dict(row), await stored(sql))


async def test_a_job_that_is_to_be_kept_is_kept_as_completed(sql: Session) -> None:
    """A unique period over completed jobs must not end by an administrator's call."""
    job = await hold(sql, "retryable")
    await sql.rows("update asyncq._jobs set keep_until = now() + interval '1 h', keep_states = '{completed}'")
    await sql.rows(COMPLETE, [job["id"]])

    assert [(job["id"], "completed")] == [
        tuple(row) for row in await sql.rows("select id, state from asyncq._ended_jobs")
    ]


async def test_its_key_is_free(sql: Session) -> None:
    """A run that ends well frees it too."""
    job = await hold(sql, "discarded")
    await sql.rows(COMPLETE, [job["id"]])

    assert ("added", None) == (await add_one(sql))[::2]
    assert [KEY] == [row["key"] for row in (await stored(sql)).values()]
