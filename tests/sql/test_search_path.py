"""Callers cannot redirect calls of our functions: look-alikes in their search_path are never executed."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from asyncq import JobContext, RetryAfter, Worker, task
from asyncq.domain.events import (
    FetchFailed,
    HeartbeatFailed,
    JobCompleted,
    ListenLost,
    MaintenanceFailed,
    SettleFailed,
    WorkerCrashed,
)
from asyncq.store.statements import folder, query
from tests.support.handoffs import FIRST as TOKEN
from tests.support.handoffs import open_slot
from tests.support.hostile import build
from tests.support.roles import Roles, three_roles
from tests.support.seen import Seen
from tests.support.session import Session, session
from tests.support.waiting import wait_until

# A schema after the server's own is used only where the server has no exact match.
USUAL = "{evil}, public"
FIRST = "{evil}, pg_catalog"


@pytest.fixture(scope="module")
async def roles(dsn: str) -> AsyncIterator[Roles]:
    """The roles of this file."""
    async with three_roles(dsn) as made:
        yield made


@pytest.fixture(scope="module")
async def evil(roles: Roles) -> AsyncIterator[str]:
    """Create the schema with the look-alikes; returns its name."""
    async with session(roles.dsn, roles.schema) as sql:
        yield await build(sql)
        await sql.connection.execute(f"set client_min_messages = warning; drop schema evil_{roles.schema} cascade")


@asynccontextmanager
async def misled(roles: Roles, role: str, search_path: str) -> AsyncIterator[Session]:
    """A session of a role in which names lead astray: by its search_path, and by temporary tables."""
    async with session(roles.dsn_of(role), roles.schema) as sql:
        await sql.connection.execute("create temp table _jobs (id int); create temp table pg_proc (id int)")
        await sql.connection.execute(f"set search_path = {search_path}, pg_temp")
        yield sql


JOBS = json.dumps(
    [
        {"identifier": "t", "queue_name": "q", "flags": ["a", "b"], "options": {"meta": {"m": 1}}},
        {"identifier": "t", "job_key": "k", "payload": [1], "run_at": "2030-01-01T00:00:00Z", "priority": 3},
        {"identifier": "u", "job_key": "k", "payload": [2], "max_attempts": 2},
        {"identifier": "u", "job_key": "l", "job_key_mode": "unsafe_dedupe"},
        {"identifier": "u", "payload": {"a": 1.5}, "options": {"unique": {"args_keys": ["a"], "period": "P1D"}}},
        {"identifier": "v", "options": {"singleton": True, "subject": "s", "idempotency_key": "i"}},
    ]
)

CALLS = {
    "enqueuer": [f"select count(*) from asyncq.enqueue('{JOBS}')"] * 2,
    "worker": [
        "select asyncq.add_job('t', '{}', 'q', job_key := 'k', flags := '{a}', options := '{\"meta\": {}}')",
        'select asyncq.add_jobs(\'{"(t,{},q,,,k,1,{a},replace,)","(u,,,,,k,,,,)"}\')',
        'select asyncq.add_job(\'u\', \'{"a": [1.5]}\', options := \'{"unique": {"period": "P1D"}}\')',
        'select asyncq.add_job(\'v\', options := \'{"singleton": true, "rerun": true, "idempotency_key": "i"}\')',
        "select asyncq.remove_job('k')",
        "select asyncq.add_cron_item('i', 't', '@daily', '{\"a\": 1.5}', '{\"tz\": \"UTC\", \"fill\": \"1d\"}')",
        'select asyncq.change_cron_item(\'i\', \'{"fill": 60, "priority": 3, "flags": ["f"]}\')',
        "select asyncq.pause_cron_item('i')",
        "select asyncq.resume_cron_item('i')",
        "select asyncq.run_cron_item('i')",
        "select asyncq._report_cron('{i}', '{1}', '{null}', '{null}', '{null}')",
        "select asyncq.list_cron_items()",
        "select asyncq.remove_cron_item('i')",
        "select asyncq._task_ids('{t,v}')",
        "update asyncq._jobs set locked_by = 0, locked_at = asyncq.now(), lock_token = 0",
        "select asyncq._rescue_jobs(true)",
        "select asyncq._wake_workers(), asyncq.now(), asyncq.clock()",
    ],
}


@pytest.mark.parametrize("search_path", [USUAL, FIRST], ids=["usual", "first"])
@pytest.mark.parametrize("role", CALLS)
async def test_no_lookalike_is_executed_by_a_function_that_others_call(
    roles: Roles, evil: str, role: str, search_path: str
) -> None:
    """The enqueuer's function has the rights of the owner; a worker's those of the worker, for any search_path."""
    errors = []
    async with misled(roles, getattr(roles, role), search_path.format(evil=evil)) as sql:
        for call in CALLS[role]:
            # Any session may send it: nothing in the statement itself needs the search_path.
            try:
                await sql.execute(call.replace("count(*)", "ord"))
            except asyncpg.PostgresError as error:
                errors.append(f"{call}: {error} {error.context}")
        await sql.execute("set search_path = ''; truncate pg_temp._jobs")
    async with session(roles.dsn, roles.schema) as sql:
        await sql.execute("delete from asyncq._jobs")

    assert [] == errors


async def test_the_lookalikes_are_executed_where_nothing_protects(roles: Roles, evil: str) -> None:
    """Otherwise the tests around this one would prove nothing."""
    unsafe = {
        "select from unnest('{a}'::text[])": USUAL,
        "select 1.5::float8 * 2::bigint": USUAL,
        "select width_bucket(1::bigint, '{1}'::bigint[])": USUAL,
        "select 1 = 1": FIRST,
        "select 'a'::text": FIRST,
    }
    codes = []
    for statement, search_path in unsafe.items():
        async with misled(roles, roles.worker, search_path.format(evil=evil)) as sql:
            with pytest.raises(asyncpg.PostgresError) as caught:
                await sql.execute(statement)
            codes.append(caught.value.sqlstate)

    assert ["XXHIJ"] * len(unsafe) == codes


STATEMENTS = {
    "may_add": "",
    "add_jobs": "('t', '{}', '{q}', '2000-01-01', '{\"job_key\": \"k\", \"max_attempts\": 3}')",
    "add_keyless_job": "('t', '{}', 'q', '2000-01-01', '{\"max_attempts\": 3}')",
    "insert_job": "('t', '{}', 3, 1, true)",
    "fill_slot": "('t', '{}', 3, 1)",
    "fill_slot_awaited": "('t', '{}', 3, 1, '{\"watchers\": []}')",
    "get_job": "(1)",
    "enqueue": '(\'[{"identifier": "t"}]\')',
}


@pytest.mark.parametrize("name", STATEMENTS)
async def test_no_lookalike_is_executed_by_a_statement_of_the_client(roles: Roles, evil: str, name: str) -> None:
    """They run on callers' connections. Prepared in SQL, as the driver's own questions about types are not ours."""
    role = roles.enqueuer if name == "enqueue" else roles.worker
    async with (
        session(roles.dsn, roles.schema) as idle,
        misled(roles, role, USUAL.format(evil=evil)) as sql,
    ):
        if name.startswith("fill_slot"):
            await open_slot(idle, TOKEN)
        await sql.execute("begin")
        # It raises if one is.
        said = await sql.connection.execute(f"prepare it as {query(name, roles.schema)}; execute it {STATEMENTS[name]}")
        await sql.execute("rollback")

    assert said in ("SELECT 0", "SELECT 1", "INSERT 0 0", "INSERT 0 1") or (said, name) == ("UPDATE 1", "fill_slot")


@task
async def stumble(ctx: JobContext) -> None:
    """Fail once."""
    if ctx.attempt == 1:
        raise RetryAfter(0)


BAD = (FetchFailed, HeartbeatFailed, ListenLost, MaintenanceFailed, SettleFailed, WorkerCrashed)


async def test_no_lookalike_is_executed_by_a_worker(roles: Roles, evil: str) -> None:
    """Up to PostgreSQL 14 everybody may create functions in `public`, which is in everybody's search_path."""
    seen = Seen()
    dsn = roles.dsn_of(roles.worker, search_path=USUAL.format(evil=evil))
    async with session(roles.dsn, roles.schema) as sql:
        for queue in ("null", "'line'"):
            await sql.execute(f"select asyncq.add_job('stumble', queue_name := {queue}, flags := '{{f}}')")
    worker = Worker(dsn, [stumble], schema=roles.schema, observers=[seen], forbidden_flags=["g"], grace=0.1)
    async with worker.start():
        await wait_until(
            lambda: len(seen.of(JobCompleted)) == 2 or any(seen.of(kind) for kind in BAD), description="two jobs to end"
        )

    assert [] == [event for kind in BAD for event in seen.of(kind)]


