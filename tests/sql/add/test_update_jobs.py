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
