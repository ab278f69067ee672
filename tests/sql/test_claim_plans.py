"""Functions for the claims of workers read claims and no waiting jobs, with any statistics of the planner."""

from collections.abc import AsyncIterator

import pytest

from asyncq.testing import temporary_schema
from tests.sql.session import Session, session
from tests.sql.test_key_plans import cost

WAITING, CLAIMS = 20_000, 30
# The row of each claim is read to find, lock, check and change it, and to see that none is left.
MOST = 25 * CLAIMS
CALLS = {
    "rescue": "select from asyncq._rescue_jobs(false)",
    "thorough rescue": "select from asyncq._rescue_jobs(true)",
    "list": "select from asyncq._list_workers()",
    "unlock": "select from asyncq._force_unlock_workers(array(select id::text from asyncq._workers))",
    "return": "select from asyncq._return_lost((select min(id) from asyncq._workers), '{1}')",
}


@pytest.fixture(scope="module", params=["never analysed", "analysed", "planned while it was empty"])
async def full(request: pytest.FixtureRequest, dsn: str) -> AsyncIterator[Session]:
    """A table with 20,000 waiting jobs, and 30 claims of a dead worker."""
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
            insert into asyncq._jobs
                (run_at, created_at, updated_at, task_id, payload, locked_by, locked_at, lock_token)
              select now(), now(), now(), 1, '{{}}', worker.id, worker.last_seen, 1 + 0 * worker.id
              from generate_series(1, {WAITING + CLAIMS}) as i
              left join asyncq._workers as worker on i % {(WAITING + CLAIMS) // CLAIMS} = 0""")
        if request.param == "analysed":
            await sql.execute("analyze asyncq._jobs")
        yield sql


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_call_reads_claims_only(full: Session, call: str) -> None:
    """With millions of waiting jobs a scan takes seconds, and a role's statement_timeout would end each rescue."""
    scans, rows = (await cost(full, full.rows(call)))["_jobs"]

    assert (0, True) == (scans, rows <= MOST), rows
    assert rows >= CLAIMS
