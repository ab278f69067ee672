"""`get_job`: a job by its id, for who looks from SQL."""

from tests.support.jobs import add
from tests.support.session import Session


async def test_a_job_is_found_by_its_id(sql: Session) -> None:
    """As the view shows it."""
    job = await add(sql, queue="q")

    assert [(job, "q")] == [tuple(row) for row in await sql.rows("select id, queue_name from asyncq.get_job($1)", job)]


async def test_of_what_is_not_there_is_no_row(sql: Session) -> None:
    """It may have ended well: no error."""
    assert [] == await sql.rows("select id from asyncq.get_job(0)")
