"""Everything through a real PgBouncer that pools by transaction, and hands each one to another session in turn."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import psycopg
import pytest

from asyncq import Client, ConfigurationError, JobContext, JobState, StoreUnavailable, SyncClient, Worker, task
from asyncq.domain.events import (
    CronAdded,
    CronItemFailed,
    FetchFailed,
    HeartbeatFailed,
    JobCompleted,
    JobLost,
    JobRetried,
    JobsRescued,
    JobStarted,
    ListenConnected,
    ListenLost,
    MaintenanceFailed,
    PollingOnly,
    SettleFailed,
    WorkerLost,
)
from asyncq.store import listen
from asyncq.store.database import Database, HandlerPool
from asyncq.store.migrate import migrate, status
from asyncq.testing import MovableClock, make_worker
from tests.engine.cron.test_scheduler import MINUTE, START
from tests.engine.liveness.test_leases import process
from tests.support.cli import asyncq
from tests.support.faults import terminate
from tests.support.locks import be_up_for_long
from tests.support.pooler import pooled, pooler
from tests.support.seen import Seen

TROUBLE = (
    CronItemFailed, FetchFailed, HeartbeatFailed, JobLost, JobRetried, JobsRescued, ListenLost, MaintenanceFailed,
    SettleFailed, WorkerLost,
)  # fmt: skip
# Some jobs, and their expected results.
ASKED = ("enable_seqscan", "jit", "search_path", "transaction_isolation", "lock_timeout", "plan_cache_mode")
SET = ["off", "off", "pg_catalog, pg_temp", "read committed", "1500ms", "force_generic_plan"]


@task
async def nothing() -> None:
    """The least job."""


@pytest.fixture
def bare(dsn: str, schema: str) -> Iterator[str]:
    """The pooler's DSN, as written by a user who has not read the guide.

    It ends before the schema is dropped, since it keeps its connections to the server.
    """
    with pooler(dsn) as made:
        yield made


@pytest.fixture
def way(bare: str) -> str:
    """The pooler's DSN, as the guide says."""
    return pooled(bare)


def trouble(seen: Seen) -> list[object]:
    """The events that report a failure."""
    return [event for event in seen.events if isinstance(event, TROUBLE)]


# Settings that work


async def test_a_client_works_through_a_pooler(way: str, schema: str) -> None:
    """Many calls at once, so that each finds another session of the server."""
    async with Client(way, schema=schema, pool_size=20) as client:
        added = await asyncio.gather(*(client.add_job("count", {"n": n}, job_key=f"{n % 7}") for n in range(100)))
        many = await client.add_jobs([nothing.job()] * 50)
        job = await client.get_job(many[0].id)
        counts = await client.admin.counts()
        cancelled = await client.admin.cancel_jobs([item.id for item in many])
        listed = (await client.admin.find_jobs(newest=False)).jobs

    assert {f"{n}" for n in range(7)} == {job.key for job in listed}
    assert (7, 57, 50) == (len({item.id for item in added}), counts.available, len(cancelled))
    assert JobState.AVAILABLE == job.state


@pytest.mark.usefixtures("anyio_backend")  # for the fixtures, since the test has no event loop
def test_a_sync_client_works_through_a_pooler_without_a_word_in_the_dsn(bare: str, schema: str) -> None:
    """Each call is one transaction with settings of its own, and prepares nothing."""
    jobs = SyncClient(bare, schema=schema)
    with ThreadPoolExecutor(4) as threads:
        added = list(threads.map(lambda n: jobs.add_job("count", {"n": n}, job_key=f"{n % 3}"), range(24)))
    cancelled = jobs.cancel_jobs({item.id for item in added})
    with psycopg.connect(bare, autocommit=True, prepare_threshold=None) as connection:
        left = {connection.execute("show enable_seqscan").fetchone() for _ in range(8)}

    assert (3, {("on",)}) == (len(cancelled), left)


async def test_an_add_on_the_callers_connection_through_a_pooler_is_part_of_its_transaction(
    bare: str, schema: str, client: Client
) -> None:
    """The caller's transaction keeps one session."""
    connection = await asyncpg.connect(bare, statement_cache_size=0)
    try:
        async with connection.transaction():
            kept = await client.add_job(nothing, connection=connection)
        transaction = connection.transaction()
        await transaction.start()
        await client.add_job(nothing, connection=connection)
        await transaction.rollback()
    finally:
        await connection.close()
    counts = await client.admin.counts()

    assert (1, JobState.AVAILABLE) == (counts.available, (await client.get_job(kept.id)).state)


