"""`store.probe`: a server that lacks a required feature is refused; for another feature asyncq logs one line."""

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import asyncpg
import pytest

from asyncq import Client, JobContext, StoreUnavailable, UnsupportedServer, Worker, task
from asyncq.domain.events import JobCompleted, LeaseOnly, ListenConnected, ListenLost, PollingOnly
from asyncq.store import listen
from asyncq.store.database import Database, hang_up
from asyncq.store.migrate import migrate
from asyncq.store.probe import LEASE_ONLY, NO_FATE, POLLS, Probed, check_capabilities, probe
from tests.support.cli import asyncq
from tests.support.lacking import database_of_its_own, server_that_reads
from tests.support.seen import Seen
from tests.support.session import Session

# A lock that every session gets, and one that none gets.
ALWAYS = "create or replace function pg_catalog.{}(int, int) returns boolean language sql as 'select true'"
NEVER = "create or replace function pg_catalog.{}(int, int) returns boolean language sql as 'select false'"
# In SQL, so that the planner inlines it: otherwise the server would call its compiled function of that name.
NO_STATUS = (
    "create or replace function pg_catalog.pg_xact_status(xid8) returns text language sql as 'select (1/0)::text'"
)
REFUSED = "this is not supported"
# Missing features: the statement that such a server refuses, and the phrase for it.
MISSING = {
    "skip locked": "FOR UPDATE SKIP LOCKED",
    "select ctid": "the system column ctid",
    "::pg_catalog.xid8": "the type xid8",
    "pg_try_advisory_xact_lock": "advisory locks",
}

Make = Callable[[str], AbstractAsyncContextManager[str]]


@task
async def nothing() -> None:
    """The least job."""


@task(transactional=True)
async def whole(ctx: JobContext) -> None:
    """A job whose transaction completes it."""


@pytest.fixture
def seen() -> Seen:
    """Keeps the events of the test's workers."""
    return Seen()


@pytest.fixture
def changed(dsn: str) -> Make:
    """Makes a database whose catalog was changed."""
    return lambda change: database_of_its_own(dsn, f"lacking_{secrets.token_hex(6)}", change)


async def probed(dsn: str, *, hears: bool = True) -> Probed:
    """The result of a probe of a database."""
    database = Database(dsn, "asyncq")
    connection = await database.connect("test")
    try:
        return await probe(database, connection, hears=hears)
    finally:
        await hang_up(connection)


async def test_postgresql_has_everything(dsn: str) -> None:
    """This holds for every release of it."""
    assert Probed(is_read_only=False, missing=(), limits=()) == await probed(dsn)


async def test_a_probe_leaves_no_lock_and_no_connection(database: Database, sql: Session) -> None:
    """It runs at each start of a worker."""
    connection = await database.connect("test")
    await check_capabilities(database, connection)
    left = await sql.value(
        "select count(*) from pg_locks where locktype = 'advisory' and pid = $1", connection.get_server_pid()
    )
    await hang_up(connection)

    assert 0 == left


# Required features


@pytest.mark.parametrize("text", MISSING)
async def test_a_server_that_lacks_a_requirement_of_claims_is_refused_by_name(dsn: str, schema: str, text: str) -> None:
    """Each entry point checks it before anything is written."""
    async with server_that_reads(dsn, text, REFUSED) as lacking:
        with pytest.raises(UnsupportedServer, match=f"lacks {MISSING[text]} .*syntax error"):
            await Worker(lacking, [nothing], schema=schema).run_once()
        with pytest.raises(UnsupportedServer, match=f"lacks {MISSING[text]} "):
            await migrate(Database(lacking, f"{schema}_new"))
        done = await asyncq("doctor", "--schema", schema, DATABASE_URL=lacking)

    assert 1 == done.returncode
    assert f"it lacks features that asyncq needs: {MISSING[text]}" in done.stdout


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (ALWAYS, "advisory locks (two transactions held one at once)"),
        (NEVER, "advisory locks (a free one was not granted)"),
    ],
    ids=["always", "never"],
)
async def test_a_server_whose_advisory_locks_do_not_exclude_is_refused(changed: Make, change: str, said: str) -> None:
    """If the functions exist and do nothing, two claims of one queue would run at once."""
    async with changed(change.format("pg_try_advisory_xact_lock")) as lacking:
        found = await probed(lacking)
        with pytest.raises(UnsupportedServer, match="this server lacks advisory locks"):
            await migrate(Database(lacking, "asyncq"))

    assert (said,) == found.missing


