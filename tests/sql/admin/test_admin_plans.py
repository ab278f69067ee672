"""Administrative functions find their jobs by an index, whatever statistics the planner has."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from asyncq.testing import temporary_schema
from tests.support.plans import FILL, cost
from tests.support.session import Session, session

IDS = 20
CALLS = {
    "complete": "select asyncq.complete_jobs($1)",
    "fail": "select asyncq.permanently_fail_jobs($1)",
    "reschedule": "select asyncq.reschedule_jobs($1, now(), 1)",
    "retry": "select asyncq.retry_jobs($1)",
}


@pytest.fixture(scope="module", params=[False, True], ids=["never analysed", "analysed"])
async def full(request: pytest.FixtureRequest, dsn: str) -> AsyncIterator[Session]:
    """A table with 20,000 jobs; a fifth of all run, a seventh are discarded; and a queue of 5,000."""
    async with temporary_schema(dsn) as schema, session(dsn, schema) as sql:
        await sql.execute("alter table asyncq._jobs set (autovacuum_enabled = off)")
        await sql.execute("insert into asyncq._tasks (identifier) values ('t')")
        await sql.execute(f"""
            {FILL};
            insert into asyncq._jobs (run_at, created_at, updated_at, task_id, partition, queue, payload)
            select now(), now(), now(), (select id from asyncq._tasks where identifier = 't'),
              asyncq._partition(1::smallint, 'q'), 'q', '{{}}'
            from generate_series(1, 5000)""")
        if request.param:
            await sql.execute("analyze asyncq._jobs")
        yield sql


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_call_reads_a_few_rows_for_each_of_its_ids(full: Session, call: str) -> None:
    """It reads them to lock, check, change and return the job."""
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


CLAIMS = {
    "rescue": "select from asyncq._rescue_jobs(false)",
    "thorough rescue": "select from asyncq._rescue_jobs(true)",
    "return_lost": "select from asyncq._return_lost(1000000, '{5}')",
    "still_claimed": """
        select lock_token from asyncq._jobs where locked_by = 1000000 and locked_at is not null and lock_token = 5""",
    "force_unlock_workers": "select from asyncq.force_unlock_workers('{1000000}')",
}
"""A dead worker has 20 claims of one fetch."""


@pytest.mark.parametrize("call", CLAIMS.values(), ids=CLAIMS)
async def test_a_search_for_claims_of_a_worker_reads_only_those(full: Session, call: str) -> None:
    """Millions of waiting jobs must not delay it: a dead worker's jobs have to run again soon."""
    transaction = full.connection.transaction()
    await transaction.start()
    await full.execute("""
        update asyncq._jobs set locked_by = null, locked_at = null, lock_token = null where locked_by is not null;
        insert into asyncq._workers (id, lease, pid, concurrency, host, tasks, last_seen)
          overriding system value values (1000000, '1 s', 1, 20, 'h', '{t}', now() - interval '1 day');
        update asyncq._jobs set locked_by = 1000000, locked_at = now(), lock_token = 5
          where id in (select id from asyncq._jobs where attempts < 25 and queue is null order by id desc limit 20);
        set local enable_seqscan = off; set local enable_sort = off""")
    costs = await cost(full, full.rows(call))
    await transaction.rollback()

    assert 0 == costs["_jobs"][0]
    assert costs["_jobs"][1] <= 20 * 20


RARE = """
alter table asyncq._ended_jobs set (autovacuum_enabled = off);
insert into asyncq._tasks (identifier) values ('ended'), ('rare');
insert into asyncq._ended_jobs
    (id, created_at, ended_at, keep_until, task_id, state, run_at, attempts, max_attempts, priority)
  select number, now(), now(), now() + interval '1 h',
    (select id from asyncq._tasks where identifier = case when number % 4000 = 5 then 'rare' else 'ended' end),
    case when number % 2000 = 5 then 'cancelled' when number = 7 then 'discarded' else 'completed' end, now(), 1, 25, 0
  from generate_series(1, 20000) as number"""


@pytest.fixture(scope="module", params=[False, True], ids=["never analysed", "analysed"])
async def ended(request: pytest.FixtureRequest, dsn: str) -> AsyncIterator[str]:
    """The schema of 20,000 ended jobs: ten were cancelled, five of these of one task, and one was discarded."""
    async with temporary_schema(dsn) as schema, session(dsn, schema) as sql:
        await sql.execute(RARE)
        if request.param:
            await sql.execute("analyze asyncq._ended_jobs")
        yield schema


@pytest.mark.parametrize("mode", ["auto", "force_generic_plan"])
@pytest.mark.parametrize(
    ("wanted", "ids", "following"),
    [
        (("cancelled", None, None, None, 100, 50_000, True), [*range(18_005, 0, -2000)], None),
        (("cancelled", "rare", None, None, 100, 50_000, True), [*range(16_005, 0, -4000)], None),
        (("cancelled", "rare", None, 18_005, 100, 3, False), [16_005, 12_005], 12_005),
        (("discarded", None, None, None, 100, 50_000, True), [7], None),
    ],
)
async def test_a_page_of_a_rare_state_of_the_history_reads_only_its_jobs(
    ended: str, dsn: str, mode: str, wanted: tuple[Any, ...], ids: list[int], following: int | None
) -> None:
    """A look at three cancelled jobs ends at the third, also if one of them has another task."""
    async with session(dsn, ended, plan_cache_mode=mode) as sql:
        found = list[tuple[int, int | None]]()

        async def read() -> None:
            found.extend((row["id"], row["next"]) for row in await sql.run("list_history", *wanted))

        (scans, rows) = (await cost(sql, read()))["_ended_jobs"]

    assert [(job_id, following) for job_id in ids] == found
    assert (0, True) == (scans, rows <= 40)
