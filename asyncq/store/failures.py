"""Turns the errors of drivers into asyncq's errors: no error of a driver leaves the store."""

import asyncio
import errno
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

import asyncpg

from asyncq.domain.errors import (
    AccessDenied,
    AsyncqError,
    ConfigurationError,
    CronItemConflict,
    CronItemNotFound,
    InvalidJob,
    SchemaMissing,
    StoreError,
    StoreUnavailable,
    TransactionUnusable,
    members_of,
)
from asyncq.domain.outcome import error_text
from asyncq.domain.sentence import command
from asyncq.store.adapters.faults import Answer, cause_of, driver_error
from asyncq.store.pooled import HINT

READ_ONLY = "25006"  # also of a standby that is not promoted yet
# The server or the network may work again later.
_TRANSIENT = ("08", "40001", "40P01", "53", "55P03", "57", READ_ONLY)
# Another transaction won; the same work may succeed on the next try.
_CONFLICTS = ("40001", "40P01")
_UNREACHABLE = ("08", "53300", "57P")
_DENIED = ("28", "3D000", "42501")
_MISSING = ("3F000", "42P01", "42883", "42703", "42704")
FAILED = "25P02"
_UNUSABLE = (FAILED, READ_ONLY)
_INVALID = ("GWB", "22003", "22007", "22008", "22023", "0A000")

# A prepared statement is missing or exists already: the session is another one than before.
_MIXED_UP = ("26000", "42P05")

# Errors of the login: a setting does not exist, has an invalid value, or cannot be set for a session.
_WRONG_SETTING = ("42704", "22023", "55P02")

# asyncpg's errors for a connection that breaks during a statement. The first one is a subclass of PostgresError, but
# comes from the driver: the server did not answer, and the statement may have been committed.
_BROKEN = (asyncpg.ConnectionDoesNotExistError, asyncpg.InternalClientError, OSError, asyncio.TimeoutError)
# The errors that may occur when the driver resets or closes a connection.
UNTIDY = (*_BROKEN, asyncpg.PostgresError, asyncpg.InterfaceError)
# The driver's words for a connection that was closed before the call: nothing was sent.
_GONE = ("closed", "closing", "released", "not initialized")

# The driver prints a method instead of its result, the values of target_session_attrs.
_METHOD = re.compile(r"<built-in method .*?>")
_SERVERS = "any, primary, standby, prefer-standby, read-write, read-only"

_HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(:[0-9]*)?")

# The message for a statement without an answer; the cause is unknown.
NO_ANSWER = (
    "the connection to PostgreSQL was lost, or the server is busy, or another session holds a lock that is needed: "
    "no answer in time"
)

LEFT_FAILED = (
    "the connection is in a failed transaction that asyncq did not begin: a pooler that has lost a server may leave it "
    "so; a new connection replaces it"
)

# The driver drops the server's reason if it ends a connection on which no statement runs.
ENDED_IDLE = (
    "if its owner did not close it, it was ended while no statement ran: by the server "
    "(idle_in_transaction_session_timeout, idle_session_timeout, pg_terminate_backend, a restart; its log says which), "
    "or by the network"
)

Sent = Literal["not_sent", "unknown"]


def is_transient(error: Exception) -> bool:
    """Return whether the same call may work later."""
    if isinstance(error, StoreUnavailable):
        return True
    return isinstance(error, StoreError) and (error.sqlstate or "").startswith(_TRANSIENT)


def is_conflict(error: BaseException) -> bool:
    """Return whether an error, or one error of a group, is a deadlock or a serialization failure: nothing changed."""
    try:
        return any(getattr(one, "sqlstate", None) in _CONFLICTS for one in members_of(error))
    except (Exception, asyncio.CancelledError):  # noqa: BLE001 - of a property of the user's error
        return False


def is_unknown(error: Exception) -> bool:
    """Return whether the outcome of a statement is unknown: its answer was lost, or did not come in time."""
    return isinstance(error, TimeoutError) or (isinstance(error, StoreUnavailable) and error.outcome == "unknown")


