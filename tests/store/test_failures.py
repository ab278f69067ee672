"""`store.failures`: errors become ours, with the cause and without a password."""

import socket
from collections.abc import Iterator

import asyncpg
import pytest
import sqlalchemy.exc
from asyncpg.connect_utils import SessionAttribute

from asyncq.domain.errors import (
    AccessDenied,
    AsyncqError,
    ConfigurationError,
    InvalidJob,
    SchemaMissing,
    StoreError,
    StoreUnavailable,
    TransactionUnusable,
)
from asyncq.server import Server, start
from asyncq.store.database import Database, hang_up
from asyncq.store.failures import Translating, calling, connecting, is_transient, target
from tests.support.session import Session

UNREADABLE = (
    "foo",
    "foo://u:secret@h/x",
    "host=localhost password='secret",
    "host=localhost password=secret port",
    "postgresql://u:secret/pass@h/x",
    "postgresql://u:secret#pass@h/x",
    "postgresql://u:secret?pass@h/x",
    "postgresql://u:secret@h:port/x",
    "postgresql://u:secret@127.0.0.1:99999/x",
    "postgresql://u:secret@[::1/x",
    "postgresql://u:secret@h/x?sslmode=bogus",
)

TARGETS = {
    "postgresql://u:secret@h:1/x": "h:1, database 'x', as 'u'",
    "postgresql://u@h/x": "h, database 'x', as 'u'",
    "postgresql://h1:1,h2:2/x": "h1:1,h2:2, database 'x'",
    "postgresql://u:secret@/x?host=/run/pg": "/run/pg, database 'x', as 'u'",
    "postgresql:///x?user=u&password=secret&host=h": "h, database 'x', as 'u'",
    "postgresql://?host=h&port=1&dbname=x&user=u&password=secret": "h:1, database 'x', as 'u'",
    "postgresql://?service=jobs": "the service 'jobs'",
    "postgresql://h/x?service=jobs": "h, database 'x'",
    "postgresql://u:p%40secret@h/x": "h, database 'x', as 'u'",
    "postgresql://u:p@secret@h/x": "h, database 'x', as 'u'",
}


@pytest.fixture(scope="module")
def strict() -> Iterator[Server]:
    """A server that asks for the password `right` of the role `careful`."""
    with start() as server:
        (rules,) = server.folder.rglob("pg_hba.conf")
        rules.write_text("local all careful scram-sha-256\n" + rules.read_text())
        server.restart()
        yield server


async def failure(dsn: str) -> AsyncqError:
    """The error of an attempt to connect."""
    try:
        connection = await Database(dsn, "s").connect("test")
    except AsyncqError as error:
        return error
    await hang_up(connection)
    raise AssertionError(f"connected to {dsn}")


async def test_the_error_for_an_unknown_kind_of_server_lists_the_known_ones() -> None:
    """The driver's own text shows a method of its enumeration instead."""
    kinds = ", ".join(kind.value for kind in SessionAttribute)
    error = await failure("postgresql://h/x?target_session_attrs=rw")

    assert f"the DSN cannot be used: target_session_attrs is expected to be one of {kinds}, got 'rw'" == str(error)


@pytest.mark.parametrize("dsn", UNREADABLE)
async def test_the_error_for_an_unreadable_dsn_omits_its_password(dsn: str) -> None:
    """Neither the message nor the traceback has it. Otherwise parts of it would end up in error reports."""
    error = await failure(dsn)
    told = f"{error} {error.__cause__}"

    assert ConfigurationError is type(error)
    assert "DSN" in str(error)
    assert ("secret" in told, "pass@" in told) == (False, False)


@pytest.mark.parametrize("dsn", TARGETS)
def test_a_target_names_the_address_and_no_password(dsn: str) -> None:
    """This holds for each form of a DSN."""
    assert TARGETS[dsn] == target(dsn)


def test_a_target_without_a_host_names_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver reads it."""
    monkeypatch.setenv("PGHOST", "elsewhere")

    assert "elsewhere" in target("postgresql:///x")


@pytest.mark.parametrize("dsn", ["postgresql://u:12/34@h/x", "postgresql://u:secret/x@h/y"])
def test_a_target_shows_no_beginning_of_an_unescaped_password(dsn: str) -> None:
    """`u:12` looks like a host and its port."""
    assert "special characters" in target(dsn)


@pytest.mark.parametrize(
    "second", ["postgres://u:secret", "postgres://u:secret@h/d", "/u:secret", "?user=x://u:secret"]
)
def test_a_target_shows_no_password_of_a_second_dsn_that_was_pasted_behind(second: str) -> None:
    """It would be read as a part of the database's name, which is shown."""
    assert "secret" not in target(f"postgresql://[::1]:5432,b:9/d{second}")


