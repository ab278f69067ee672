"""`counts`: jobs by state, for who looks from SQL."""

from tests.support.jobs import add
from tests.support.keyed import hold
from tests.support.session import Session


async def test_jobs_are_counted_by_their_states(own: Session) -> None:
    """The words are those of the Open Job Spec."""
    await add(own)
    await add(own)
    await hold(own, "discarded", key="k")
    rows = await own.rows("select state, jobs, is_exact from asyncq.counts() order by state")

    assert [("available", 2, True), ("discarded", 1, True)] == [tuple(row) for row in rows]
    assert rows == await own.rows("select state, jobs, is_exact from asyncq.counts(exact => true) order by state")
