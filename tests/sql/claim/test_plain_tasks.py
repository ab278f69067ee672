"""`_plain_tasks`: the tasks of a worker whose jobs have no partition."""

from tests.support.jobs import add
from tests.support.session import Session

PLAIN = """
select array(
  select task.identifier from asyncq._tasks as task
  where task.id = any(asyncq._plain_tasks(array(select id from asyncq._tasks))) order by 1)"""


async def test_a_task_with_a_limit_and_a_paused_task_have_no_plain_jobs(sql: Session) -> None:
    """A pause gives a task a limit. While everything is paused, no task has plain jobs."""
    for name in "abc":
        await add(sql, name)
    before = await sql.value(PLAIN)
    await sql.execute("update asyncq._tasks set limit_id = 2 where identifier = 'b'; select asyncq.pause(task => 'c')")
    limited = await sql.value(PLAIN)
    await sql.execute("select asyncq.pause()")

    assert (["a", "b", "c"], ["a"], []) == (before, limited, await sql.value(PLAIN))
