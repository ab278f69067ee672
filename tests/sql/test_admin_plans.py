"""Administration finds its jobs by index, whatever the planner knows of the table."""

from collections.abc import AsyncIterator

import pytest

from asyncq.testing import temporary_schema
from tests.sql.session import Session, session
from tests.sql.test_key_plans import FILL, cost

IDS = 20
CALLS = {
    "complete": "select asyncq.complete_jobs($1)",
    "fail": "select asyncq.permanently_fail_jobs($1)",
    "reschedule": "select asyncq.reschedule_jobs($1, now(), 1)",
    "retry": "select asyncq.retry_jobs($1)",
}


@pytest.fixture(scope="module", params=[False, True], ids=["never analysed", "analysed"])
async def full(request: pytest.FixtureRequest, dsn: str) -> AsyncIterator[Session]:
    """A table with 20,000 jobs; a fifth of all run, a seventh have failed for good; and a queue of 5,000."""
    async with temporary_schema(dsn) as schema, session(dsn, schema) as sql:
        await sql.execute("alter table asyncq._jobs set (autovacuum_enabled = off)")
        await sql.execute("insert into asyncq._tasks (identifier) values ('t')")
        await sql.execute(f"""
            {FILL};
            insert into asyncq._jobs (run_at, created_at, updated_at, task_id, queue, payload)
            select now(), now(), now(), (select id from asyncq._tasks where identifier = 't'), 'q', '{{}}'
            from generate_series(1, 5000)""")
        if request.param:
            await sql.execute("analyze asyncq._jobs")
        yield sql


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_call_reads_a_few_rows_for_each_of_its_ids(full: Session, call: str) -> None:
    """To lock it, to judge it, to change it, to show it twice."""
    ids = await full.values(
        f"select id from asyncq._jobs where locked_by is null and attempts = 25 order by id desc limit {IDS}"
    )
    costs = await cost(full, full.rows(call, ids))

    assert dict.fromkeys(costs, 0) == {table: scans for table, (scans, _) in costs.items()}
    assert IDS <= costs["_jobs"][1] <= 8 * IDS


async def test_an_explanation_of_the_last_job_of_a_deep_queue_reads_a_few_rows(full: Session) -> None:
    """The first job of the queue is one probe away."""
    await full.rows("""
        insert into asyncq._workers (lease, pid, concurrency, host, tasks) values ('1 h', 1, 1, 'h', '{t}')""")
    job = await full.value("select max(id) from asyncq._jobs where queue = 'q'")
    costs = await cost(full, full.rows("select * from asyncq.explain($1)", job))
    (said,) = await full.rows("select reason from asyncq.explain($1)", job)
    await full.rows("delete from asyncq._workers")

    assert "queue_behind" == said["reason"]
    assert costs["_jobs"][1] <= 10
