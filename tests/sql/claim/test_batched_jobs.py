"""`_batched_jobs`: the jobs of batches as rows of `_jobs`."""

import pytest

from tests.support.jobs import add, add_many, complete, fetch
from tests.support.session import Session

ADD = """
select from asyncq.add_job(
  $1, $2::json, run_at => now() - make_interval(mins => $3), max_attempts => $4, priority => $5)"""
CLAIM = "select (to_jsonb(job) - 'payload') || jsonb_build_object('payload', job.payload::text)"


async def test_they_are_the_rows_that_claims_in_their_rows_would_be(sql: Session) -> None:
    """Column by column: a reader of a running job need not know how it was claimed."""
    for number in range(5):
        await sql.rows(ADD, f"t{number % 2}", f'{{"n" :  {number}.0}}', number, number + 1, number % 3)
    await sql.execute("update asyncq._jobs set meta = jsonb_build_object('m', id) where id % 2 = 0")
    async with sql.connection.transaction():
        await fetch(sql, token=7)
        usual = await sql.values(f"{CLAIM} from asyncq._jobs as job order by id")
        await sql.execute("update asyncq._jobs set locked_by = null, locked_at = null, lock_token = null")
        await fetch(sql, token=7, form="batched")
        batched = await sql.values(f"{CLAIM} from asyncq._batched_jobs() as job order by id")
        left = await sql.value("select count(*) from asyncq._jobs")

    assert (5, usual, 0) == (len(batched), batched, left)


async def test_jobs_that_have_ended_are_left_out(sql: Session) -> None:
    """Their bits are cleared. The row is deleted with the last one."""
    ids = [await add(sql) for _ in range(3)]
    claims = await fetch(sql, form="batched")
    await complete(sql, claims[1:2])

    assert [ids[0], ids[2]] == await sql.values("select id from asyncq._batched_jobs() order by id")
    assert [ids[0], ids[2]] == await sql.values("select id from asyncq.jobs order by id")
    await complete(sql, claims)
    assert 0 == await sql.value("select count(*) from asyncq._batches")


@pytest.mark.parametrize("place", range(3))
async def test_one_is_found_by_its_id(sql: Session, place: int) -> None:
    """Other batches may exist. A job that does not run is not found."""
    jobs = [await add(sql) for _ in range(3)]
    await fetch(sql, 2, form="batched")
    await fetch(sql, 1, form="batched")

    assert [jobs[place]] == await sql.values("select id from asyncq._batched_jobs($1)", jobs[place])
    assert [] == await sql.values("select id from asyncq._batched_jobs(0)")


async def test_all_that_reads_jobs_shows_them(claiming: Session) -> None:
    """Public functions, the client's statements and the counts show them as running."""
    sql = claiming  # Of its own: a table that others have made large would be estimated.
    job, waiting = await add(sql), await add(sql, run_at="now() + interval '1 h'")
    await fetch(sql, worker=7, form="batched")
    public = await sql.row("select locked_by, attempts, task_identifier from asyncq.get_job($1)", job)
    (document,) = await sql.run("get_job", job)
    *listed, _ = await sql.run("find_jobs", '{"state": "active", "task": "t"}', *(None, False, 10, 100))
    workers = await sql.rows("select id, state, running from asyncq._list_workers()")

    assert ("7", 1, "t") == (*public,)
    assert [document["document"]] == [row["document"] for row in listed]
    assert [job, waiting] == [row["id"] for row in await sql.rows("select id from asyncq.jobs order by id")]
    assert [job] == await sql.values("select id from asyncq.running()")
    assert [(7, "unknown", 1)] == [(*row,) for row in workers]
    assert {("active", 1), ("scheduled", 1)} == {
        (*row,) for row in await sql.rows("select state, jobs from asyncq.counts()")
    }
    assert ["running"] == await sql.values("select reason from asyncq.explain($1)", job)
    assert await sql.value("select id from asyncq._tasks") in await sql.value("select asyncq._used_tasks()")


async def test_the_counts_of_a_large_table_include_them(sql: Session) -> None:
    """The table may be so large that waiting jobs are estimated, or running ones too."""
    await add_many(sql, 300)
    await fetch(sql, 100, form="batched")
    counted = {}
    for most_bytes in (20_000, 1000):
        rows = await sql.rows("select state, jobs from asyncq._counts(false, $1)", most_bytes)
        counted[most_bytes] = {row["state"]: row["jobs"] for row in rows}["active"]

    assert {20_000: 100, 1000: 100} == counted
