"""Adds and removals by key find their rows by index, whatever the planner knows, and knew when it made its plans."""

from collections.abc import AsyncIterator, Awaitable

import pytest

from asyncq.testing import temporary_schema
from tests.support.keyed import MODES, Spec, add_all
from tests.support.session import Session, session

ROWS = 20_000
SPECS = 20

FILL = f"""
insert into asyncq._jobs
  (run_at, created_at, updated_at, task_id, key, payload, attempts, locked_by, locked_at, lock_token)
select now() + interval '1 h', now(), now(), (select id from asyncq._tasks where identifier = 't'),
  case when i <= {ROWS // 2} then 'k' || i end, '{{}}', case when i % 7 = 0 then 25 else 0 end,
  case when i % 5 = 0 then 1 end, case when i % 5 = 0 then now() end, case when i % 5 = 0 then 1 end
from generate_series(1, {ROWS}) as i;
insert into asyncq._key_locks select hashtextextended('key:k' || i, 0) from generate_series(1, {ROWS // 2}) as i
  on conflict do nothing;
insert into asyncq._tasks (identifier) select 'some' || i from generate_series(1, {ROWS}) as i;
"""
STATS = """
select relname as table, seq_scan::int as scans, (coalesce(idx_tup_fetch, 0) + seq_tup_read)::int as rows
from pg_catalog.pg_stat_xact_user_tables
where schemaname = 'asyncq' and relname = any('{_jobs,_key_locks,_tasks}')
"""

# A call -> its specs: of keys that are free, held in each state, doubled, and none.
CALLS = {
    "one new": [Spec(key="new")],
    "many new": [Spec(key=f"new{i}") for i in range(SPECS)],
    "many new with new names": [Spec(f"t{i}", queue=f"q{i}", key=f"new{i}") for i in range(SPECS)],
    "many held with many names": [Spec(f"some{i + 1}", queue=f"some{i + 1}", key=f"k{i + 1}") for i in range(SPECS)],
    **{f"one held, {mode}": [Spec(key="k1", mode=mode)] for mode in MODES},
    **{f"many held, {mode}": [Spec(key=f"k{i + 1}", mode=mode) for i in range(SPECS)] for mode in MODES},
    "many doubled": [Spec(key=f"k{i % 4 + 1}", mode=MODES[i % 3]) for i in range(SPECS)],
    "none": [Spec(key=None)] * SPECS,
}


async def cost(sql: Session, call: Awaitable[object]) -> dict[str, tuple[int, int]]:
    """Run a call, and roll back. Returns for each table how often it was scanned, and how many rows were read."""
    transaction = sql.connection.transaction()
    await transaction.start()
    # What the server has not gathered yet of earlier transactions is counted too.
    before = {row["table"]: row for row in await sql.rows(STATS)}
    await call
    after = {row["table"]: row for row in await sql.rows(STATS)}
    await transaction.rollback()
    return {
        name: (row["scans"] - before[name]["scans"], row["rows"] - before[name]["rows"]) for name, row in after.items()
    }


@pytest.fixture(scope="module", params=["never analysed", "analysed", "planned while it was empty"])
async def full(request: pytest.FixtureRequest, dsn: str) -> AsyncIterator[Session]:
    """A table with 20,000 jobs, half of them with a key; a fifth of all run, a seventh are discarded."""
    async with temporary_schema(dsn) as schema, session(dsn, schema) as sql:
        for table in ("_jobs", "_key_locks", "_tasks"):
            await sql.execute(f"alter table asyncq.{table} set (autovacuum_enabled = off)")
        await sql.execute("insert into asyncq._tasks (identifier) values ('t')")
        if request.param.startswith("planned"):
            for table in ("_jobs", "_key_locks", "_tasks"):
                await sql.execute(f"vacuum analyze asyncq.{table}")
            for specs in CALLS.values():
                await cost(sql, add_all(sql, specs))
            await sql.rows("select asyncq.remove_job('k1')")
        await sql.execute(FILL)
        if request.param == "analysed":
            await sql.execute("analyze asyncq._jobs; analyze asyncq._key_locks")
        yield sql


@pytest.mark.parametrize("call", CALLS)
async def test_an_add_reads_a_few_rows_for_each_of_its_jobs(full: Session, call: str) -> None:
    """A scan of a table with a million jobs would take a second, for each add, with all key locks held."""
    costs = await cost(full, add_all(full, CALLS[call]))

    assert dict.fromkeys(costs, 0) == {table: scans for table, (scans, _) in costs.items()}
    assert sum(rows for _, rows in costs.values()) <= 12 * len(CALLS[call]) + 10


async def test_a_removal_reads_a_few_rows(full: Session) -> None:
    """The same."""
    costs = await cost(full, full.rows("select asyncq.remove_job('k1')"))

    assert dict.fromkeys(costs, 0) == {table: scans for table, (scans, _) in costs.items()}
    assert 1 <= costs["_jobs"][1] <= 5


async def test_ten_thousand_keyed_jobs_in_one_call_need_no_server_setting(dsn: str) -> None:
    """Advisory locks in their place would run out of shared memory. Added, then replaced, then refused."""
    async with temporary_schema(dsn) as schema, session(dsn, schema) as sql:
        outcomes = []
        for mode in ("replace", "replace", "unsafe_dedupe"):
            done = await add_all(sql, [Spec(key=f"k{i}", mode=mode) for i in range(10_000)])
            outcomes.append({one.outcome for one in done})
        revisions = await sql.value("select array[min(revision), max(revision), count(*)] from asyncq._jobs")

    assert [{"added"}, {"updated"}, {"deduplicated"}] == outcomes
    assert [2, 2, 10_000] == revisions
