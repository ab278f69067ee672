"""`_update_jobs`: waiting jobs get the fields of a new request; the case table tests the fields."""

from tests.support.keyed import Spec, add_all, add_one, stored
from tests.support.session import Session

UPDATE = """
select asyncq._update_jobs(
  array(select asyncq._new_job(task, null, null, null, null) from unnest($1::text[]) as task), $2::bigint[])
"""


async def test_only_the_given_jobs_are_updated(sql: Session) -> None:
    """Each job is found by the id at its position."""
    done = await add_all(sql, [Spec(key="a"), Spec(key="b"), Spec(key="c")])
    await sql.rows(UPDATE, ["t"] * 2, [done[0].id, done[2].id])

    assert [1, 0, 1] == [row["revision"] for row in (await stored(sql)).values()]


async def test_an_update_is_refused_rather_than_lost(sql: Session) -> None:
    """If a name is removed between the two statements, the caller gets an error. Nothing removes one today."""
    done = await add_one(sql)
    error = await sql.refusal(UPDATE, ["gone"], [done.id])

    assert "40001" == error.sqlstate


async def test_a_replaced_job_has_the_time_limits_of_the_new_add(sql: Session) -> None:
    """An option that the add leaves out becomes the default."""
    await add_one(sql, extra='{"extras": {"timeout_s": 5}, "expires_s": 60}')
    limits = "select extras::text, expires_at - updated_at as left from asyncq._jobs"
    before = await sql.row(limits)
    await add_one(sql, extra='{"extras": {"soft_s": 3}, "expires_s": 7}')
    changed = await sql.row(limits)
    await add_one(sql)

    assert ('{"timeout_s": 5}', 60.0) == (before["extras"], before["left"].total_seconds())
    assert ('{"soft_s": 3}', 7.0) == (changed["extras"], changed["left"].total_seconds())
    assert (None, None) == tuple(await sql.row(limits))
