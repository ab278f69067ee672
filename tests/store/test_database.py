"""`store.database`: connections that are opened again, and pools with clear errors."""

import asyncio
import socket
from collections.abc import AsyncIterator
from urllib.parse import urlsplit, urlunsplit

import anyio
import asyncpg
import pytest
from asyncpg.types import ServerVersion

from asyncq.domain.errors import ConfigurationError, PoolExhausted, StoreUnavailable, UnsupportedServer
from asyncq.store import database as module
from asyncq.store.database import (
    Database,
    HandlerPool,
    ReconnectingConnection,
    check_encoding,
    check_server,
    default_dsn,
)
from asyncq.store.failures import NO_ANSWER
from asyncq.store.migrate import migrate
from tests.support.faults import BOTH, link_to
from tests.support.session import Session, session
from tests.support.waiting import wait_until


async def pid_of(line: ReconnectingConnection) -> int:
    """The id of the server's process of a line."""
    return (await line.connection()).get_server_pid()


NO_LOCK = False


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[HandlerPool]:
    """A pool of two, at which one waits for a moment only."""
    made = HandlerPool(database, 2, 0.05)
    yield made
    await made.close()


@pytest.mark.parametrize(
    ("major", "micro", "refused"), [(14, 0, False), (18, 4, False), (140, 0, False), (13, 22, True), (9, 6, True)]
)
def test_servers_before_14_are_refused(major: int, micro: int, refused: bool) -> None:
    """The message has both versions; asyncpg reads 13.22 as 13.0.22."""
    version = ServerVersion(major, 0, micro, "final", 0)
    if not refused:
        check_server(version)
        return
    with pytest.raises(UnsupportedServer, match=rf"14 or newer, this server is {major}\.{micro}"):
        check_server(version)


