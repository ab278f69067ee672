"""`permanently_fail_jobs`: it discards jobs that do not run."""

import pytest

from tests.support.jobs import fetch
from tests.support.keyed import add_one, hold, stored
from tests.support.session import Session

FAIL = "select * from asyncq.permanently_fail_jobs($1)"
FAIL_WITH = "select * from asyncq.permanently_fail_jobs($1, $2)"


@pytest.mark.parametrize("state", ["scheduled", "available", "retryable", "discarded"])
async def test_no_attempt_is_left(sql: Session, state: str) -> None:
    """The message says who did it; run_at, revision and key stay."""
    job = await hold(sql, state)
    (row,) = await sql.rows(FAIL, [job["id"]])
    after = (await stored(sql))[job["id"]]
    now = await sql.value("select now()")

    assert {**job, "attempts": 7, "last_error": "Manually marked as failed", "updated_at": now} == after
    assert (7, 7, "Manually marked as failed") == (row["attempts"], row["max_attempts"], row["last_error"])
    assert [] == await fetch(sql)


@pytest.mark.parametrize(
    ("said", "expected"), [("bad order", "bad order"), ("", ""), (None, "Manually marked as failed")]
)
async def test_the_message_is_the_last_error(sql: Session, said: str | None, expected: str) -> None:
    """Null is the default; an empty text is a text."""
    job = await hold(sql, "available")
    (row,) = await sql.rows(FAIL_WITH, [job["id"]], said)

    assert expected == row["last_error"]


async def test_more_attempts_than_there_are_become_as_many(sql: Session) -> None:
    """A reschedule may have lowered max_attempts before."""
    job = await hold(sql, "discarded")
    await sql.rows("update asyncq._jobs set attempts = 20")
    (row,) = await sql.rows(FAIL, [job["id"]])

    assert 7 == row["attempts"]


async def test_the_job_is_discarded(sql: Session) -> None:
    """It is a state of the Open Job Spec."""
    job = await hold(sql, "available")
    await sql.rows(FAIL, [job["id"]])

    assert "discarded" == await sql.value("select asyncq._state(job) from asyncq._jobs as job")


async def test_it_has_its_key_until_another_job_is_added(sql: Session) -> None:
    """A job that failed by itself keeps its key too."""
    job = await hold(sql, "available")
    await sql.rows(FAIL, [job["id"]])
    done = await add_one(sql)

    assert ("added", job["id"], "discarded") == (done.outcome, done.existing_id, done.existing_state)
    assert (None, "k") == tuple(row["key"] for row in (await stored(sql)).values())
