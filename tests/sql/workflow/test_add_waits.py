"""`_add_waits`: what a new job waits for, by what is known of the other jobs."""

import json

import pytest

from tests.support.jobs import add, add_many, fetch, fetched
from tests.support.session import Session
from tests.support.waits import ADD, left, look, state, wait_for

KEEP_ENDED = """
insert into asyncq._ended_jobs (id, created_at, ended_at, keep_until, task_id, state)
select nextval('asyncq._jobs_id_seq'), now(), now(), now() + interval '1 h', 1, $1 returning id"""
SPECS = """
select asyncq.add_jobs(array[
  ('w', '{}', null, null, null, null, null, null, null, $1::text::jsonb)::asyncq.job_spec])"""
MARKED = "select keep_until = '-infinity' from asyncq._jobs where id = $1"


async def test_an_awaited_job_has_the_mark(sql: Session) -> None:
    """Its end is left to settle_rest, whoever runs it."""
    job = await add(sql)
    before = await sql.value(MARKED, job)
    await wait_for(sql, job)

    assert (None, True) == (before, await sql.value(MARKED, job))


@pytest.mark.parametrize(
    ("ended", "word", "expected"),
    [
        ("completed", "wait", "available"),
        ("cancelled", "wait", None),
        ("discarded", "wait", None),
        ("cancelled", "run", "available"),
        ("discarded", "cancel", None),
    ],
)
async def test_a_kept_ended_job_decides_at_the_next_look(
    sql: Session, ended: str, word: str, expected: str | None
) -> None:
    """It has no edge: nothing will end."""
    await add(sql)
    job = await sql.value(KEEP_ENDED, ended)
    waiter = await wait_for(sql, job, if_failed=word)

    assert ("pending", (0, 1)) == (await state(sql, waiter), await left(sql))
    await look(sql)
    assert (expected, (0, 0)) == (await state(sql, waiter), await left(sql))


async def test_a_job_that_completed_leaves_nothing_to_do_while_another_one_runs(sql: Session) -> None:
    """The end of the other one looks."""
    running = await add(sql)
    job = await sql.value(KEEP_ENDED, "completed")
    await wait_for(sql, running, job)

    assert (1, 0) == await left(sql)


async def test_a_discarded_job_blocks_at_once(sql: Session) -> None:
    """It has failed before the add."""
    job = await add(sql)
    await sql.rows("select from asyncq.permanently_fail_jobs(array[$1::bigint])", job)
    waiter = await wait_for(sql, job)

    assert [("blocked", waiter, job)] == await look(sql)


async def test_a_job_of_which_nothing_is_known_is_refused(sql: Session) -> None:
    """Nobody can say whether it completed, so nothing is stored."""
    job = await add(sql)
    await sql.rows("select from asyncq.complete_jobs(array[$1::bigint])", job)
    error = await sql.refusal(ADD, "w", json.dumps({"after": [job]}))

    assert ("GWBAF", "after") == (error.sqlstate, error.column_name)
    assert error.message is not None
    assert error.message.startswith(f"after names job {job}, of which nothing is known")
    assert 0 == await sql.value("select count(*) from asyncq._jobs")


async def test_a_call_with_many_jobs_and_enqueue_take_after_too(sql: Session) -> None:
    """They are the ways of other languages."""
    await add_many(sql, 2)
    first, second = await sql.values("select id from asyncq._jobs order by id")
    options = json.dumps({"after": [first, second]})
    await sql.rows(SPECS, options)
    await sql.rows("select from asyncq.enqueue($1::text::json)", f'{{"identifier": "w", "options": {options}}}')

    assert (4, 0) == await left(sql)
    assert [first, second] == await fetched(sql)


async def test_a_repeated_request_is_the_same_pending_job(sql: Session) -> None:
    """It has its edges once."""
    job = await add(sql)
    waiters = {await wait_for(sql, job, idempotency_key="k") for _ in range(2)}

    assert (1, (1, 0)) == (len(waiters), await left(sql))


async def test_a_pending_job_prevents_another_one_under_its_unique_policy(sql: Session) -> None:
    """It waits, as a scheduled one does; and one that replaces it ends it."""
    job = await add(sql)
    first = await wait_for(sql, job, singleton=True)
    same = await wait_for(sql, job, singleton=True)
    replacing = await wait_for(sql, job, unique={"on_conflict": "replace"})

    assert (first, None, (1, 0)) == (same, await state(sql, first), await left(sql))
    assert "pending" == await state(sql, replacing)


async def test_an_awaited_job_of_a_batch_is_split_from_it(sql: Session) -> None:
    """A batch has no marks."""
    await add_many(sql, 2)
    claims = await fetch(sql, form="batched")
    await wait_for(sql, claims[0]["id"])

    assert (2, 0) == (
        await sql.value("select count(*) from asyncq._jobs where locked_by is not null"),
        await sql.value("select count(*) from asyncq._batches"),
    )
