"""`_end_jobs`: rows are deleted, and jobs that are to be kept become rows of ended jobs."""

import pytest

from tests.support.session import Session

KEEPING = [
    # keep_until, keep_states -> kept
    (None, None, False),
    ("now() + interval '1 h'", "{completed}", True),
    ("now() + interval '1 h'", "{cancelled,discarded}", False),
    ("now() - interval '1 h'", "{completed}", False),
    ("infinity", "{cancelled,completed,discarded}", True),
]


@pytest.mark.parametrize(("keep_until", "keep_states", "kept"), KEEPING)
async def test_a_job_is_kept_only_if_requested(
    sql: Session, keep_until: str | None, keep_states: str | None, kept: bool
) -> None:
    """A row for each completed job would cost as much as the job."""
    until = {None: "null", "infinity": "'infinity'"}.get(keep_until, keep_until)
    states = "null" if keep_states is None else f"'{keep_states}'"
    await sql.execute(f"""
        select asyncq.add_job('t');
        update asyncq._jobs set unique_key = sha256('k'), keep_until = {until}, keep_states = {states};
        select asyncq._end_jobs(array(select id from asyncq._jobs), 'completed')""")
    rows = await sql.value("select array_agg(state) from asyncq._ended_jobs where unique_key = sha256('k')")

    assert (["completed"] if kept else None) == rows
    assert 0 == await sql.value("select count(*) from asyncq._jobs")


async def test_others_are_left_alone(sql: Session) -> None:
    """It gets ids, and changes no other job."""
    first = await sql.value("select (asyncq.add_job('t')).id")
    other = await sql.value("select (asyncq.add_job('t')).id")
    await sql.execute(f"select asyncq._end_jobs(array[{first}], 'cancelled')")

    assert other == await sql.value("select id from asyncq._jobs")


async def test_an_id_that_an_ended_job_has_keeps_no_other_job_from_ending(sql: Session) -> None:
    """A restored server without its sequences repeats ids."""
    keep = """
        update asyncq._jobs
        set keep_until = now() + interval '1 h', keep_states = '{completed}', unique_key = sha256($1)"""
    end = "select asyncq._end_jobs(array(select id from asyncq._jobs), 'completed')"
    await sql.value("select (asyncq.add_job('t')).id")
    await sql.rows(keep, b"earlier")
    await sql.value(end)
    await sql.value("select setval('asyncq._jobs_id_seq', (select id from asyncq._ended_jobs), false)")
    ids = [await sql.value("select (asyncq.add_job('t')).id") for _ in range(2)]
    await sql.rows(keep, b"later")
    await sql.value(end)

    kept = await sql.rows("select id, unique_key = sha256('later') as is_later from asyncq._ended_jobs order by id")
    assert [(one, True) for one in ids] == [tuple(row) for row in kept]
    assert 0 == await sql.value("select count(*) from asyncq._jobs")