# These are inlined into the statements that call them, which a setting of their own would prevent. They call nothing by
# a bare name that the server does not match exactly.
INLINED = (
    {"now", "clock", "_state", "_wake_workers"}
    | {
        "_claimed",
        "_fits_batch",
        "_is_discarded",
        "_has_open_slot",
        "_is_responsive",
        "_is_allowed",
        "_is_due",
        "_is_known",
        "_is_listening",
        "_is_live",
        "_is_batchable",
        "_is_ready",
        "_lock_space",
        "_max_attempts",
        "_new_job",
        "_priority",
    }
    | {
        "_all_jobs",
        "_allowance",
        "_allowed_at",
        "_are_allowed",
        "_chosen",
        "_is_chosen",
        "_cell",
        "_is_ahead",
        "_first_partitioned",
        "_first_plain",
        "_full_gate",
        "_kinds",
        "_newest_cell",
        "_plain_tasks",
        "_woken_kinds",
        "_ended_wakeups",
        "_gate",
        "_heads",
        "_partition_of",
        "_spent",
        "_start_within",
        "_wake_partitions",
    }
)


async def test_functions_that_any_session_calls_set_their_search_path(roles: Roles) -> None:
    """Functions that other programs' sessions call set it; their callees inherit it.

    A new function of this kind needs `set search_path = pg_catalog, pg_temp`.
    """
    async with session(roles.dsn, roles.schema) as sql:
        unset = await sql.values("""
            select proname from pg_catalog.pg_proc
            where pronamespace = 'asyncq'::regnamespace
              and not coalesce(proconfig, '{}') @> array['search_path=pg_catalog, pg_temp']""")
    queries = "\n".join(path.read_text("utf-8") for path in (folder() / "queries").rglob("*.sql"))
    entries = {name for name in unset if not name.startswith("_") or f"asyncq.{name}(" in queries}

    assert set() == entries - INLINED