async def test_a_worker_works_through_a_pooler_and_reports_that_it_only_polls(
    way: str, schema: str, client: Client, seen: Seen
) -> None:
    """Handlers, queues, retries, their own connections and adds: nothing needs a session that lasts."""

    @task(queue="line")
    async def ask(ctx: JobContext, n: int) -> None:
        async with ctx.connection() as connection, connection.transaction():
            assert n == await connection.fetchval("select $1::int", n)
            await ctx.add_job(nothing, connection=connection)
        assert [(n,)] == [tuple(row) for row in await ctx.query("select $1::int", n)]
        await ctx.add_job(nothing)

    worker = Worker(way, [nothing, ask], schema=schema, observers=[seen], poll=0.05)
    async with worker.start():
        await client.add_jobs([nothing.job()] * 100 + [ask.job(n=n) for n in range(20)])
        await seen.wait_for(JobCompleted, 160)

    assert (1, 160) == (len(seen.of(PollingOnly)), len(seen.of(JobStarted)))
    assert [] == trouble(seen)


async def test_with_a_dsn_of_its_own_for_listen_a_worker_behind_a_pooler_is_woken(
    way: str, dsn: str, schema: str, client: Client, seen: Seen
) -> None:
    """It hardly ever polls, so only a notification can start the job."""
    async with Worker(way, [nothing], schema=schema, observers=[seen], poll=60, listen_dsn=dsn).start():
        await seen.wait_for(ListenConnected)
        await client.add_job(nothing)
        await seen.wait_for(JobCompleted)

    assert ([], []) == (seen.of(PollingOnly), trouble(seen))


async def test_recurring_jobs_are_added_through_a_pooler(
    way: str, dsn: str, schema: str, db: asyncpg.Connection, seen: Seen
) -> None:
    """Each of their transactions needs the lock_timeout."""
    async with MovableClock(dsn, schema) as clock:
        await clock.set(START)
        crontab = "* * * * * nothing"
        worker = make_worker(way, [], schema=schema, observers=[seen], crontab=crontab, listen_dsn=dsn, poll=60)
        async with worker.start():
            await clock.move(MINUTE)
            await seen.wait_for(CronAdded)

    assert [] == trouble(seen)


async def test_migrations_run_through_a_pooler(way: str, dsn: str, schema: str) -> None:
    """The schema may be new or existing. Two concurrent runs wait for each other."""
    fresh = Database(way, f"{schema}_fresh")
    connection = await asyncpg.connect(dsn)
    try:
        reports = await asyncio.gather(migrate(fresh), migrate(fresh))
        again = await migrate(fresh)
        pending = (await status(fresh)).pending
    finally:
        await connection.execute(f"drop schema if exists {schema}_fresh cascade")
        await connection.close()

    assert [True, False] == sorted((bool(report.applied) for report in reports), reverse=True)
    assert ((), ()) == (again.applied, pending)


async def test_the_command_line_works_through_a_pooler(way: str, schema: str, tmp_path: Path) -> None:
    """The DSN names the pooler, so every command and every variable can carry it."""
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "hello.py").write_text(
        "from asyncq import task\n\n\n@task\nasync def hello() -> None:\n    print('ran')\n"
    )
    said = [
        await asyncq(*words, "--schema", schema, cwd=tmp_path, DATABASE_URL=way)
        for words in (("migrate",), ("add", "hello"), ("jobs", "ls"), ("worker", "--once"))
    ]

    assert [0, 0, 0, 0] == [done.returncode for done in said]
    assert "hello" in said[2].stdout
    assert "ran" in said[3].stdout


async def test_settings_hold_in_each_transaction_and_nowhere_else(way: str, bare: str, schema: str) -> None:
    """A session that kept them would plan the statements of other programs badly."""
    ours = await Database(way, schema).connect("test", generic_plans=True, lock_timeout_s=1.5)
    theirs = await asyncpg.connect(bare, statement_cache_size=0)
    try:
        for _ in range(8):
            inside = [await ours.fetchval("select current_setting($1)", name) for name in ASKED]
        outside = {await theirs.fetchval("show enable_seqscan") for _ in range(8)}
    finally:
        await ours.close()
        await theirs.close()

    assert SET == inside
    assert {"on"} == outside