class AllHostsFailed(ConnectionError):
    """None of several hosts, each `host:port`, can be used."""

    def __init__(self, failed: Sequence[tuple[str, Exception]]) -> None:
        super().__init__("; ".join(f"{host}: {_words(error)}" for host, error in failed))
        self.errors = [error for _, error in failed]


def is_answer(error: Exception) -> bool:
    """Return whether an error comes from the server, which proves that it is alive, and not from the driver."""
    return isinstance(error, StoreError) and error.sqlstate is not None


def may_work_elsewhere(error: Exception) -> bool:
    """Return whether a new connection may help: the server is read only, or a pooler left a failed transaction."""
    return isinstance(error, StoreError) and error.sqlstate in _UNUSABLE


def is_refusal(error: Exception) -> bool:
    """Return whether a connection was refused because no server runs there, or it is still starting."""
    cause = error.__cause__
    if isinstance(cause, AllHostsFailed):
        return all(_is_refused(each) for each in cause.errors)
    return cause is not None and _is_refused(cause)


def _is_refused(cause: BaseException) -> bool:
    if isinstance(cause, ConnectionRefusedError | FileNotFoundError | asyncpg.CannotConnectNowError):
        return True
    if type(cause) is OSError and cause.errno is None:
        # The name has several addresses; their errors are only in the text.
        said = str(cause)
        return 0 < said.count("[Errno ") == said.count(f"[Errno {errno.ECONNREFUSED}]")
    return False


def target(dsn: str) -> str:
    """Describe the target of a DSN, without its password."""
    try:
        parts = urlsplit(dsn)
        if parts.scheme not in ("postgresql", "postgres"):
            return "the given DSN, which does not begin with postgresql://"
        hosts = parts.netloc.rpartition("@")[2].split(",")
        rest = parts.path + parts.query + parts.fragment
        if "@" in rest or ":" in rest or not all(_HOST.fullmatch(host) for host in hosts):
            # The password may have an unescaped / ? or #: then its beginning looks like a host and a port. Or a second
            # DSN was pasted behind the first: then its password looks like a part of the database's name.
            return "the given DSN (special characters in a password are written as %2F and so on)"
        asked = parse_qs(parts.query)
        default = os.environ.get("PGHOST") or "the default host (PGHOST or a local socket)"
        if (service := asked.get("service")) is not None:
            default = f"the service {service[-1]!r}"
        host = ",".join(hosts)
        if not host:
            host = ":".join(asked.get("host", [default]) + asked.get("port", []))
        user = asked.get("user", [parts.username or ""])[0]
    except ValueError:
        return "the given DSN"
    name = parts.path.lstrip("/") or asked.get("dbname", [""])[0]
    return host + (f", database {name!r}" if name else "") + (f", as {user!r}" if user else "")


class Translating:
    """Replaces the errors of a block by asyncq's own. No generator: that would slow down most calls.

    `translate` gets an error and `context`: it raises another error in its place, or returns.
    """

    __slots__ = ("_context", "_translate")

    def __init__(self, translate: Callable[[BaseException, Any], None], context: Any = None) -> None:
        self._translate = translate
        self._context = context

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._translate(error, self._context)


def connecting(dsn: str) -> Translating:
    """Translate the errors of opening a connection; the message describes the DSN without its password.

    Raises:
        AccessDenied: The server refused the credentials.
        StoreUnavailable: The server cannot be reached; nothing was sent.
        ConfigurationError: The DSN cannot be read, or leads to a pooler.
    """
    return Translating(_tell_of_connecting, dsn)


