"""Turns what asyncpg raises into asyncq's errors: no error of the driver leaves the store."""

from __future__ import annotations

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
)
from asyncq.domain.outcome import words
from asyncq.domain.sentence import command
from asyncq.store.pooled import HINT

READ_ONLY = "25006"  # also of a standby that is not promoted yet
# The server, or the way to it, may be well again later.
_TRANSIENT = ("08", "40001", "40P01", "53", "55P03", "57", READ_ONLY)
# Another transaction was served first; the same work may succeed when it is done again.
CONFLICTS = ("40001", "40P01")
_UNREACHABLE = ("08", "53300", "57P")
_DENIED = ("28", "3D000", "42501")
_MISSING = ("3F000", "42P01", "42883", "42703", "42704")
FAILED = "25P02"
_UNUSABLE = (FAILED, READ_ONLY)
_INVALID = ("GWB", "22003", "22007", "22008", "22023", "0A000")

# Prepared statements that are gone, or there already: another session than before.
_MIXED_UP = ("26000", "42P05")

# Errors of the login: a setting does not exist, has an invalid value, or cannot be set for a session.
_WRONG_SETTING = ("42704", "22023", "55P02")

# What asyncpg raises when a connection breaks under way. The first one is a PostgresError by its family, but comes from
# the driver: the server has said nothing, the statement may have been committed.
_BROKEN = (asyncpg.ConnectionDoesNotExistError, asyncpg.InternalClientError, OSError, asyncio.TimeoutError)
# What may come of asking the driver to leave a connection in order.
UNTIDY = (*_BROKEN, asyncpg.PostgresError, asyncpg.InterfaceError)
# How the driver says that a connection was gone before the call: nothing was sent.
_GONE = ("closed", "closing", "released", "not initialized")

# The driver shows a method where it means what that returns: the values of target_session_attrs.
_METHOD = re.compile(r"<built-in method .*?>")
_SERVERS = "any, primary, standby, prefer-standby, read-write, read-only"

_HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(:[0-9]*)?")

# Of a statement; it is not known which.
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
    """Whether the same call may work later."""
    if isinstance(error, StoreUnavailable):
        return True
    return isinstance(error, StoreError) and (error.sqlstate or "").startswith(_TRANSIENT)


def is_conflict(error: Exception) -> bool:
    """Whether transactions stood in each other's way (deadlock, serialization failure): this one did nothing."""
    return isinstance(error, StoreError) and error.sqlstate in CONFLICTS


def is_unknown(error: Exception) -> bool:
    """Whether nobody knows what became of a statement: its answer was lost, or did not come in time."""
    return isinstance(error, TimeoutError) or (isinstance(error, StoreUnavailable) and error.outcome == "unknown")


class AllHostsFailed(ConnectionError):
    """None of several hosts can be used.

    Args:
        failed: The hosts, each as `host:port`, and why.
    """

    def __init__(self, failed: Sequence[tuple[str, Exception]]) -> None:
        super().__init__("; ".join(f"{host}: {_words(error)}" for host, error in failed))
        self.errors = [error for _, error in failed]


def is_answer(error: Exception) -> bool:
    """Whether an error is an answer of the server, which proves that it lives, and not one of the driver."""
    return isinstance(error, StoreError) and error.sqlstate is not None


def may_work_elsewhere(error: Exception) -> bool:
    """Whether a new connection may help: the server is read only, or a pooler left a failed transaction open."""
    return isinstance(error, StoreError) and error.sqlstate in _UNUSABLE


def is_refusal(error: Exception) -> bool:
    """Whether a connection was refused because no server runs there, or none that lets anybody in yet."""
    cause = error.__cause__
    if isinstance(cause, AllHostsFailed):
        return all(_is_refused(each) for each in cause.errors)
    return cause is not None and _is_refused(cause)


def _is_refused(cause: BaseException) -> bool:
    if isinstance(cause, ConnectionRefusedError | FileNotFoundError | asyncpg.CannotConnectNowError):
        return True
    if type(cause) is OSError and cause.errno is None:
        # A name with several addresses; what each of them said is in the text alone.
        said = str(cause)
        return 0 < said.count("[Errno ") == said.count(f"[Errno {errno.ECONNREFUSED}]")
    return False


