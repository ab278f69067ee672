"""`get_job`: a job by its id, for callers in SQL."""

from tests.support.jobs import add
from tests.support.session import Session


async def test_a_job_is_found_by_its_id(sql: Session) -> None:
    """The row is that of the view."""
    job = await add(sql, queue="q")

    assert [(job, "q")] == [tuple(row) for row in await sql.rows("select id, queue_name from asyncq.get_job($1)", job)]


async def test_a_missing_job_has_no_row(sql: Session) -> None:
    """It may have ended well, so it is no error."""
    assert [] == await sql.rows("select id from asyncq.get_job(0)")
