"""`_all_jobs`: the jobs in rows and the jobs in batches."""

from tests.support.jobs import add, fetch
from tests.support.session import Session


async def test_it_is_both(sql: Session) -> None:
    """Each job is returned once."""
    jobs = [await add(sql) for _ in range(3)]
    await fetch(sql, 2, form="batched")

    assert jobs == await sql.values("select id from asyncq._all_jobs() order by id")
    assert jobs[2:] == await sql.values("select id from asyncq._jobs")


async def test_a_page_of_a_large_table_is_read_by_its_index(sql: Session) -> None:
    """It is inlined, and its rows are in order without a sort."""
    await sql.execute("select asyncq.add_job('t') from generate_series(1, 2000); analyze asyncq._jobs")
    lines = await sql.values(
        "explain (costs off) select job.id from asyncq._all_jobs() as job where job.id > 5 order by job.id limit 3"
    )

    assert any("using jobs_pkey on _jobs" in line for line in lines), lines
    assert any("Merge Append" in line for line in lines), lines


async def test_a_page_of_the_view_is_read_by_its_index(sql: Session) -> None:
    """Users query it with any settings. The view is a union, too."""
    await sql.execute("select asyncq.add_job('t') from generate_series(1, 2000); analyze asyncq._jobs, asyncq._tasks")
    lines = await sql.values("explain (costs off) select * from asyncq.jobs order by id limit 3")

    assert any("using jobs_pkey on _jobs" in line for line in lines), lines
    assert any("Merge Append" in line for line in lines), lines