def _tell_of_connecting(error: BaseException, dsn: str) -> None:
    if isinstance(error, asyncpg.PostgresError) and not isinstance(error, _BROKEN):
        if "unsupported startup parameter" in _said(error):
            raise ConfigurationError(
                f"the pooler at {target(dsn)} refused a setting that the DSN asks for: {_said(error)}; take it out of "
                "the DSN, or let the pooler ignore it (ignore_startup_parameters of PgBouncer)"
            ) from error
        if _code(error) in _WRONG_SETTING:
            raise ConfigurationError(
                f"PostgreSQL at {target(dsn)} refused a parameter of the DSN that was taken for a setting of the "
                f"server: {_said(error)}"
            ) from error
        raise _refused(error, f"PostgreSQL at {target(dsn)} refused the connection", "not_sent") from error
    if isinstance(error, asyncpg.ClientConfigurationError):
        raise ConfigurationError(f"the DSN cannot be used: {_METHOD.sub(_SERVERS, str(error))}") from error
    if isinstance(error, ValueError | OverflowError):
        # Without the cause: its text may hold a piece of the password.
        raise ConfigurationError(
            "the DSN cannot be read; expected postgresql://user:password@host:port/database, with special characters "
            "in the password written as %2F and so on"
        ) from None
    if isinstance(error, (*_BROKEN, asyncpg.InterfaceError)):
        said = f"PostgreSQL at {target(dsn)} cannot be reached: {_words(error)}"
        raise StoreUnavailable(said, outcome="not_sent") from error


def calling(schema: str) -> Translating:
    """Translate the errors of a statement.

    Raises:
        InvalidJob: One of asyncq's functions refused the job.
        CronItemNotFound: There is no such recurring item.
        CronItemConflict: There is another one under its identifier.
        SchemaMissing: The schema does not exist, or belongs to another release.
        AccessDenied: A privilege is missing.
        TransactionUnusable: The caller's transaction is aborted or read only.
        StoreUnavailable: The connection broke, and the outcome is unknown; or it was closed before.
        StoreError: The server or the driver raised another error.
    """
    return Translating(tell_of_call, schema)


def tell_of_call(error: BaseException, schema: str) -> None:
    """Translate an error of the driver as `calling` does, where a context manager would be too slow."""
    if isinstance(error, _BROKEN):
        said = NO_ANSWER if _is_silence(error) else f"the connection to PostgreSQL was lost: {_words(error)}"
        raise StoreUnavailable(said, outcome="unknown") from error
    if isinstance(error, asyncpg.PostgresError):
        raise _translated(error, schema) from error
    if isinstance(error, asyncpg.InterfaceError):
        if _is_gone(error):
            raise StoreUnavailable(
                f"the connection to PostgreSQL is closed; {ENDED_IDLE}", outcome="not_sent"
            ) from error
        raise StoreError(f"the statement cannot be sent: {_words(error)}") from error
    match cause_of(error):
        case None:
            return
        case AsyncqError() as known:
            raise known from driver_error(error)
        case Answer() as answer:
            raise _translated(answer, schema) from driver_error(error)
        case cause:
            tell_of_call(cause, schema)


def _tell_of_closed(error: BaseException, _: object) -> None:
    if _is_gone(error) and ENDED_IDLE not in getattr(error, "__notes__", ()):
        error.add_note(ENDED_IDLE)


# Adds a note to an error of the user's code if the connection that asyncq lent to it was closed.
lending = Translating(_tell_of_closed)


def _is_gone(error: BaseException) -> bool:
    return isinstance(error, asyncpg.InterfaceError) and any(word in str(error) for word in _GONE)


def on_our_own(connection: asyncpg.Connection | None = None) -> Translating:
    """Translate the errors of `calling` outside of the caller's transactions.

    If nothing can be written there, the cause is the server or a pooler: StoreUnavailable. The connection is closed
    then: the next one may reach a new primary.
    """
    return Translating(tell_of_our_own, connection)


