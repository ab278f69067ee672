"""`_rerun_jobs`: a job that was asked for again while it ran starts over, as if it had never run."""

from tests.support.ear import Ear
from tests.support.jobs import add, fetch, fetched
from tests.support.marked import ASK_AGAIN, only
from tests.support.session import Session


async def test_the_row_is_that_of_a_new_request(sql: Session) -> None:
    """Attempts, error and interruptions of the run are cleared."""
    job = await add(sql, run_at="now() - interval '1 h'", priority=3)
    await fetch(sql)
    await sql.rows(ASK_AGAIN, job)
    await sql.execute("""
        update asyncq._jobs
        set attempts = 4, interruptions = 2, last_error = 'e', revision = 6, key = 'k',
          expires_at = now(), deadline_at = now(),
          updated_at = now() - interval '1 h'""")
    before = await only(sql)
    await sql.execute("select asyncq._rerun_jobs(array(select id from asyncq._jobs))")

    now = await sql.value("select now()")
    anew = {
        "payload": '{"again": 1}',
        "rerun": None,
        "attempts": 0,
        "interruptions": 0,
        "last_error": None,
        "expires_at": None,
        "deadline_at": None,
        "revision": 7,
    }
    free = {"locked_by": None, "locked_at": None, "lock_token": None}
    assert {**before, **anew, **free, "run_at": now, "updated_at": now} == await only(sql)
    assert [job] == await fetched(sql)


async def test_others_are_left_alone_and_an_empty_list_is_no_error(sql: Session) -> None:
    """It gets ids, and changes no other job."""
    await add(sql)
    await fetch(sql)
    before = await only(sql)
    await sql.execute("select asyncq._rerun_jobs('{}'), asyncq._rerun_jobs(null), asyncq._rerun_jobs('{0}')")

    assert before == await only(sql)


async def test_workers_are_notified_once_it_is_committed(own: Session, ear: Ear) -> None:
    """It is due at once, and its worker may have no room, or be gone."""
    job = await add(own)
    await fetch(own)
    await own.rows(ASK_AGAIN, job)
    await ear.forget()
    await own.execute("select asyncq._rerun_jobs(array(select id from asyncq._jobs))")

    assert [(f"{own.schema}:jobs", "")] == await ear.received()