async def test_an_unreachable_server_is_named() -> None:
    """Nothing was sent, so anything may be tried again."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    error = await failure(f"postgresql://u:secret@127.0.0.1:{port}/x")

    assert (StoreUnavailable, "not_sent", True) == (type(error), error.outcome, is_transient(error))
    assert f"PostgreSQL at 127.0.0.1:{port}, database 'x', as 'u' cannot be reached" in str(error)
    assert "secret" not in str(error)


async def test_a_host_that_does_not_exist_is_named() -> None:
    """The resolver's own message has no name."""
    error = await failure("postgresql://u:secret@nowhere.invalid/x")

    assert (StoreUnavailable, True) == (type(error), "nowhere.invalid" in str(error))


async def test_a_missing_database_is_named(strict: Server) -> None:
    """It will not appear by itself: no reason to try again."""
    error = await failure(strict.dsn.replace("/postgres?", "/missing?"))

    assert (AccessDenied, "3D000", False) == (type(error), error.sqlstate, is_transient(error))
    assert "missing" in str(error)


async def test_a_wrong_password_is_refused(strict: Server) -> None:
    """The error contains neither the wrong password nor the right one."""
    connection = await asyncpg.connect(strict.dsn)
    await connection.execute("create role careful login password 'right'")
    await connection.close()
    base = strict.dsn.replace("postgres@", "careful:{}@", 1)
    error = await failure(base.format("wrong"))

    assert (AccessDenied, "28P01") == (type(error), error.sqlstate)
    assert "as 'careful' refused the connection" in str(error)
    assert "wrong" not in str(error)
    await hang_up(await Database(base.format("right"), "s").connect("test"))


async def test_a_server_that_is_full_may_have_room_later(strict: Server) -> None:
    """Nothing was sent."""
    connection = await asyncpg.connect(strict.dsn)
    await connection.execute("create role lonely login connection limit 0")
    await connection.close()
    error = await failure(strict.dsn.replace("postgres@", "lonely@", 1))

    assert (StoreUnavailable, "53300", "not_sent") == (type(error), error.sqlstate, error.outcome)


async def refused(sql: Session, statement: str) -> AsyncqError:
    """The error of a statement."""
    try:
        with calling(sql.schema):
            await sql.rows(statement)
    except AsyncqError as error:
        return error
    raise AssertionError(f"not refused: {statement}")


async def test_a_missing_schema_names_the_command(sql: Session) -> None:
    """It is the first error of a new user."""
    for statement in ("select from nowhere.jobs", "select nowhere.add_job('t')", "select asyncq.nothing()"):
        error = await refused(sql, statement)

        assert SchemaMissing is type(error)
        assert f"the schema '{sql.schema}' is not installed, or older or newer than" in str(error)
        assert f"run `asyncq migrate --schema {sql.schema}`" in str(error)


async def test_a_missing_privilege_has_its_own_error(sql: Session, strict: Server) -> None:
    """The DSN is right, but the role lacks a right."""
    role = f"nobody_{sql.schema}"
    await sql.execute(f"create role {role}; set role {role}")
    error = await refused(sql, "select * from asyncq._jobs")
    await sql.execute(f"reset role; drop role {role}")

    assert (AccessDenied, "42501") == (type(error), error.sqlstate)


async def test_a_serialization_failure_keeps_its_code(sql: Session, other: Session) -> None:
    """Programs that retry their transaction check it."""
    await sql.execute("select asyncq.add_job('t')")
    async with sql.connection.transaction(isolation="repeatable_read"):
        await sql.rows("select from asyncq._jobs")
        await other.execute("update asyncq._jobs set priority = 1")
        error = await refused(sql, "update asyncq._jobs set priority = 2")
        await sql.execute("rollback; begin")

    assert (StoreError, "40001", True) == (type(error), error.sqlstate, is_transient(error))


async def test_a_statement_that_took_too_long_is_no_lost_connection(sql: Session) -> None:
    """The server rolled it back and reported that."""
    await sql.execute("set statement_timeout = 20")
    error = await refused(sql, "select pg_sleep(5)")

    assert (StoreError, "57014", True) == (type(error), error.sqlstate, is_transient(error))


async def test_a_refused_job_is_an_error_of_the_caller(sql: Session) -> None:
    """The error has the code and the field of the rule."""
    error = await refused(sql, "select asyncq.add_job('t', max_attempts := 0)")

    assert (InvalidJob, "GWBMA", "max_attempts") == (type(error), error.code, error.field)
    assert "max_attempts is 0, at least 1 is needed" == str(error)


async def test_of_many_refused_jobs_the_first_is_named(sql: Session) -> None:
    """The caller may have added a thousand."""
    error = await refused(
        sql,
        """
        select asyncq.add_jobs(array[
          ('t', null, null, null, 1, null, null, null, null, null),
          ('t', null, null, null, 0, null, null, null, null, null)]::asyncq.job_spec[])""",
    )

    assert "max_attempts is 0, at least 1 is needed (Job 2 of 2.)" == str(error)


