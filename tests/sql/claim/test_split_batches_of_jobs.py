"""`_split_batches_of_jobs`: the batches of some jobs; see tests/store/test_cancel_races.py for races."""

from tests.support.jobs import add, fetch
from tests.support.session import Session


async def test_only_the_batches_of_these_jobs_are_split(sql: Session) -> None:
    """Null, repeated, waiting and unknown ids do not matter."""
    jobs = [await add(sql) for _ in range(5)]
    for _ in range(2):
        await fetch(sql, 2, form="batched")
    await sql.rows("select asyncq._split_batches_of_jobs($1)", [jobs[4], jobs[1], None, 77, jobs[1]])

    assert [jobs[0], jobs[1], jobs[4]] == await sql.values("select id from asyncq._jobs order by id")
    assert [jobs[2:4]] == await sql.values("select ids from asyncq._batches")


async def test_no_job_is_no_batch(sql: Session) -> None:
    """An empty call changes nothing."""
    await add(sql)
    await fetch(sql, form="batched")
    for ids in ([], [None], None):
        await sql.rows("select asyncq._split_batches_of_jobs($1)", ids)

    assert 1 == await sql.value("select count(*) from asyncq._batches")