async def test_a_worker_behind_a_pooler_outlasts_the_end_of_all_its_connections(
    way: str, schema: str, db: asyncpg.Connection, client: Client, seen: Seen
) -> None:
    """The pooler's own connections to the server end; it answers with errors, and opens others."""
    async with Worker(way, [nothing], schema=schema, observers=[seen], poll=0.05, concurrency=2).start():
        for round_ in range(1, 4):
            await client.add_jobs([nothing.job()] * 100)
            await seen.wait_for(JobStarted, 100 * round_ - 50)
            await terminate_workers(db, schema)
        await seen.wait_for(JobCompleted, 300)

    assert ([], 300) == (seen.of(JobLost), len(seen.of(JobStarted)))


async def terminate_workers(db: asyncpg.Connection, schema: str) -> None:
    """Let the server end the connections of a schema's workers, and leave its clients alone."""
    for role in ("fetch", "settle", "heartbeat"):
        await terminate(db, schema, role)


# Errors for settings that cannot work


LEFT_BEHIND = """
select row(
  array(select name || ' = ' || setting from pg_settings
    where source = 'session' and name <> all('{application_name,client_encoding}')),
  (select count(*) from pg_prepared_statements), array(select pg_listening_channels()),
  (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()))::text
"""


async def use(door: str, dsn: str, schema: str) -> None:
    """Open a connection of ours for one use."""
    if door == "client":
        async with Client(dsn, schema=schema) as client:
            await client.add_job(nothing)
    elif door == "worker":
        await Worker(dsn, [nothing], schema=schema).run_once()
    elif door == "migrate":
        await migrate(Database(dsn, schema))
    elif door == "listen":
        nobody = {name: lambda *_: None for name in ("notified", "cancelled", "changed", "look", "handed")}
        async with listen.listening(Database(dsn, schema), **nobody):
            pass
    else:
        pool = HandlerPool(Database(dsn, schema), 1, 5.0)
        try:
            async with pool.acquire() as connection, connection.transaction():
                await connection.fetchval("select $1::int[]", [1])
        finally:
            await pool.close()


@pytest.mark.parametrize("in_turn", [True, False], ids=["in turn", "last used"])
@pytest.mark.parametrize("size", [1, 2, 8])
@pytest.mark.parametrize("door", ["client", "worker", "migrate", "listen", "handlers"])
async def test_without_the_option_in_the_dsn_the_error_names_it_and_nothing_stays_behind(
    dsn: str, schema: str, door: str, size: int, in_turn: bool
) -> None:
    """Other programs use the same sessions: with a search_path of ours they would not find their tables."""
    with pooler(dsn, size=size, in_turn=in_turn) as bare:
        connections = [await asyncpg.connect(bare, statement_cache_size=0) for _ in range(size)]
        fresh = await look_at_all(connections)
        for _ in range(3):
            with pytest.raises(ConfigurationError, match="statement_cache_size=0"):
                await use(door, bare, schema)
        after = await look_at_all(connections)
        for connection in connections:
            await connection.close()

    assert (size, {"({},0,{},0)"}) == (len(fresh), {*fresh.values()})
    assert fresh == after


@pytest.mark.parametrize("in_turn", [True, False], ids=["in turn", "last used"])
async def test_without_the_option_a_busy_pooler_is_detected_too(dsn: str, schema: str, in_turn: bool) -> None:
    """Other programs use the sessions that a single check would compare, so half of the checks find nothing."""
    with pooler(dsn, size=2, in_turn=in_turn) as bare:
        others = [await asyncpg.connect(bare, statement_cache_size=0) for _ in range(2)]
        done = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for other in others:
                group.create_task(keep_busy(other, done))
            try:
                for _ in range(20):
                    with pytest.raises(ConfigurationError, match="statement_cache_size=0"):
                        await Database(bare, schema).connect("test")
            finally:
                done.set()
        for other in others:
            await other.close()


async def keep_busy(connection: asyncpg.Connection, done: asyncio.Event) -> None:
    """Run one short transaction after the other."""
    while not done.is_set():
        await connection.execute("select pg_sleep(0.001)")


@pytest.mark.parametrize("door", ["client", "worker", "migrate", "handlers"])
async def test_with_the_option_no_setting_stays_behind_either(dsn: str, schema: str, door: str) -> None:
    """This includes the driver's own settings: it turns jit off while it reads the types of arrays."""
    with pooler(dsn, size=2) as bare:
        connections = [await asyncpg.connect(bare, statement_cache_size=0) for _ in range(2)]
        fresh = await look_at_all(connections)
        for _ in range(3):
            await use(door, pooled(bare), schema)
        after = await look_at_all(connections)
        for connection in connections:
            await connection.close()

    assert {"({},0,{},0)"} == {*fresh.values()}
    assert fresh == after


