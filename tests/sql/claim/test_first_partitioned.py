"""`_first_partitioned`: the first due jobs of a partition, of one task and priority."""

from tests.support.jobs import add
from tests.support.session import Session

FIRST = """
select first.id from asyncq._tasks as task
cross join lateral asyncq._first_partitioned(
  asyncq._partition(1::smallint, 'q'), task.id, 0::smallint, '{x}', now(), 2) as first
where task.identifier = 't'"""


async def test_only_jobs_that_a_fetch_may_claim_are_read(sql: Session) -> None:
    """At most two, here. Others are not due, not allowed, of another task, priority, queue, or discarded."""
    for at, (queue, task, priority, flags) in enumerate(
        [("q", "u", 0, None), ("q", "t", 1, None), ("p", "t", 0, None), (None, "t", 0, None), ("q", "t", 0, ["x"])]
    ):
        await add(sql, task, queue=queue, priority=priority, flags=flags, run_at=f"now() - interval '{9 - at} h'")
    await add(sql, queue="q", run_at="now() + interval '1 h'")
    gone = await add(sql, queue="q", run_at="now() - interval '10 h'")
    await sql.execute(f"update asyncq._jobs set attempts = max_attempts where id = {gone}")
    due, old, older = [await add(sql, queue="q", run_at=f"now() - interval '{minutes} min'") for minutes in range(3)]

    assert [older, old] == await sql.values(FIRST)
    await sql.execute(f"delete from asyncq._jobs where id = {older}")
    assert [old, due] == await sql.values(FIRST)
