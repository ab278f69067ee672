"""`_heads`: the first ready job of each task and priority of a partition."""

from tests.support.jobs import add, fetch
from tests.support.session import Session

HEADS = """
select task.identifier, head.priority, head.id
from asyncq._heads(asyncq._partition(1::smallint, $1)) as head join asyncq._tasks as task on task.id = head.task_id
order by task.identifier, head.priority"""


async def heads(sql: Session, queue: str) -> list[tuple[object, ...]]:
    """The tasks, priorities and ids of a queue's heads."""
    return [tuple(row) for row in await sql.rows(HEADS, queue)]


async def test_each_task_and_priority_has_one_head(sql: Session) -> None:
    """It is the earliest job of them, due or not; of equal ones the first that was added."""
    first = await add(sql, "a", queue="q")
    await add(sql, "a", queue="q")
    urgent = await add(sql, "a", queue="q", priority=-1)
    await add(sql, "b", queue="q", run_at="now() + interval '2 h'")
    earlier = await add(sql, "b", queue="q", run_at="now() + interval '1 h'")
    await add(sql, "c", queue="other")
    await add(sql, "d")

    assert [("a", -1, urgent), ("a", 0, first), ("b", 0, earlier)] == await heads(sql, "q")


async def test_jobs_that_run_or_are_discarded_are_no_heads(sql: Session) -> None:
    """Only what a fetch may claim is one."""
    await add(sql, "a", queue="q", run_at="now() - interval '1 s'")
    await fetch(sql)
    await add(sql, "a", queue="q", max_attempts=1)
    await sql.execute("update asyncq._jobs set attempts = 1 where max_attempts = 1")
    waits = await add(sql, "a", queue="q")

    assert [("a", 0, waits)] == await heads(sql, "q")
    assert [] == await heads(sql, "nothing")
