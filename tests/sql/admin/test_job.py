"""`_job`: one row of the view, read with a snapshot of its own."""

from tests.support.session import Session


async def test_a_statement_sees_the_jobs_that_it_has_just_added(sql: Session) -> None:
    """The statement's own snapshot is older than the job."""
    direct, through = await sql.row("""
        with added as materialized (select id from asyncq.add_job('t'))
        select (select count(*) from added join asyncq.jobs using (id)),
          (select count(*) from added cross join lateral asyncq._job(added.id))""")

    assert (0, 1) == (direct, through)


async def test_a_missing_job_has_no_row(sql: Session) -> None:
    """No row rather than a row of nulls."""
    assert [] == await sql.rows("select * from asyncq._job(1)")