def tell_of_our_own(error: BaseException, connection: asyncpg.Connection | None) -> None:
    """Translate one error as `on_our_own` does."""
    if not isinstance(error, TransactionUnusable | StoreUnavailable) or error.sqlstate not in _UNUSABLE:
        return
    if connection is not None:
        cut_off(connection)
    if isinstance(error, TransactionUnusable):
        said = LEFT_FAILED if error.sqlstate == FAILED else str(error)
        raise StoreUnavailable(said, outcome="not_sent", sqlstate=error.sqlstate) from error


def _translated(error: asyncpg.PostgresError | Answer, schema: str) -> AsyncqError:
    code = _code(error)
    said = _said(error)
    if code == "GWBCN":
        return CronItemNotFound(said)
    if code in ("GWBCX", "GWBCS"):
        return CronItemConflict(said, "stored" if code == "GWBCX" else "static")
    if code.startswith(_INVALID) and (code.startswith("GWB") or error.column_name):
        return InvalidJob(said, code=code, field=error.column_name or "")
    if code in _MISSING:
        return SchemaMissing(
            f"the schema {schema!r} is not installed, or older or newer than this release can use ({said}); "
            f"run `{command('migrate', schema)}`, which mends it or says why not",
            sqlstate=code,
        )
    if code == READ_ONLY:
        return TransactionUnusable(
            f"the transaction or server is read only, nothing can be written: {said}", sqlstate=code
        )
    if code in _UNUSABLE:
        return TransactionUnusable(
            "the caller's transaction is aborted: an earlier statement in it failed; roll it back first", sqlstate=code
        )
    if code == "42501":
        return AccessDenied(
            f"PostgreSQL refused a statement: {said} [{code}]; `{command('roles', schema)}` shows what a role needs",
            sqlstate=code,
        )
    if code in _MIXED_UP:
        return StoreError(f"PostgreSQL refused a statement: {said} [{code}]; {HINT}", sqlstate=code)
    return _refused(error, "PostgreSQL refused a statement", "unknown")


def _refused(error: asyncpg.PostgresError | Answer, what: str, outcome: Sent) -> StoreError:
    code = _code(error)
    said = f"{what}: {_said(error)} [{code}]"
    if code.startswith(_DENIED):
        return AccessDenied(said, sqlstate=code)
    if code.startswith(_UNREACHABLE):
        return StoreUnavailable(said, outcome=outcome, sqlstate=code)
    return StoreError(said, sqlstate=code)


def _code(error: asyncpg.PostgresError | Answer) -> str:
    return error.sqlstate or ""


def _said(error: asyncpg.PostgresError | Answer) -> str:
    """Return the server's message in one line, without the detail "1 of 1"."""
    message, detail = error.message or str(error), error.detail or ""
    return message if not detail or detail.endswith(" 1 of 1.") else f"{message} ({detail})"


def _words(error: BaseException) -> str:
    """Return the message of an error; asyncq's own message if the driver's describes its internal state."""
    if _is_silence(error):
        return "no answer in time"
    match error:
        case asyncpg.ConnectionDoesNotExistError():
            return "the connection ended in the middle of a statement"
        case asyncpg.TargetServerAttributeNotMatched():
            return "no server has the target_session_attrs of the DSN"
        case asyncpg.InternalClientError():
            return "the connection was broken off, and cannot be used any more"
        case asyncpg.InterfaceError() if "another operation" in str(error):
            return "another task uses the connection at this moment, and it runs one statement at a time"
        case asyncpg.InterfaceError():
            return "the driver refused it; its error is the cause of this one"
        case _:
            return error_text(error)


def _is_silence(error: BaseException) -> bool:
    return isinstance(error, TimeoutError) and not str(error)


def is_closed(connection: asyncpg.Connection) -> bool:
    """Return whether a connection is closed, or was released to its pool."""
    try:
        return connection.is_closed()
    except asyncpg.InterfaceError:
        return True  # The proxy of a broken connection refuses each call.


def cut_off(connection: asyncpg.Connection) -> None:
    """Close a connection by force; nothing if it is closed, or was released to its pool."""
    if not is_closed(connection):
        connection.terminate()
