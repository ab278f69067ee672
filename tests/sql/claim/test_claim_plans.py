"""Functions for the claims of workers read claims and no waiting jobs, with any statistics of the planner."""

from collections.abc import AsyncIterator

import pytest

from asyncq.testing import temporary_schema
from tests.support.jobs import to_queue
from tests.support.plans import cost
from tests.support.session import Session, session

# So many claims that a plan which walks over all of them for each of them reads too much.
WAITING, CLAIMS = 20_000, 300
OTHERS = 10_000
# The row of each claim is read to find, lock, check and change it, and to see that none is left.
MOST = 25 * CLAIMS
CALLS = {
    "rescue": "select from asyncq._rescue_jobs(false)",
    "thorough rescue": "select from asyncq._rescue_jobs(true)",
    "list": "select from asyncq._list_workers()",
    "unlock": "select from asyncq._force_unlock_workers(array(select id::text from asyncq._workers))",
    "return": "select from asyncq._return_lost((select min(id) from asyncq._workers), '{1}')",
}


STATISTICS = ["never analysed", "analysed", "analysed before the claims", "planned while it was empty"]


@pytest.fixture(scope="module", params=STATISTICS)
async def full(request: pytest.FixtureRequest, dsn: str) -> AsyncIterator[Session]:
    """A table with 20,000 waiting jobs, and 300 claims of a dead worker."""
    analyse = "vacuum analyze asyncq._jobs, asyncq._workers, asyncq._batches, asyncq._partitions, asyncq._wakeups"
    async with temporary_schema(dsn) as schema, session(dsn, schema) as sql:
        await sql.execute("alter table asyncq._jobs set (autovacuum_enabled = off)")
        await sql.execute("select asyncq._store_tasks('{t}')")
        if request.param.startswith("planned"):
            await sql.execute("vacuum analyze asyncq._jobs")
            for call in CALLS.values():
                await sql.rows(call)
        await sql.execute(f"""
            insert into asyncq._workers (lease, pid, concurrency, host, tasks, last_seen)
              values ('1 s', 1, 1, 'h', '{{t}}', '2000-01-01');
            insert into asyncq._jobs (run_at, created_at, updated_at, task_id, payload)
              select now(), now(), now(), 1, '{{}}' from generate_series(1, {WAITING + CLAIMS})""")
        if request.param.endswith("before the claims"):
            await sql.execute(analyse)
        await sql.execute(f"""
            update asyncq._jobs as job set locked_by = worker.id, locked_at = worker.last_seen, lock_token = 1
            from asyncq._workers as worker where job.id % {(WAITING + CLAIMS) // CLAIMS} = 0""")
        if request.param == "analysed":
            await sql.execute(analyse)
        yield sql


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_call_reads_claims_only(full: Session, call: str) -> None:
    """With millions of waiting jobs a scan takes seconds, and a statement_timeout would end each rescue."""
    scans, rows = (await cost(full, full.rows(call)))["_jobs"]

    assert (0, True) == (scans, rows <= MOST), rows
    assert rows >= CLAIMS


async def test_a_rescue_does_not_read_the_claims_of_the_living(full: Session) -> None:
    """A fleet may hold many thousands of them, in as many queues."""
    transaction = full.connection.transaction()
    await transaction.start()
    await full.execute(f"""
        update asyncq._jobs set {to_queue("zz")}
          where id = (select min(id) from asyncq._jobs where locked_by is not null);
        insert into asyncq._workers (id, lease, pid, concurrency, host, tasks) overriding system value
          select min(id) - 1, '1 h', 1, 1, 'h', '{{t}}' from asyncq._workers;
        insert into asyncq._jobs
            (run_at, created_at, updated_at, task_id, queue, partition, payload, locked_by, locked_at, lock_token)
          select now(), now(), now(), 1, 'q' || i, asyncq._partition(1::smallint, 'q' || i), '{{}}',
            (select min(id) from asyncq._workers), now(), 1
          from generate_series(1, {OTHERS}) as i;
        insert into asyncq._partitions (id, running) select partition, 1 from asyncq._jobs where queue is not null""")
    scans, rows = (await cost(full, full.rows(CALLS["rescue"])))["_jobs"]
    await transaction.rollback()

    assert (0, True) == (scans, rows <= MOST), rows
    assert rows >= CLAIMS
