"""Connections of psycopg for a `SyncClient`: one for each call, opened for it or taken from a pool of the caller.

Each call is a transaction. Its settings end with it, so that it works through every pooler.
"""

from collections.abc import Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import ModuleType
from typing import Any

from asyncq.domain.errors import ConfigurationError, StoreUnavailable
from asyncq.store.adapters.faults import cause_of
from asyncq.store.adapters.sync_kinds import PsycopgPool
from asyncq.store.adapters.synchronous import SyncPsycopgAdapter
from asyncq.store.database import CONNECT_TIMEOUT_S, SETTINGS
from asyncq.store.dsn import for_libpq
from asyncq.store.failures import Translating, calling, on_our_own, target
from asyncq.store.pooled import assignments

_LOCAL = {name: value for name, value in SETTINGS.items() if name != "default_transaction_isolation"}
PRELUDE = f"set transaction isolation level read committed; {assignments('set local', _LOCAL)}"


class PsycopgSource:
    """Lends a connection for each call.

    Args:
        dsn: The database, if each call opens a connection.
        pool: The pool of the caller otherwise.
        schema: The schema's name, for the name of the connection and for messages.

    Raises:
        ConfigurationError: Both or none are given, the DSN cannot be read, or psycopg is not installed.
    """

    def __init__(self, dsn: str | None, pool: PsycopgPool | None, schema: str) -> None:
        self._pool = pool
        self._schema = schema
        if pool is not None:
            self._target = "the servers of the pool"
            if dsn is not None:
                raise ConfigurationError("SyncClient takes a DSN or a pool, not both")
            if not callable(getattr(pool, "connection", None)):
                raise ConfigurationError(f"pool must be a ConnectionPool of psycopg_pool, got {pool!r}")
            return
        if not isinstance(dsn, str) or not dsn:
            raise ConfigurationError("a DSN is needed, such as postgresql://user@host/database")
        self._target = target(dsn)
        self._library = _library()
        self._parameters = _parameters(self._library, dsn, schema)

    @contextmanager
    def begun(self) -> Generator[SyncPsycopgAdapter]:
        """Yield a connection in a transaction, which is committed at the end of the block, or rolled back by an error.

        StoreUnavailable if the server cannot be reached, or if the answer to the commit was lost.
        """
        with ExitStack() as stack:
            with Translating(_tell_of_reaching, self._target):
                connection: Any = stack.enter_context(self._open())
            stack.enter_context(on_our_own())
            stack.enter_context(calling(self._schema))
            with Translating(_tell_of_reaching, self._target):
                stack.enter_context(connection.transaction())
                connection.execute(PRELUDE)
            yield SyncPsycopgAdapter(connection, None, source=self)

    def _open(self) -> AbstractContextManager[Any]:
        if self._pool is not None:
            return self._pool.connection()
        # Nothing is prepared for the one statement, which a pooler might send to another session.
        return self._library.connect(**self._parameters, autocommit=True, prepare_threshold=None)


def _tell_of_reaching(error: BaseException, where: str) -> None:
    """Translate an error before the first statement was sent."""
    if isinstance(cause_of(error), StoreUnavailable):
        words = " ".join(str(error).split()) or type(error).__name__
        raise StoreUnavailable(f"PostgreSQL at {where} cannot be reached: {words}", outcome="not_sent") from error


def _library() -> ModuleType:
    try:
        import psycopg
    except ImportError as error:
        raise ConfigurationError(
            "SyncClient(dsn) connects by psycopg, which is not installed: pip install 'asyncq[psycopg]'; or leave the "
            "DSN out, and give each call a connection"
        ) from error
    return psycopg


def _parameters(library: ModuleType, dsn: str, schema: str) -> dict[str, Any]:
    try:
        read = library.conninfo.conninfo_to_dict(for_libpq(dsn))
    except library.Error:
        read = None
    # An unescaped / ends the host: then the beginning of the password looks like a port.
    if read is None or not all(port.isdecimal() for port in str(read.get("port", "")).split(",") if port):
        # Without the cause: its text may hold a piece of the password.
        raise ConfigurationError(
            "the DSN cannot be read by libpq; expected postgresql://user:password@host:port/database and parameters of "
            "libpq, with special characters in the password written as %2F and so on"
        )
    return {"connect_timeout": int(CONNECT_TIMEOUT_S), "application_name": f"{schema} client", **read}
