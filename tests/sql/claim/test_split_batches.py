"""`_split_batches`: the claims of batches become rows."""

from tests.support.jobs import add, add_many, change, complete, fetch
from tests.support.session import Session

ALL = "select id from asyncq._split_batches(array(select ctid from asyncq._batches)) as id order by id"
ROWS = "select to_jsonb(job) from asyncq._jobs as job order by id"


async def test_the_rows_are_those_of_existing_claims(sql: Session) -> None:
    """They equal those of `_batched_jobs`. Ended jobs stay ended."""
    await add_many(sql, 4)
    await sql.execute("update asyncq._jobs set meta = jsonb_build_object('m', id) where id % 2 = 0")
    claims = await fetch(sql, form="batched")
    await complete(sql, claims[:1])
    shown = await sql.values("select to_jsonb(job) from asyncq._batched_jobs() as job order by id")
    brought = await sql.values(ALL)

    assert [claim["id"] for claim in claims[1:]] == brought
    assert shown == await sql.values(ROWS)
    assert 0 == await sql.value("select count(*) from asyncq._batches")
    assert [] == await sql.rows("select law from asyncq.violations() where law <> 'orphan_claim'")


async def test_their_worker_settles_them_as_before(sql: Session) -> None:
    """It need not know of the split."""
    await add_many(sql, 3)
    claims = await fetch(sql, form="batched")
    await sql.values(ALL)

    assert [claims[0]["id"]] == await complete(sql, claims[:1])
    assert [claims[1]["id"]] == await change(sql, claims[1:2], attempts=1)
    assert [claims[2]["id"]] == await sql.values("select id from asyncq._jobs where locked_by is not null")


async def test_an_id_that_was_given_again_keeps_no_other_from_being_returned(sql: Session) -> None:
    """A sequence that was not restored repeats ids, and only one of the jobs can be a row."""
    first, second = await add(sql), await add(sql)
    await fetch(sql, form="batched")
    await sql.execute(f"alter table asyncq._jobs alter id restart with {first}")
    assert first == await add(sql, priority=5)
    laws = await sql.values("select law from asyncq.violations() where law = 'batched_twice'")

    assert (["batched_twice"], [second]) == (laws, await sql.values(ALL))
    assert [first, second] == await sql.values("select id from asyncq._jobs order by id")


async def test_jobs_of_a_queue_that_run_side_by_side_become_rows(sql: Session) -> None:
    """Its limit allows that, or did when they were claimed. The second fence is for one at a time."""
    await add_many(sql, 3, queue="'q'")
    await sql.execute("insert into asyncq._partitions (id, at_once) values (asyncq._partition(1::smallint, 'q'), 2)")
    claims = await fetch(sql, form="batched")
    await sql.execute("update asyncq._partitions set at_once = 1")
    brought = await sql.values(ALL)

    assert [claim["id"] for claim in claims] == brought
    assert (2, [True, True]) == (len(brought), await sql.values("select shared from asyncq._jobs where shared"))