async def test_a_setting_in_the_dsn_that_a_pooler_refuses_is_named(bare: str, schema: str) -> None:
    """The driver asks for it at the login; a pooler passes on few."""
    with pytest.raises(ConfigurationError, match=r"a setting that the DSN asks for: .*geqo.*ignore_startup_parameters"):
        await Database(f"{bare}?geqo=off", schema).connect("test")


async def look_at_all(connections: list[asyncpg.Connection]) -> dict[int, str]:
    """The settings that remain in each session of the server, by its process: each connection holds one meanwhile."""
    found: dict[int, str] = {}
    for connection in connections:
        await connection.execute("begin")
        found[await connection.fetchval("select pg_backend_pid()")] = await connection.fetchval(LEFT_BEHIND)
    for connection in connections:
        await connection.execute("rollback")
    return found


async def test_a_listen_dsn_that_leads_to_the_pooler_is_detected(
    dsn: str, bare: str, way: str, schema: str, client: Client, seen: Seen
) -> None:
    """LISTEN would succeed there without notifications. It is reported once a minute, while polling continues."""
    async with Worker(way, [nothing], schema=schema, observers=[seen], poll=0.05, listen_dsn=bare).start():
        lost = await seen.wait_for(ListenLost)
        await client.add_job(nothing)
        await seen.wait_for(JobCompleted)

    assert "listen_dsn" in lost.error
    assert 60.0 == lost.retry_in_s


async def test_a_pooler_that_pools_by_session_needs_no_option(
    dsn: str, schema: str, client: Client, seen: Seen
) -> None:
    """Each connection has its own session there: settings hold, and LISTEN works."""
    with pooler(dsn, mode="session", size=20) as session:
        async with Worker(session, [nothing], schema=schema, observers=[seen], poll=60).start():
            await client.add_job(nothing)
            await seen.wait_for(JobCompleted)

    assert (1, []) == (len(seen.of(ListenConnected)), trouble(seen))


async def test_settings_hold_in_the_sessions_of_a_pooler_by_session(dsn: str, schema: str) -> None:
    """Without them the server would compile each fetch, which takes seconds."""
    with pooler(dsn, mode="session", size=20) as session:
        ours = await Database(session, schema).connect("test", generic_plans=True, lock_timeout_s=1.5)
        try:
            inside = [await ours.fetchval("select current_setting($1)", name) for name in ASKED]
        finally:
            await ours.close()

    assert SET == inside


async def test_a_worker_behind_a_pooler_by_session_holds_its_lock(
    dsn: str, schema: str, db: asyncpg.Connection, seen: Seen
) -> None:
    """The server keeps it for the session, which ends with the worker's connection."""
    with pooler(dsn, mode="session", size=20) as session:
        async with Worker(session, [nothing], schema=schema, observers=[seen], poll=60).start():
            await seen.wait_for(ListenConnected)
            row = await db.fetchrow(f"""
              select locks, exists (
                select from pg_locks where locktype = 'advisory' and objid = worker.id
                  and classid = {schema}._lock_space()::oid and granted) as held
              from {schema}._workers as worker""")

    assert row is not None
    assert (True, True) == tuple(row)


async def test_a_worker_that_is_killed_behind_a_pooler_by_session_is_noticed_as_without_one(
    dsn: str, schema: str, db: asyncpg.Connection, client: Client, seen: Seen
) -> None:
    """It is noticed within a second or two, though its lease would last for half an hour."""
    await be_up_for_long(db, schema)
    with pooler(dsn, mode="session", size=20) as session:
        async with process(session, schema, lease=1800) as killed:
            job = await client.add_job("hold", {"how": "wait"})
            await killed.says(f"started {job.id}")
            killed.process.kill()
            async with Worker(session, [nothing], schema=schema, observers=[seen], poll=60, lease=1800).start():
                rescued = await seen.wait_for(JobsRescued)

    assert (job.id,) == tuple(rescued.job_ids)


async def test_a_pooler_by_session_without_a_second_session_is_reported(dsn: str, schema: str) -> None:
    """Whether sessions are shared is then unknown. A worker needs several anyway."""
    with pooler(dsn, mode="session", size=1) as session, pytest.raises(StoreUnavailable, match="raise its pool size"):
        await Database(session, schema).connect("test")
