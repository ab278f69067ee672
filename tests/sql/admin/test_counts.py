"""`counts`: jobs by state, for who looks from SQL."""

from tests.support.jobs import add
from tests.support.keyed import hold
from tests.support.session import Session


async def test_jobs_are_counted_by_their_states(sql: Session) -> None:
    """The words are those of the Open Job Spec."""
    await add(sql)
    await add(sql)
    await hold(sql, "discarded", key="k")
    rows = await sql.rows("select state, jobs, is_exact from asyncq.counts() order by state")

    assert [("available", 2, True), ("discarded", 1, True)] == [tuple(row) for row in rows]
    assert rows == await sql.rows("select state, jobs, is_exact from asyncq.counts(exact => true) order by state")