def target(dsn: str) -> str:
    """Where a DSN leads, without its password."""
    try:
        parts = urlsplit(dsn)
        if parts.scheme not in ("postgresql", "postgres"):
            return "the given DSN, which does not begin with postgresql://"
        hosts = parts.netloc.rpartition("@")[2].split(",")
        rest = parts.path + parts.query + parts.fragment
        if "@" in rest or ":" in rest or not all(_HOST.fullmatch(host) for host in hosts):
            # A password with an unescaped / ? or #: what looks like a host and a port is its beginning.
            # Or a second DSN, pasted behind the first: its password would look like a part of the database's name.
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
    """Around what may fail: an error is told in words of ours. No generator: most calls have one, and would be slower.

    Args:
        tell: Called with an error, and `told`: raises another one in its place, or lets it pass.
        told: What `tell` has to know besides.
    """

    __slots__ = ("_tell", "_told")

    def __init__(self, tell: Callable[[BaseException, Any], None], told: Any = None) -> None:
        self._tell = tell
        self._told = told

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._tell(error, self._told)


def connecting(dsn: str) -> Translating:
    """Translates what goes wrong while a connection is opened.

    Args:
        dsn: Where it leads; the message names it without its password.

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
    """Translates what goes wrong while a statement runs.

    Args:
        schema: Named when it is missing.

    Raises:
        InvalidJob: One of our functions refused the job.
        CronItemNotFound: There is no such recurring item.
        CronItemConflict: There is another one under its identifier.
        SchemaMissing: The schema is not there, or not that of this release.
        AccessDenied: A privilege is missing.
        TransactionUnusable: The caller's transaction is aborted or read only.
        StoreUnavailable: The connection broke, and the outcome is unknown; or it was closed before.
        StoreError: Anything else that the server or the driver says.
    """
    return Translating(tell_of_call, schema)


def tell_of_call(error: BaseException, schema: str) -> None:
    """What `calling` does with an error, for who has no time for a context.

    Args:
        error: What went wrong; raised again in words of ours, or passed by if it is none of the driver's.
        schema: As `calling`.

    Raises:
        StoreError: As `calling`.
    """
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


def lending() -> Translating:
    """Around the user's code on a connection of asyncq: add a note to its error if the connection was closed."""
    return Translating(_tell_of_closed)


def _tell_of_closed(error: BaseException, _: object) -> None:
    if _is_gone(error) and ENDED_IDLE not in getattr(error, "__notes__", ()):
        error.add_note(ENDED_IDLE)


def _is_gone(error: BaseException) -> bool:
    return isinstance(error, asyncpg.InterfaceError) and any(word in str(error) for word in _GONE)


def on_our_own(connection: asyncpg.Connection | None = None) -> Translating:
    """Around `calling`, where no transaction is a caller's: if nothing can be written, it is the server's fault.

    Args:
        connection: Closed then, if it is given: the next one may lead to a server that has taken over.

    Raises:
        StoreUnavailable: The server is read only, or a standby; or a pooler left a failed transaction open.
    """
    return Translating(tell_of_our_own, connection)


def tell_of_our_own(error: BaseException, connection: asyncpg.Connection | None) -> None:
    """What `on_our_own` does about an error.

    Args:
        error: Of a statement.
        connection: As there.

    Raises:
        StoreUnavailable: In place of the error, as there; nothing for others.
    """
    if not isinstance(error, TransactionUnusable | StoreUnavailable) or error.sqlstate not in _UNUSABLE:
        return
    if connection is not None:
        connection.terminate()
    if isinstance(error, TransactionUnusable):
        said = LEFT_FAILED if error.sqlstate == FAILED else str(error)
        raise StoreUnavailable(said, outcome="not_sent", sqlstate=error.sqlstate) from error


def _translated(error: asyncpg.PostgresError, schema: str) -> AsyncqError:
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


def _refused(error: asyncpg.PostgresError, what: str, outcome: Sent) -> StoreError:
    code = _code(error)
    said = f"{what}: {_said(error)} [{code}]"
    if code.startswith(_DENIED):
        return AccessDenied(said, sqlstate=code)
    if code.startswith(_UNREACHABLE):
        return StoreUnavailable(said, outcome=outcome, sqlstate=code)
    return StoreError(said, sqlstate=code)


def _code(error: asyncpg.PostgresError) -> str:
    return error.sqlstate or ""


def _said(error: asyncpg.PostgresError) -> str:
    """The server's sentence in one line; which of one job was wrong is no news."""
    message, detail = error.message or str(error), error.detail or ""
    return message if not detail or detail.endswith(" 1 of 1.") else f"{message} ({detail})"


def _words(error: BaseException) -> str:
    """The message of an error; asyncq's own one if the driver's is about its internal state."""
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
            return words(error)


def _is_silence(error: BaseException) -> bool:
    return isinstance(error, TimeoutError) and not str(error)
