"""`_used_tasks`: the rows that keep the name of a task."""

import pytest

from tests.support.session import Session

USES = {
    "a job": "select asyncq.add_job('t')",
    "a job that is discarded": "select asyncq.add_job('t'); update asyncq._jobs set attempts = 25",
    "an ended job": """
        insert into asyncq._ended_jobs (id, created_at, ended_at, keep_until, task_id, state)
        select nextval('asyncq._jobs_id_seq'), now(), now(), now(), id, 'completed'
        from asyncq._tasks where identifier = 't'""",
    "a worker": """
        insert into asyncq._workers (lease, pid, concurrency, host, tasks) values ('30 s', 1, 1, 'h', '{other,t}')""",
    "a worker that was not heard of": """
        insert into asyncq._workers (lease, pid, concurrency, host, tasks, last_seen)
        values ('30 s', 1, 1, 'h', '{t}', now() - interval '1 year')""",
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
async def test_a_task_is_used_by(sql: Session, use: str) -> None:
    """A row has its number, or may be restored with it."""
    await sql.execute("select asyncq._task_ids('{t}')")
    before = await sql.value("select asyncq._used_tasks()")
    await sql.execute(use)

    assert ([], await sql.values("select id from asyncq._tasks where identifier = 't'")) == (
        before,
        await sql.value("select asyncq._used_tasks()"),
    )
