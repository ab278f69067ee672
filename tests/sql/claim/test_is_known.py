"""`_is_known`: the worker has the job's task."""

from tests.support.jobs import add
from tests.support.session import Session

KNOWN = "select coalesce(asyncq._is_known(job, $1), false) from asyncq._jobs as job"


async def test_a_worker_knows_the_tasks_that_it_names(sql: Session) -> None:
    """It knows no others, and without a list none."""
    await add(sql)
    task = await sql.value("select task_id from asyncq._jobs")

    assert [True, True, False, False, False] == [
        await sql.value(KNOWN, tasks) for tasks in ([task], [0, task], [0], [], None)
    ]
