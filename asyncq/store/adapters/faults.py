"""Finds the driver's error, and the server's answer, in the errors of SQLAlchemy, psycopg and Django."""

from typing import NamedTuple

from asyncq.domain.errors import StoreError, StoreUnavailable, TransactionUnusable
from asyncq.store.adapters.kinds import names_of

# psycopg's words for a connection that was closed before the call.
_CLOSED = "the connection is closed"
_ASYNCPG = {"asyncpg.PostgresError", "asyncpg.InterfaceError", "asyncpg.InternalClientError"}


class Answer(NamedTuple):
    """An error that the server answered, with the attributes of asyncpg's."""

    sqlstate: str
    message: str
    detail: str | None
    column_name: str | None


def cause_of(error: BaseException) -> BaseException | Answer | None:
    """Find the cause of an error of another library than asyncpg.

    Returns asyncpg's error, the server's answer, or one of asyncq's errors; None for an error of another kind.
    """
    names = names_of(error)
    if not any(name.startswith(("sqlalchemy.", "psycopg.", "psycopg2.", "django.")) for name in names):
        return None
    cause: BaseException | None = error
    while cause is not None:
        behind = names_of(cause)
        if behind & _ASYNCPG or isinstance(cause, OSError):
            return cause
        if behind & {"psycopg.Error", "psycopg2.Error"}:
            return _of_psycopg(cause, behind)
        cause = cause.__cause__
    return _of_sqlalchemy(error, names)


def driver_error(error: BaseException) -> BaseException:
    """Return the error behind that of a library: SQLAlchemy's text holds the parameters, and so the payload."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _of_psycopg(error: BaseException, names: set[str]) -> Answer | StoreError:
    diagnostics = getattr(error, "diag", None)
    sqlstate = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    if sqlstate and diagnostics is not None:
        said = diagnostics.message_primary or str(error)
        return Answer(sqlstate, said, diagnostics.message_detail, diagnostics.column_name)
    if names & {"psycopg.OperationalError", "psycopg2.OperationalError", "psycopg2.InterfaceError"}:
        if _CLOSED in str(error) or "already closed" in str(error):
            return StoreUnavailable("the connection to PostgreSQL is closed", outcome="not_sent")
        return StoreUnavailable(f"the connection to PostgreSQL was lost: {_line(error)}", outcome="unknown")
    return StoreError(f"the statement cannot be sent: {_line(error)}")


def _of_sqlalchemy(error: BaseException, names: set[str]) -> StoreError:
    if names & {"sqlalchemy.PendingRollbackError", "django.TransactionManagementError"}:
        said = "the transaction of the session or connection has failed: roll it back first"
        return TransactionUnusable(f"{said}: {_line(error)}", sqlstate="25P02")
    if names & {"sqlalchemy.ResourceClosedError", "sqlalchemy.TimeoutError"}:
        return StoreUnavailable(f"the statement cannot be sent: {_line(error)}", outcome="not_sent")
    return StoreError(f"the statement cannot be sent: {_line(error)}")


def _line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
