"""`next_due`: for how long a worker with nothing to do may sleep."""

import pytest

from tests.sql.control.test_declare_limits import declare
from tests.support.jobs import COUNTED, add, complete, fetch
from tests.support.session import Session


async def due_in(sql: Session, since_s: float = 0.5) -> float | None:
    """The answer."""
    (row,) = await sql.run("next_due", since_s, None, None, None, None, None, None)
    return row["delay_s"]


@pytest.mark.parametrize("queue", [None, "q"])
async def test_the_next_job_is_waited_for(sql: Session, queue: str | None) -> None:
    """The earliest time of all priorities counts, in seconds to the microsecond."""
    await add(sql, queue=queue, run_at="now() + interval '10 s'", priority=-1)
    await add(sql, queue=queue, run_at="now() + interval '2.000001 s'")
    await add(sql, queue=queue, run_at="now() + interval '5 s'", priority=1)

    assert 2.000001 == await due_in(sql)


async def test_without_a_job_there_is_nothing_to_wait_for(sql: Session) -> None:
    """The worker sleeps until it is woken, or until the poll."""
    assert await due_in(sql) is None


async def test_jobs_that_will_never_be_fetched_are_not_waited_for(sql: Session) -> None:
    """Claimed and discarded jobs are ignored."""
    await add(sql)
    await add(sql, queue="q")
    await fetch(sql)
    await add(sql, max_attempts=1, run_at="now() + interval '1 s'")
    await sql.execute("update asyncq._jobs set attempts = 1 where max_attempts = 1")

    assert await due_in(sql) is None


@pytest.mark.parametrize("queue", [None, "q"])
async def test_a_job_that_became_due_since_the_last_fetch_is_not_missed(sql: Session, queue: str | None) -> None:
    """It became due after that fetch's snapshot, and no notification announces it."""
    await add(sql, queue=queue, run_at="now() - interval '0.4 s'")

    assert -0.4 == await due_in(sql, 0.5)


@pytest.mark.parametrize("queue", [None, "q"])
async def test_a_job_that_was_due_before_the_last_fetch_is_no_reason_to_fetch_again(
    sql: Session, queue: str | None
) -> None:
    """The fetch has skipped it: its queue is busy, or its task unknown. Otherwise the worker would fetch for ever."""
    await add(sql, queue=queue, run_at="now() - interval '0.6 s'")
    await add(sql, queue=queue, run_at="now() + interval '3 s'")

    assert 3.0 == await due_in(sql, 0.5)


async def test_the_time_may_be_given(sql: Session) -> None:
    """Tests that move the time use it."""
    await add(sql, run_at="now() + interval '10 s'")
    (row,) = await sql.run(
        "next_due", 0.5, await sql.value("select now() + interval '4 s'"), None, None, None, None, None
    )

    assert 6.0 == row["delay_s"]


async def test_the_last_moment_of_the_calendar_has_a_distance(sql: Session) -> None:
    """People park jobs at the end of time."""
    await add(sql, run_at="'9999-12-31 23:59:59+00'")

    assert 2e11 < await due_in(sql)


async def test_before_a_cursor_no_job_without_a_queue_counts(sql: Session) -> None:
    """A held snapshot keeps dead entries there. A scan from the start finds jobs among them."""
    place = await add(sql, run_at="now() - interval '5 s'")
    await add(sql, run_at="now() + interval '9 s'")
    await add(sql, run_at="now() + interval '1 s'", priority=-1)
    run_at = await sql.value("select run_at from asyncq._jobs where id = $1", place)
    (row,) = await sql.run("next_due", 0.5, None, 0, run_at, place, None, None)
    await add(sql, queue="q", run_at="now() + interval '2 s'")
    (queued,) = await sql.run("next_due", 0.5, None, 0, run_at, place, None, None)

    assert (9.0, 2.0) == (row["delay_s"], queued["delay_s"])


@pytest.mark.parametrize("queue", [None, "q"])
async def test_jobs_behind_a_full_total_are_not_waited_for_until_a_claim_has_ended(
    sql: Session, queue: str | None
) -> None:
    """No fetch could take them. The end counts although no fetch has counted it yet. Other tasks are not concerned."""
    await declare(sql, t={"total": 1})
    await sql.execute(COUNTED)
    await add(sql)
    claims = await fetch(sql)
    await add(sql, queue=queue)
    full = await due_in(sql, 6e10)
    await add(sql, "other", queue="other", run_at="now() + interval '3 s'")
    beside = await due_in(sql, 6e10)
    await complete(sql, claims)
    after = await due_in(sql, 6e10)

    assert (None, 3.0, True) == (full, beside, after is not None and after <= 0)


async def test_jobs_behind_a_used_rate_are_waited_for_until_it_allows_more(sql: Session) -> None:
    """At that time the fetch that used it up has left a wakeup."""
    await declare(sql, t={"total_rate": 1, "total_per_s": 60})
    for _ in range(2):
        await add(sql)
    await fetch(sql)
    used = await due_in(sql, 6e10)

    assert used is not None
    assert 50 < used < 80
