"""Unique adds find jobs, ended jobs and requests by index, whatever the planner knows, and knew when it made plans."""

import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from asyncq.testing import temporary_schema
from tests.sql.unique.test_key_plans import ROWS, SPECS
from tests.support.keyed import Spec, add_all
from tests.support.session import Session, session
from tests.support.unique import ALL_STATES, DEFAULT_STATES, STRATEGIES

TABLES = ("_jobs", "_key_locks", "_tasks", "_ended_jobs", "_requests")
FILL = f"""
insert into asyncq._jobs
  (run_at, created_at, updated_at, task_id, payload, attempts, locked_by, locked_at, lock_token, unique_key)
select now() + interval '1 h', now(), now(), (select id from asyncq._tasks where identifier = 't'),
  '{{}}', case when i % 4 = 0 then 25 else 0 end,
  case when i % 20 = 1 then 1 end, case when i % 20 = 1 then now() end, case when i % 20 = 1 then 1 end,
  sha256(convert_to(case when i % 4 = 0 then 'failed' else 'k' || i end, 'UTF8'))
from generate_series(1, {ROWS}) as i;
insert into asyncq._ended_jobs (id, created_at, ended_at, keep_until, task_id, state, unique_key)
select -i, now(), now(), 'infinity', 1, 'completed', sha256(convert_to('ended' || i, 'UTF8'))
from generate_series(1, {ROWS}) as i;
insert into asyncq._requests (keep_until, job_id, key, digest)
select 'infinity', -i, 'r' || i, asyncq._digest('t', '{{}}') from generate_series(1, {ROWS}) as i;
"""
STATS = """
select relname as table, seq_scan::int as scans, (coalesce(idx_tup_fetch, 0) + seq_tup_read)::int as rows
from pg_catalog.pg_stat_xact_user_tables
where schemaname = 'asyncq' and relname = any($1::text[])
"""


def unique(key: str, **asked: Any) -> Spec:
    """A spec with a key."""
    digest = hashlib.sha256(key.encode()).hexdigest()
    question = {"key": digest, "on_conflict": "ignore", "states": DEFAULT_STATES, "period": None} | asked
    return Spec(key=None, extra=json.dumps(question))


def request(key: str, **asked: Any) -> Spec:
    """A spec with an idempotency key."""
    return Spec(key=None, extra=json.dumps({"request": key, "window_s": 60} | asked))


# A call -> its specs: of keys that are free, held, shared in the call; of requests that are new, and known.
CALLS = {
    "one new": [unique("new")],
    "many new": [unique(f"new{i}") for i in range(SPECS)],
    **{
        f"many held, {strategy}": [unique(f"k{4 * i + 1}", on_conflict=strategy) for i in range(SPECS)]
        for strategy in STRATEGIES
    },
    "many held, in all states": [unique(f"k{4 * i + 1}", states=ALL_STATES, period="PT1H") for i in range(SPECS)],
    "many ended": [unique(f"ended{i + 1}", states=ALL_STATES) for i in range(SPECS)],
    "many ended, replaced": [unique(f"ended{i + 1}", states=ALL_STATES, on_conflict="replace") for i in range(SPECS)],
    "one key of which thousands have failed": [unique("failed")],
    "one key of which thousands have failed, replaced": [unique("failed", on_conflict="replace")],
    "many that run are run again": [unique(f"k{20 * i + 1}", rerun=True) for i in range(SPECS)],
    "many alike": [unique(f"k{4 * (i % 4) + 1}") for i in range(SPECS)],
    "many shared": [unique(f"k{4 * (i % 10) + 1}", on_conflict="replace") for i in range(SPECS)],
    "many new requests": [request(f"new{i}") for i in range(SPECS)],
    "many known requests": [request(f"r{i + 1}") for i in range(SPECS)],
    "many shared requests": [request(f"r{i % 10 + 1}") for i in range(SPECS)],
}


async def cost(sql: Session, specs: list[Spec]) -> dict[str, tuple[int, int]]:
    """Add jobs, and roll back. Returns for each table how often it was scanned, and how many rows were read."""
    transaction = sql.connection.transaction()
    await transaction.start()
    before = {row["table"]: row for row in await sql.rows(STATS, TABLES)}
    await add_all(sql, specs)
    after = {row["table"]: row for row in await sql.rows(STATS, TABLES)}
    await transaction.rollback()
    return {
        name: (row["scans"] - before[name]["scans"], row["rows"] - before[name]["rows"]) for name, row in after.items()
    }


@pytest.fixture(scope="module", params=["never analysed", "analysed", "planned while it was empty"])
async def full(request: pytest.FixtureRequest, dsn: str) -> AsyncIterator[Session]:
    """20,000 jobs with keys, a quarter of them discarded under one key; as many ended ones and requests."""
    async with temporary_schema(dsn) as schema, session(dsn, schema) as sql:
        for table in TABLES:
            await sql.execute(f"alter table asyncq.{table} set (autovacuum_enabled = off)")
        await sql.execute("insert into asyncq._tasks (identifier) values ('t')")
        if request.param.startswith("planned"):
            for table in TABLES:
                await sql.execute(f"vacuum analyze asyncq.{table}")
            for specs in CALLS.values():
                await cost(sql, specs)
        await sql.execute(FILL)
        if request.param == "analysed":
            for table in TABLES:
                await sql.execute(f"analyze asyncq.{table}")
        yield sql
        await sql.execute("delete from asyncq._jobs")


@pytest.mark.parametrize("call", CALLS)
async def test_an_add_reads_a_few_rows_for_each_of_its_jobs(full: Session, call: str) -> None:
    """A scan of a table with a million jobs would take a second, for each add, with all key locks held."""
    costs = await cost(full, CALLS[call])

    assert dict.fromkeys(costs, 0) == {table: scans for table, (scans, _) in costs.items()}
    assert sum(rows for _, rows in costs.values()) <= 20 * len(CALLS[call]) + 20


async def test_ten_thousand_unique_jobs_in_one_call_need_no_server_setting(dsn: str) -> None:
    """Advisory locks would exhaust the shared memory of a server with its default settings."""
    async with temporary_schema(dsn) as schema, session(dsn, schema) as sql:
        outcomes = [
            {one.outcome for one in await add_all(sql, [unique(f"k{i}", on_conflict=way) for i in range(10_000)])}
            for way in ("ignore", "replace")
        ]
        outcomes.append({one.outcome for one in await add_all(sql, [request(f"k{i}") for i in range(10_000)])})

    assert [{"added"}, {"added"}, {"added"}] == outcomes
