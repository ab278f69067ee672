"""`get_job_by_key`: the job that has a key, for callers in SQL."""

from tests.support.session import Session


async def test_a_job_is_found_by_its_key(sql: Session) -> None:
    """At most one job has it."""
    job = await sql.value("select (asyncq.add_job('t', job_key := 'k')).id")

    assert [job] == await sql.values("select id from asyncq.get_job_by_key('k')")
    assert [] == await sql.values("select id from asyncq.get_job_by_key('other')")
