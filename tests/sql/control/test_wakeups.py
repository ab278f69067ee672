"""`_ended_wakeups`, `_wake_ended`: exactly one wakeup of a partition counts the claims that ended together."""

import pytest

from tests.support.jobs import add, add_many, change, complete, fetch, settle_rest
from tests.support.session import Session

WAKEUPS = """
select held.key, task.identifier, wakeup.priority, wakeup.freed, wakeup.at <= asyncq.now() as is_due
from asyncq._wakeups as wakeup
join asyncq._partitions as held on held.id = wakeup.partition
join asyncq._tasks as task on task.id = wakeup.task_id
order by 1, 2, 3, 4 desc"""


async def wakeups(sql: Session) -> list[tuple[object, ...]]:
    """All wakeups: queue, task, priority, ended claims, whether it is due."""
    return [tuple(row) for row in await sql.rows(WAKEUPS)]


@pytest.mark.parametrize("form", ["rows", "batched"])
async def test_an_end_wakes_each_kind_of_job_that_waits_and_is_counted_once(sql: Session, form: str) -> None:
    """Workers look for the tasks that they know, so each task and priority has a wakeup."""
    await add(sql, queue="q", priority=-2)
    claims = await fetch(sql, form=form)
    await add_many(sql, 3, queue="'q'")
    await add(sql, "u", queue="q", priority=-1)
    await add(sql, "u", queue="q", run_at="now() + interval '1 h'")
    await sql.execute("delete from asyncq._wakeups")
    await complete(sql, claims)
    found = await wakeups(sql)

    assert [("q", "t", 0, True), ("q", "u", -1, True)] == [(*row[:3], row[4]) for row in found]
    assert [0, 1] == sorted(row[3] for row in found)


async def test_the_end_of_the_last_job_of_a_queue_is_counted_too(sql: Session) -> None:
    """The next job that is added finds the queue free."""
    await add(sql, "u", queue="q")
    await complete(sql, await fetch(sql))

    assert [("q", "u", 0, 1, True)] == await wakeups(sql)


async def test_ends_of_jobs_without_a_partition_wake_nothing(sql: Session) -> None:
    """Nor do those that are no ends."""
    await add(sql)
    await add(sql, queue="q")
    plain, queued = await fetch(sql)
    await complete(sql, [plain])
    await settle_rest(sql, [{**queued, "lock_token": 77}])

    assert [] == await wakeups(sql)


async def test_a_job_that_waits_again_is_woken_at_its_time(sql: Session) -> None:
    """The end is due at once, the job later."""
    await add(sql, queue="q")
    await change(sql, await fetch(sql), attempts=1, delay_s=60.0)

    assert [("q", "t", 0, 1, True), ("q", "t", 0, 0, False)] == await wakeups(sql)


async def test_claims_that_end_together_are_one_number(sql: Session) -> None:
    """A queue that runs several jobs at once counts all of them on one wakeup."""
    await sql.execute(
        "insert into asyncq._partitions (id, key, at_once) values (asyncq._partition(1::smallint, 'q'), 'q', 3)"
    )
    await add_many(sql, 5, queue="'q'")
    await complete(sql, await fetch(sql))

    assert [3] == [row[3] for row in await wakeups(sql) if row[3]]
