"""`_cancel_running`: a running job is marked and its worker notified; waiting jobs do not change."""

from tests.support.session import Session


async def test_a_running_job_is_cancelled_and_frees_its_key(sql: Session) -> None:
    """The handler still runs, so the row stays. For all other callers the job has ended."""
    await sql.execute("""
        select asyncq.add_job('t', job_key := 'k');
        update asyncq._jobs set locked_by = 7, locked_at = now(), lock_token = 9, rerun = '{}';
        select asyncq._cancel_running(array(select id from asyncq._jobs))""")
    row = await sql.row("""
        select asyncq._state(job) as state, key, locked_by, lock_token, rerun::text, cancelled_at is not null as marked
        from asyncq._jobs as job""")

    assert ("cancelled", None, 7, 9, None, True) == tuple(row)


async def test_a_waiting_job_is_not_touched(sql: Session) -> None:
    """Its run may have ended between the read and the lock: the holder of the lock decides."""
    await sql.execute("""
        select asyncq.add_job('t', job_key := 'k');
        select asyncq._cancel_running(array(select id from asyncq._jobs))""")

    assert "k" == await sql.value("select key from asyncq._jobs where cancelled_at is null")


async def test_a_second_cancel_keeps_the_first_instant(sql: Session) -> None:
    """It only notifies the worker once more."""
    await sql.execute("""
        select asyncq.add_job('t');
        update asyncq._jobs set locked_by = 7, locked_at = now(), lock_token = 9;
        select asyncq._cancel_running(array(select id from asyncq._jobs));
        update asyncq._jobs set cancelled_at = '2026-01-01';
        select asyncq._cancel_running(array(select id from asyncq._jobs))""")

    assert await sql.value("select cancelled_at = '2026-01-01' from asyncq._jobs")
