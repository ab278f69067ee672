"""`_administer_jobs`: the common part of the four actions, each of which has its own file."""

import pytest

from tests.support.jobs import add
from tests.support.keyed import hold, stored
from tests.support.session import Session

ACTS = {
    "complete": "select * from asyncq.complete_jobs($1)",
    "fail": "select * from asyncq.permanently_fail_jobs($1)",
    "reschedule": "select * from asyncq.reschedule_jobs($1, priority := 7)",
    "retry": "select * from asyncq.retry_jobs($1)",
}

every_act = pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)


@every_act
@pytest.mark.parametrize("age", ["0", "5 hours", "1 year"])
async def test_a_running_job_is_left_alone_however_old_its_claim_is(sql: Session, act: str, age: str) -> None:
    """In graphile-worker claims expire after four hours. Here the lease decides, and a rescue returns them."""
    job = await hold(sql, "active")
    await sql.rows("update asyncq._jobs set locked_at = now() - $1::text::interval", age)
    before = await stored(sql)

    assert ([], before) == (await sql.rows(act, [job["id"]]), await stored(sql))


@every_act
async def test_unknown_and_null_ids_are_ignored_and_doubled_ones_count_once(sql: Session, act: str) -> None:
    """Callers select ids in one statement and use them in another, and some jobs may have ended in between."""
    job = await hold(sql, "retryable")
    rows = await sql.rows(act, [job["id"], None, 0, -1, 2**62, job["id"]])

    assert [job["id"]] == [row["id"] for row in rows]


@every_act
@pytest.mark.parametrize("ids", [None, []])
async def test_no_ids_are_no_jobs(sql: Session, act: str, ids: list[int] | None) -> None:
    """Null is the array of no job, not of all."""
    await hold(sql, "retryable")
    before = await stored(sql)

    assert ([], before) == (await sql.rows(act, ids), await stored(sql))


@every_act
async def test_the_rows_come_in_the_order_of_their_ids(sql: Session, act: str) -> None:
    """Neither the order of the arguments nor that of the table matters."""
    ids = [(await hold(sql, "retryable", key=str(number)))["id"] for number in range(20)]
    await sql.rows("update asyncq._jobs set revision = 9 where id % 3 = 0")

    assert ids == [row["id"] for row in await sql.rows(act, [*ids[7:], *ids[:7]][::-1])]


@every_act
async def test_other_jobs_are_left_alone(sql: Session, act: str) -> None:
    """It gets ids, and changes no other job."""
    job, other = await hold(sql, "discarded", key="a"), await hold(sql, "discarded", key="b")
    await sql.rows(act, [job["id"]])

    assert other == (await stored(sql))[other["id"]]


@every_act
async def test_jobs_of_queues_and_tasks_keep_their_names(sql: Session, act: str) -> None:
    """The returned row is one of the view."""
    job = await add(sql, queue="q")
    await sql.rows("update asyncq._jobs set attempts = 1")
    (row,) = await sql.rows(act, [job])

    assert (job, "q", "t") == (row["id"], row["queue_name"], row["task_identifier"])


async def test_an_unknown_act_is_refused(sql: Session) -> None:
    """A misspelt act must not look like one without matching jobs."""
    job = await add(sql)

    assert "20000" == (await sql.refusal("select asyncq._administer_jobs('compleat', $1)", [job])).sqlstate
