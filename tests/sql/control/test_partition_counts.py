"""`_partition_counts`: how many jobs of a partition run, and how many it counts."""

import pytest

from tests.support.jobs import add, add_many, change, complete, fetch
from tests.support.session import Session

COUNTS = """
select coalesce(held.key, counted.id::text), counted.running, counted.jobs
from asyncq._partition_counts() as counted left join asyncq._partitions as held using (id) order by 1"""


async def counts(sql: Session) -> list[tuple[object, ...]]:
    """The name, the running and the counted jobs of each partition."""
    return [tuple(row) for row in await sql.rows(COUNTS)]


@pytest.mark.parametrize("form", ["rows", "batched"])
async def test_claims_count_until_their_ends_are_said(sql: Session, form: str) -> None:
    """The row still has the old number, which a wakeup lowers."""
    await add_many(sql, 3, queue="'q' || i")
    await add(sql)
    claims = await fetch(sql, form=form)
    before = await counts(sql)
    await complete(sql, claims[:1])
    await change(sql, claims[1:2])

    assert [("q1", 1, 1), ("q2", 1, 1), ("q3", 1, 1)] == before
    assert [("q1", 0, 0), ("q2", 0, 0), ("q3", 1, 1)] == await counts(sql)
    assert [1, 1, 1] == await sql.values("select running from asyncq._partitions")


async def test_a_job_that_was_deleted_by_hand_is_still_counted(sql: Session) -> None:
    """So is one that was claimed by hand not counted."""
    await add(sql, queue="deleted")
    await fetch(sql)
    await sql.execute("delete from asyncq._jobs")
    job = await add(sql, queue="claimed")
    await sql.execute("update asyncq._jobs set locked_by = 1, locked_at = now(), lock_token = 1")
    claimed = await sql.value("select partition from asyncq._jobs where id = $1", job)

    assert [(str(claimed), 1, 0), ("deleted", 0, 1)] == await counts(sql)


async def test_a_gate_counts_the_jobs_of_all_its_tasks(sql: Session) -> None:
    """Those that have a queue count twice: for their queue, and for the total."""
    await sql.execute("""
        insert into asyncq._limits (id, name, total) values (7, 'l', 5);
        insert into asyncq._partitions (id, key) values (asyncq._gate(7::smallint), 'gate');
        select asyncq._store_tasks('{t}');
        update asyncq._tasks set limit_id = 7""")
    await add(sql, queue="q")
    await add_many(sql, 2)
    await fetch(sql)
    found = {row[0]: row[1:] for row in await counts(sql)}

    assert ((3, 3), (1, 1)) == (found["gate"], found["q"])
