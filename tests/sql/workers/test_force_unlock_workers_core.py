"""`_force_unlock_workers`: what becomes of jobs that were cancelled, or asked for again, while they ran."""

import pytest

from tests.support.jobs import add, fetch, fetched
from tests.support.session import Session

UNLOCK = "select document::json ->> 'id' as id from asyncq._force_unlock_workers('{7}')"


async def test_a_job_that_was_cancelled_ends_as_cancelled(sql: Session) -> None:
    """For everybody else it was that already."""
    job = await add(sql)
    await fetch(sql, worker=7)
    await sql.rows("""
        update asyncq._jobs
        set cancelled_at = now(), keep_until = now() + interval '1 h', keep_states = '{cancelled}'""")
    touched = await sql.values(UNLOCK)

    assert [str(job)] == touched
    assert (0, "cancelled") == (
        await sql.value("select count(*) from asyncq._jobs"),
        await sql.value("select state from asyncq._ended_jobs"),
    )


async def test_a_job_that_was_asked_for_again_begins_anew(sql: Session) -> None:
    """With the payload of that request, whatever the run that was dropped would have come to."""
    job = await add(sql)
    await fetch(sql, worker=7)
    await sql.rows("""update asyncq._jobs set attempts = 24, rerun = '{"new": 1}'""")
    await sql.values(UNLOCK)
    row = await sql.row("select payload::text, rerun, attempts from asyncq._jobs")

    assert ('{"new": 1}', None, 0) == tuple(row)
    assert [job] == await fetched(sql)


async def test_the_last_attempt_was_the_last(sql: Session) -> None:
    """No attempt is given back."""
    await add(sql, max_attempts=1)
    await fetch(sql, worker=7)
    await sql.values(UNLOCK)

    assert ("discarded", []) == (
        await sql.value("select asyncq._state(job) from asyncq._jobs as job"),
        await fetched(sql),
    )


async def test_the_workers_lose_their_rows_and_are_told(own: Session) -> None:
    """One that lives after all cancels its handlers, instead of running on beside the next run."""
    heard: list[object] = []
    (row,) = await own.run("register_worker", 30.0, 1, 1, "h", [], 0)
    await own.connection.add_listener(f"{own.schema}:cancel", lambda *said: heard.append(said[3]))
    await own.rows("select from asyncq._force_unlock_workers($1)", [str(row["id"])])
    await own.rows("select")

    assert ([f"{row['id']} 0 0"], 0) == (heard, await own.value("select count(*) from asyncq._workers"))


@pytest.mark.parametrize(("given", "during"), [("0", "10s"), ("20s", "10s"), ("2s", "2s")])
async def test_no_claim_is_waited_for_for_ever(sql: Session, given: str, during: str) -> None:
    """Ten seconds, if the caller has no less patience; which is the same afterwards."""
    await sql.execute(f"""
        set local lock_timeout = '{given}';
        create table pg_temp.seen (patience text);
        create or replace function asyncq._end_transactions(workers int[] default null)
          returns table (worker_id int, job_id bigint) language sql
          as $$
            insert into pg_temp.seen values (pg_catalog.current_setting('lock_timeout'));
            select 1, 1::bigint where false
          $$""")
    await sql.values(UNLOCK)
    seen = await sql.value("select patience from pg_temp.seen")

    assert (during, given) == (seen, await sql.value("show lock_timeout"))
