"""`_state`: the state of a job's row, derived only here."""

import pytest

from tests.support.session import Session

STATES = [
    # run_at, attempts of 3, claimed -> state
    ("now()", 0, False, "available"),
    ("now() - interval '1 day'", 0, False, "available"),
    ("now() + interval '1 us'", 0, False, "scheduled"),
    ("now()", 1, False, "available"),
    ("now() + interval '1 us'", 1, False, "retryable"),
    ("now()", 3, False, "discarded"),
    ("now() + interval '1 us'", 3, False, "discarded"),
    ("now()", 4, False, "discarded"),
    ("now()", 0, True, "active"),
    ("now() + interval '1 us'", 2, True, "active"),
    ("now()", 3, True, "active"),
]


@pytest.mark.parametrize(("run_at", "attempts", "claimed", "state"), STATES)
async def test_the_state_of_a_row(sql: Session, run_at: str, attempts: int, claimed: bool, state: str) -> None:
    """The table has every state, with the names of the Open Job Spec."""
    await sql.execute(f"""
        select asyncq.add_job('t', run_at := {run_at}, max_attempts := 3);
        update asyncq._jobs set attempts = {attempts};""")
    if claimed:
        await sql.execute("update asyncq._jobs set locked_by = 1, locked_at = now(), lock_token = 1")

    assert state == await sql.value("select asyncq._state(job) from asyncq._jobs as job")


async def test_the_view_counts_the_running_attempt(sql: Session) -> None:
    """Readers know it from graphile-worker: attempts that began, not those that failed."""
    await sql.execute("select asyncq.add_job('t'); update asyncq._jobs set attempts = 2")
    waiting = await sql.value("select attempts from asyncq.jobs")
    await sql.execute("update asyncq._jobs set locked_by = 7, locked_at = now(), lock_token = 1")

    assert (2, 3) == (waiting, await sql.value("select attempts from asyncq.jobs"))
    assert "7" == await sql.value("select locked_by from asyncq.jobs")


async def test_a_running_job_that_was_cancelled_is_cancelled(sql: Session) -> None:
    """Its handler may need a while; an add under its key does not have to wait for that."""
    await sql.execute("""
        select asyncq.add_job('t');
        update asyncq._jobs set locked_by = 1, locked_at = now(), lock_token = 1, cancelled_at = now()""")

    assert "cancelled" == await sql.value("select asyncq._state(job) from asyncq._jobs as job")