@pytest.mark.parametrize(("code", "kind"), [("25P02", TransactionUnusable), ("25006", TransactionUnusable)])
async def test_a_transaction_that_takes_no_writes_has_its_own_error(sql: Session, code: str, kind: type) -> None:
    """The connection is usable, but the transaction is not."""
    error = await refused(sql, f"do $$ begin raise exception using errcode = '{code}'; end $$")

    assert (kind, code) == (type(error), error.sqlstate)


@pytest.mark.parametrize(
    ("raised", "outcome"),
    [
        (asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"), "unknown"),
        (asyncpg.InternalClientError("got result for unknown protocol state"), "unknown"),
        (ConnectionResetError(104, "Connection reset by peer"), "unknown"),
        (TimeoutError(), "unknown"),
        (asyncpg.InterfaceError("connection is closed"), "not_sent"),
        (
            asyncpg.InterfaceError("cannot call Connection.fetch(): connection has been released back to the pool"),
            "not_sent",
        ),
    ],
)
def test_the_error_of_a_lost_connection_has_an_outcome(raised: Exception, outcome: str) -> None:
    """An add with an unknown outcome must not be sent again. The driver has six exceptions for a lost connection."""
    words = (
        "the connection to PostgreSQL was lost" if outcome == "unknown" else "the connection to PostgreSQL is closed"
    )
    with pytest.raises(StoreUnavailable, match=words) as error, calling("s"):
        raise raised

    assert (outcome, raised) == (error.value.outcome, error.value.__cause__)


def test_a_connection_that_breaks_while_sqlalchemy_sends_is_lost() -> None:
    """The server's last message arrives between two statements, and the driver then refuses the next one."""
    cause = asyncpg.InternalClientError("cannot switch to state 11; another operation (2) is in progress")
    raised = sqlalchemy.exc.InternalError("select 1", {}, Exception("InternalClientError"))
    raised.__cause__ = cause
    with pytest.raises(StoreUnavailable, match="the connection to PostgreSQL was lost") as error, calling("s"):
        raise raised

    assert "unknown" == error.value.outcome


@pytest.mark.parametrize(
    "raised",
    [
        asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress"),
        asyncpg.InterfaceError("cannot perform operation: another operation is in progress"),
        asyncpg.InterfaceError("cannot call Connection.fetch(): connection has been released back to the pool"),
        asyncpg.InterfaceError("cannot use Connection.transaction() in a manually started transaction"),
        asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
        asyncpg.TargetServerAttributeNotMatched("None of the hosts match the target attribute requirement"),
    ],
)
@pytest.mark.parametrize("context", [calling("s"), connecting("postgresql://h/x")], ids=["calling", "connecting"])
def test_texts_about_the_drivers_state_do_not_reach_the_caller(context: Translating, raised: Exception) -> None:
    """A caller cannot know the driver's state 12. The driver's error is the cause of ours."""
    with pytest.raises(StoreError) as error, context:
        raise raised

    assert str(raised) not in str(error.value)
    assert raised is error.value.__cause__


def test_a_missing_answer_may_be_a_lock() -> None:
    """The message must mention locks: another session may have locked a table, with no fault in the network."""
    with pytest.raises(StoreUnavailable, match="another session holds a lock that is needed: no answer"), calling("s"):
        raise TimeoutError


def test_while_connecting_nothing_was_sent() -> None:
    """The server has executed nothing, whatever its error."""
    for raised in (
        asyncpg.ConnectionDoesNotExistError("closed"),
        asyncpg.CannotConnectNowError("the database system is starting up"),
        asyncpg.AdminShutdownError("terminating connection"),
        TimeoutError(),
    ):
        with pytest.raises(StoreUnavailable) as error, connecting("postgresql://h/x"):
            raise raised

        assert "not_sent" == error.value.outcome


def test_other_errors_are_raised_unchanged() -> None:
    """A defect of ours must look like one."""
    for context in (calling("s"), connecting("postgresql://h/x")):
        with pytest.raises(ZeroDivisionError), context:
            raise ZeroDivisionError


@pytest.mark.parametrize("code", ["08006", "40001", "40P01", "53300", "55P03", "57P01", "57014", "25006"])
def test_a_failure_that_may_end_by_itself_is_transient(code: str) -> None:
    """The server restarts, fails over or is full, or two transactions conflicted."""
    assert is_transient(StoreError("x", sqlstate=code))


@pytest.mark.parametrize("code", [None, "23505", "42P01", "28P01", "22003", "25P02"])
def test_a_failure_that_does_not_end_by_itself_is_not_transient(code: str | None) -> None:
    """A retry would only hide it."""
    assert not is_transient(StoreError("x", sqlstate=code))
    assert not is_transient(ValueError("x"))
