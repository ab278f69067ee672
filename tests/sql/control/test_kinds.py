"""`_kinds` and `_woken_kinds`: the tasks and priorities that have wakeups, all and those for a worker."""

import pytest

from tests.support.jobs import add
from tests.support.session import Session

WOKEN = """
select task.identifier, kind.priority from asyncq._woken_kinds(
  array(select known.id from asyncq._tasks as known where known.identifier = any($1::text[]))) as kind
join asyncq._tasks as task on task.id = kind.task_id order by 1, 2"""


async def test_each_task_and_priority_is_found_once(sql: Session) -> None:
    """However many wakeups it has."""
    for _ in range(3):
        await add(sql, "a", queue="q")
    await add(sql, "a", queue="r", priority=-1)
    await add(sql, "b", queue="q", run_at="now() + interval '1 h'")
    await add(sql, "c")

    assert 3 == await sql.value("select count(*) from asyncq._kinds()")
    assert [("a", -1), ("a", 0)] == [tuple(row) for row in await sql.rows(WOKEN, ["a", "c"])]


@pytest.mark.parametrize(
    "pause", ["select asyncq.pause(task => 'a')", "select asyncq.pause()"], ids=["its task", "everything"]
)
async def test_a_paused_task_is_not_for_any_worker(sql: Session, pause: str) -> None:
    """Its wakeups stay where they are."""
    await add(sql, "a", queue="q")
    await sql.execute(pause)

    assert [] == await sql.rows(WOKEN, ["a"])
    assert 1 == await sql.value("select count(*) from asyncq._kinds() where task_id > 0")