async def test_a_connection_to_a_server_that_is_refused_is_closed(
    database: Database, sql: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise repeated tries would use up all connections of the server."""
    monkeypatch.setattr(module, "OLDEST_SERVER", 99)
    with pytest.raises(UnsupportedServer):
        await database.connect("test")

    async def gone() -> bool:
        return 0 == await sql.value(
            "select count(*) from pg_catalog.pg_stat_activity where application_name = $1", f"{sql.schema} test"
        )

    await wait_until(gone, description="the connection to be closed")


@pytest.mark.parametrize("encoding", ["LATIN1", "EUC_JP", "SQL_ASCII"])
async def test_a_database_that_cannot_hold_each_text_is_refused_and_left_alone(
    dsn: str, sql: Session, encoding: str
) -> None:
    """A single error text could prevent a worker from settling for ever. The message says what to do."""
    name = f"other_{sql.schema}"
    await sql.execute(f"create database {name} encoding '{encoding}' locale 'C' template template0")
    there = urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))
    try:
        refused = pytest.raises(UnsupportedServer, match=f"this one's is {encoding}; create .* encoding 'UTF8'")
        with refused:
            await migrate(Database(there, sql.schema))
        with refused:
            await Database(there, sql.schema).connect("test")
        async with session(there, sql.schema) as other:
            left = await other.values("select nspname from pg_namespace where nspname = $1", sql.schema)
    finally:
        await sql.execute(f"drop database {name} with (force)")

    assert [] == left


def test_an_encoding_that_is_not_reported_is_accepted() -> None:
    """A pooler may not report it, or spell it differently."""
    for encoding in (None, "UTF8", "utf-8"):
        check_encoding(encoding)
    with pytest.raises(UnsupportedServer, match="this one's is WIN1252"):
        check_encoding("WIN1252")


@pytest.mark.parametrize("dsn", ["", None])
def test_a_database_without_a_dsn_is_refused(dsn: str | None) -> None:
    """asyncpg would use the PG* variables."""
    with pytest.raises(ConfigurationError, match="a DSN is needed"):
        Database(dsn, "s")


def test_a_database_with_a_wrong_schema_is_refused() -> None:
    """The constructor refuses it, before the first statement."""
    with pytest.raises(ConfigurationError, match="'Bad'"):
        Database("postgresql:///x", "Bad")


async def test_a_connection_makes_no_plan_that_is_wrong_for_a_full_table(line: ReconnectingConnection) -> None:
    """It may be made while the tables are empty, and is kept: see the tests of the plans."""
    connection = await line.connection()

    assert ("off", "off", "off") == tuple(
        [await connection.fetchval(f"show {setting}") for setting in ("enable_seqscan", "enable_sort", "jit")]
    )


async def test_connections_have_names(line: ReconnectingConnection, sql: Session) -> None:
    """pg_stat_activity then shows who holds a lock."""
    pid = await pid_of(line)
    name = await sql.value("select application_name from pg_catalog.pg_stat_activity where pid = $1", pid)

    assert f"{sql.schema} test" == name


async def test_our_connections_use_read_committed_whatever_the_databases_default(
    database: Database, sql: Session
) -> None:
    """Under another default, statements that skip locked rows would fail as soon as two workers conflict."""
    name = await sql.value("select current_database()")
    await sql.execute(f"alter database {name} set default_transaction_isolation = 'serializable'")
    try:
        connection = await database.connect("test")
        level = await connection.fetchval("show transaction_isolation")
        await module.hang_up(connection)
    finally:
        await sql.execute(f"alter database {name} reset default_transaction_isolation")

    assert "read committed" == level


async def test_our_connections_do_not_compile_statements(line: ReconnectingConnection) -> None:
    """Over a million jobs the planner thinks that a fetch is worth compiling: 100 ms, each time, for 1 ms of work."""
    connection = await line.connection()

    assert "off" == await connection.fetchval("show jit")


async def test_a_long_statement_is_planned_once(line: ReconnectingConnection) -> None:
    """Planning a fetch takes three times as long as the fetch."""
    connection = await line.connection()
    statement = f"select 1 /* {'long' * 10_000} */"
    for _ in range(2):
        await connection.fetchval(statement)

    prepared = "select count(*) from pg_catalog.pg_prepared_statements where statement = $1"
    assert 1 == await connection.fetchval(prepared, statement)


async def test_a_line_opens_when_it_is_needed_and_stays(line: ReconnectingConnection) -> None:
    """One connection for all statements."""
    before = line.is_open
    first, second = await pid_of(line), await pid_of(line)

    assert (False, True, True) == (before, first == second, line.is_open)


async def test_a_line_that_was_cut_opens_again(line: ReconnectingConnection, sql: Session) -> None:
    """The next statement opens a new connection; no caller has to act."""
    first = await pid_of(line)
    await sql.rows("select pg_terminate_backend($1)", first)
    await wait_until(lambda: not line.is_open, description="the line to notice")

    assert [] == await line.fetch("unknown_tasks", "{}")
    assert first != await pid_of(line)


async def beat_in_vain(line: ReconnectingConnection, errors: list[StoreUnavailable]) -> None:
    """Send a statement whose connection will end before its answer; the error goes into the list."""
    with pytest.raises(StoreUnavailable) as caught:
        await line.fetch("beat", 1, NO_LOCK, [], "{}")
    errors.append(caught.value)


async def test_a_statement_that_is_cut_under_way_has_an_unknown_outcome(
    line: ReconnectingConnection, sql: Session
) -> None:
    """The server may have committed it. The caller has to know before it repeats the statement."""
    pid = await pid_of(line)
    await sql.execute("begin; lock table asyncq._workers")
    errors: list[StoreUnavailable] = []
    async with anyio.create_task_group() as group:
        group.start_soon(beat_in_vain, line, errors)
        await wait_until(lambda: waiting(sql, pid), description="the statement to be under way")
        await sql.rows("select pg_terminate_backend($1)", pid)
    await sql.execute("rollback")

    assert ["unknown"] == [error.outcome for error in errors]
    assert [] == await line.fetch("beat", 1, NO_LOCK, [], "{}")


async def waiting(sql: Session, pid: int) -> bool:
    """Whether a session waits for a lock."""
    return await sql.value("select pg_blocking_pids($1) <> '{}'", pid)


async def test_a_cancelled_statement_closes_its_connection(line: ReconnectingConnection, sql: Session) -> None:
    """On a dead link the next statement would wait for ever for the end of this one."""
    pid = await pid_of(line)
    await sql.execute("begin; lock table asyncq._workers")
    with anyio.move_on_after(0.05):
        await line.fetch("beat", 1, NO_LOCK, [], "{}")
    is_open = line.is_open
    await sql.execute("rollback")

    assert not is_open
    assert [] == await line.fetch("beat", 1, NO_LOCK, [], "{}")
    assert pid != await pid_of(line)


async def test_each_missing_answer_doubles_the_deadline_up_to_a_limit(
    line: ReconnectingConnection, sql: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that needs longer than the first deadline would otherwise never be done with a statement."""
    monkeypatch.setattr(module, "LONGEST_ANSWER_S", 0.15)
    monkeypatch.setattr(line, "_answer_s", 0.05)
    await sql.execute("begin; lock table asyncq._workers")
    errors: list[StoreUnavailable] = []
    deadlines: list[float] = []
    for _ in range(3):
        await beat_in_vain(line, errors)
        deadlines.append(line._deadlines_s["beat"])
    await sql.execute("rollback")

    assert [0.1, 0.15, 0.15] == deadlines
    assert {(NO_ANSWER, "unknown")} == {(str(error), error.outcome) for error in errors}


async def test_an_answer_makes_the_deadline_short_again(line: ReconnectingConnection) -> None:
    """The next dead connection must be noticed as quickly as the first one."""
    line._deadlines_s["beat"] = 60.0
    await line.fetch("beat", 1, NO_LOCK, [], "{}")

    assert {} == line._deadlines_s


async def test_statements_on_a_line_wait_for_each_other(line: ReconnectingConnection) -> None:
    """A connection runs one at a time; the driver would refuse the second one."""
    answers: list[list[asyncpg.Record]] = []

    async def ask() -> None:
        answers.append(await line.fetch("unknown_tasks", "{}"))

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(ask)

    assert [[]] * 10 == answers


async def test_an_idle_line_is_closed_unless_it_is_used(line: ReconnectingConnection, sql: Session) -> None:
    """An idle worker gives its connection back."""
    pid = await pid_of(line)
    await sql.execute("begin; lock table asyncq._workers")
    async with anyio.create_task_group() as group:
        group.start_soon(line.fetch, "beat", 1, NO_LOCK, [], "{}")
        await wait_until(lambda: waiting(sql, pid), description="the line to be used")
        await line.rest()
        used = line.is_open
        await sql.execute("rollback")
    await line.rest()

    assert (True, False) == (used, line.is_open)
    await line.close()


async def test_a_line_is_closed_when_its_statement_has_ended(line: ReconnectingConnection, sql: Session) -> None:
    """A worker that stops closes its lines. A sent statement completes, and is not cancelled."""
    pid = await pid_of(line)
    await sql.execute("begin; lock table asyncq._workers")
    answers: list[list[asyncpg.Record]] = []

    async def beat() -> None:
        answers.append(await line.fetch("beat", 1, NO_LOCK, [], "{}"))

    async with anyio.create_task_group() as group:
        group.start_soon(beat)
        await wait_until(lambda: waiting(sql, pid), description="the statement to be under way")
        group.start_soon(line.close)
        await anyio.wait_all_tasks_blocked()
        await sql.execute("rollback")

    assert ([[]], False) == (answers, line.is_open)


async def test_a_line_is_closed_although_its_statement_does_not_end(
    line: ReconnectingConnection, sql: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its server may not answer any more. The caller gets an unknown outcome."""
    monkeypatch.setattr(module, "HANG_UP_S", 0.05)
    pid = await pid_of(line)
    await sql.execute("begin; lock table asyncq._workers")
    errors: list[StoreUnavailable] = []
    async with anyio.create_task_group() as group:
        group.start_soon(beat_in_vain, line, errors)
        await wait_until(lambda: waiting(sql, pid), description="the statement to be under way")
        await line.close()
    await sql.execute("rollback")

    assert (["unknown"], False) == ([error.outcome for error in errors], line.is_open)


async def test_a_pool_opens_connections_when_they_are_asked_for(pool: HandlerPool, sql: Session) -> None:
    """A worker whose handlers never ask has none."""
    counted = "select count(*) from pg_catalog.pg_stat_activity where application_name = $1"
    before = await sql.value(counted, f"{sql.schema} handlers")
    async with pool.acquire() as connection:
        during = await sql.value(counted, f"{sql.schema} handlers")
        answer = await connection.fetchval("select 1")

    assert (0, 1, 1) == (before, during, answer)


async def test_a_pool_without_a_free_connection_raises(pool: HandlerPool) -> None:
    """Handlers that have one and wait for another would wait for ever."""
    async with pool.acquire(), pool.acquire():
        with pytest.raises(PoolExhausted, match=r"within 0.05 s: all 2 are held by other handlers.*raise pool_size"):
            async with pool.acquire():
                pytest.fail("a third connection")
    async with pool.acquire() as connection:
        answer = await connection.fetchval("select 1")

    assert 1 == answer


async def test_a_pool_whose_server_does_not_answer_does_not_report_a_lack_of_connections() -> None:
    """Raising pool_size would not help."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        pool = HandlerPool(Database(f"postgresql://u:secret@127.0.0.1:{port}/x", "s"), 2, 0.05)
        with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{port}.* cannot be reached") as error:
            async with pool.acquire():
                pytest.fail("a connection to nobody")
        await pool.close()

    assert ("not_sent", False) == (error.value.outcome, "secret" in str(error.value))


@pytest.mark.parametrize("is_cancelled", [True, False], ids=["cancelled", "at its end"])
async def test_the_user_of_a_connection_ends_although_its_link_is_dead(
    dsn: str, sql: Session, monkeypatch: pytest.MonkeyPatch, is_cancelled: bool
) -> None:
    """A handler that was cancelled because others take over must end in time. The driver would wait for the server."""
    monkeypatch.setattr(module, "PUT_BACK_S", 0.05)
    pids: list[int] = []
    leave = anyio.Event()

    async def use() -> None:
        async with pool.acquire() as connection:
            pids.append(connection.get_server_pid())
            await (connection.execute("select pg_sleep(60)") if is_cancelled else leave.wait())

    async with link_to(dsn) as link:
        pool = HandlerPool(Database(link.dsn, "s"), 1, 5)
        user = asyncio.get_running_loop().create_task(use())
        await wait_until(lambda: bool(pids), description="a connection")
        if is_cancelled:
            await wait_until(lambda: sleeps(sql, pids[0]), description="the statement to run")
        link.hold("", *BOTH)
        leave.set()
        if is_cancelled:
            user.cancel()
        ended, _ = await asyncio.wait({user}, timeout=4)
        link.lose("")
        await asyncio.wait({user})
        await pool.close()
    await sql.rows("select pg_terminate_backend($1)", pids[0])

    assert ({user}, is_cancelled) == (ended, user.cancelled())


async def sleeps(sql: Session, pid: int) -> bool:
    """Whether a process of the server is in `pg_sleep`."""
    return await sql.value("select wait_event = 'PgSleep' from pg_stat_activity where pid = $1", pid) is True


async def test_a_pool_that_was_closed_opens_nothing_again(pool: HandlerPool) -> None:
    """A handler that outlived its worker asks too late, and nobody would close the new connection."""
    await pool.close()
    with pytest.raises(StoreUnavailable, match="the worker has stopped"):
        async with pool.acquire():
            pytest.fail("a connection after the end")


async def test_a_pool_cuts_connections_that_are_held_for_too_long_at_its_end(database: Database) -> None:
    """A stuck handler must not keep the worker from stopping."""
    pool = HandlerPool(database, 1, 0.05)
    async with pool.acquire() as connection:
        with anyio.fail_after(5):
            await pool.close()
        with pytest.raises(asyncpg.InterfaceError):
            await connection.fetchval("select 1")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"DATABASE_URL": "postgresql:///a", "PGDATABASE": "b"}, "postgresql:///a"),
        ({"PGDATABASE": "b"}, "postgresql://"),
        ({"PGHOST": "h"}, "postgresql://"),
        ({"PGSERVICE": "s"}, "postgresql://?service=s"),
        ({"PGSERVICE": "a b&c", "PGHOST": "h"}, "postgresql://?service=a%20b%26c"),
        ({"DATABASE_URL": "postgresql:///a", "PGSERVICE": "s"}, "postgresql:///a"),
        ({"PGUSER": "u"}, None),
    ],
)
def test_the_environment_may_name_the_database(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str | None
) -> None:
    """DATABASE_URL first, then what the programs of PostgreSQL read; a user alone is no database."""
    for name in ("DATABASE_URL", "PGDATABASE", "PGHOST", "PGSERVICE", "PGUSER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert expected == default_dsn()