async def test_a_server_that_is_read_only_is_refused_and_may_be_well_later(changed: Make) -> None:
    """A standby that is promoted, a disk that has room again."""
    async with changed("select") as where:
        await Client(where).migrate()
        admin = await asyncpg.connect(where)
        await admin.execute(
            "do $$ begin execute format('alter database %I set default_transaction_read_only = on',"
            " current_database()); end $$"
        )
        await admin.close()
        with pytest.raises(StoreUnavailable, match=r"read only.*target_session_attrs=read-write") as error:
            await Worker(where, [nothing]).run_once()
        with pytest.raises(StoreUnavailable, match="read only"):
            await migrate(Database(where, "other"))
        done = await asyncq("doctor", DATABASE_URL=where)

    assert ("not_sent", 1) == (error.value.outcome, done.returncode)
    assert "it is read only (default_transaction_read_only)" in done.stdout


# Optional features


async def test_without_session_locks_a_worker_uses_its_lease_and_warns(changed: Make, seen: Seen) -> None:
    """If every session gets the lock, a killed worker seems to live for ever."""
    async with changed(ALWAYS.format("pg_try_advisory_lock")) as lacking:
        await Client(lacking).migrate()
        async with Worker(lacking, [nothing], observers=[seen]).start(), Client(lacking) as client:
            await client.add_job(nothing)
            await seen.wait_for(JobCompleted)
            (worker,) = await client.admin.list_workers()
            findings = (await client.admin.checkup()).findings

    assert (False, [LEASE_ONLY]) == (worker.locks, [event.reason for event in seen.of(LeaseOnly)])
    assert ["warning"] == [finding.level for finding in findings if finding.said == LEASE_ONLY]


async def test_without_the_outcome_of_transactions_only_transactional_tasks_are_refused(
    changed: Make, seen: Seen
) -> None:
    """After a lost COMMIT it would be unknown whether their jobs have ended."""
    async with changed(NO_STATUS) as lacking:
        await Client(lacking).migrate()
        with pytest.raises(UnsupportedServer, match="cannot run transactional tasks: whole; it does not report"):
            await Worker(lacking, [nothing, whole]).run_once()
        async with Client(lacking) as client:
            await client.add_job(nothing)
            await Worker(lacking, [nothing], observers=[seen]).run_once()
        found = await probed(lacking)

    assert (1, (NO_FATE,)) == (len(seen.of(JobCompleted)), found.limits)


async def test_a_worker_polls_and_warns_once_if_listen_is_refused(
    dsn: str, schema: str, client: Client, seen: Seen
) -> None:
    """It does not retry a statement that the server will never accept."""
    async with server_that_reads(dsn, "LISTEN", REFUSED) as lacking:
        async with Worker(lacking, [nothing], schema=schema, observers=[seen], poll=0.05).start():
            await client.add_job(nothing)
            await seen.wait_for(JobCompleted)
        found = await probed(lacking)

    assert ([], [], (POLLS,)) == (seen.of(ListenLost), seen.of(ListenConnected), found.limits)
    assert "refuses LISTEN" in seen.of(PollingOnly)[0].reason
    assert 1 == len(seen.of(PollingOnly))


async def test_where_listen_has_no_effect_a_worker_polls_and_tries_again_in_a_minute(
    dsn: str, schema: str, client: Client, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accepted and ignored: only an echo can show it."""
    monkeypatch.setattr(listen, "ECHO_S", 0.3)
    async with server_that_reads(dsn, "LISTEN", "select") as lacking:
        async with Worker(lacking, [nothing], schema=schema, observers=[seen], poll=0.05).start():
            await client.add_job(nothing)
            await seen.wait_for(JobCompleted)
            lost = await seen.wait_for(ListenLost)
        found = await probed(lacking)

    assert (60.0, [], (POLLS,)) == (lost.retry_in_s, seen.of(ListenConnected), found.limits)
    assert "no notification arrives" in lost.error


@pytest.fixture
async def client(dsn: str, schema: str) -> AsyncIterator[Client]:
    """A client of the whole server."""
    async with Client(dsn, schema=schema) as opened:
        yield opened
