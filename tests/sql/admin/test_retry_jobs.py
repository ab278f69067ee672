"""`retry_jobs`: failed jobs start again with zero attempts."""

import pytest

from tests.support.jobs import add, fetched
from tests.support.keyed import hold, stored
from tests.support.session import Session

RETRY = "select * from asyncq.retry_jobs($1)"


@pytest.mark.parametrize("state", ["retryable", "discarded"])
async def test_a_job_that_has_failed_is_due_with_all_its_attempts(sql: Session, state: str) -> None:
    """last_error stays: it says what was wrong, until the next failure."""
    job = await hold(sql, state)
    (row,) = await sql.rows(RETRY, [job["id"]])
    now = await sql.value("select now()")

    assert {**job, "attempts": 0, "interruptions": 0, "run_at": now, "updated_at": now} == (await stored(sql))[
        job["id"]
    ]
    assert (0, now, "e") == (row["attempts"], row["run_at"], row["last_error"])
    assert [job["id"]] == await fetched(sql)


async def test_a_failed_job_that_is_due_again_gets_its_attempts_back(sql: Session) -> None:
    """Its wait is over, its worker may be down: it is `available`, and has failed all the same."""
    job = await hold(sql, "retryable")
    await sql.rows("update asyncq._jobs set run_at = now()")
    (row,) = await sql.rows(RETRY, [job["id"]])

    assert 0 == row["attempts"]


@pytest.mark.parametrize("state", ["scheduled", "available"])
async def test_a_job_that_has_never_failed_is_left_alone(sql: Session, state: str) -> None:
    """It is no retry; reschedule_jobs makes a scheduled one due."""
    job = await hold(sql, state)

    assert [] == await sql.rows(RETRY, [job["id"]])
    assert job == (await stored(sql))[job["id"]]


async def test_it_comes_after_jobs_that_are_due_already(sql: Session) -> None:
    """Among equal jobs its time is now."""
    failed = await hold(sql, "discarded")
    earlier = await add(sql, priority=failed["priority"], run_at="now() - interval '1 s'")
    await sql.rows(RETRY, [failed["id"]])

    assert [earlier, failed["id"]] == await fetched(sql)


async def test_a_job_that_was_discarded_by_hand_has_no_time_limit_after_a_retry(sql: Session) -> None:
    """It never began, and is wanted now."""
    job = await add(sql)
    await sql.execute("update asyncq._jobs set expires_at = now(), deadline_at = now(), attempts = max_attempts")
    await sql.rows(RETRY, [job])

    assert await sql.value("select expires_at is null and deadline_at is null from asyncq._jobs")
