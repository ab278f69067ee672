"""Synchronous connections that callers give, of each kind, with what their owners do with them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import django
import django.db
import psycopg
import sqlmodel
from django.conf import settings
from django.db import transaction
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import class_row
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

AUTOCOMMIT = "AUTOCOMMIT"
ISOLATION = "SERIALIZABLE"


class Caller:
    """An owner of a connection, whose library begins a transaction with the first statement.

    Attributes:
        connection: What is passed as `connection=`.
        run: Runs a statement.
        begin: Begins a transaction, where the library does not do so by itself.
        commit: Commits it.
        rollback: Rolls it back.
        savepoint: A block whose changes are rolled back if it raises.
    """

    def __init__(self, connection: Any, run: Callable[[str], Any], owner: Any, savepoint: Callable[[], Any]) -> None:
        self.connection = connection
        self.run = run
        self.begin: Callable[[], Any] = getattr(owner, "begin_atomic", lambda: None)
        self.commit: Callable[[], Any] = owner.commit
        self.rollback: Callable[[], Any] = owner.rollback
        self.savepoint: Callable[[], AbstractContextManager[Any]] = savepoint


class _Undone(Exception):
    """Rolls a savepoint back."""


@contextmanager
def undone(caller: Caller) -> Iterator[None]:
    """A savepoint that is rolled back at the end of the block."""
    with suppress(_Undone), caller.savepoint():
        yield
        raise _Undone


def _of_sqlalchemy(given: Any) -> Caller:
    return Caller(given, lambda statement: given.execute(text(statement)), given, given.begin_nested)


@contextmanager
def engine_of(dsn: str, level: str | None = None, driver: str = "psycopg") -> Iterator[Any]:
    """An engine of SQLAlchemy."""
    address = dsn.replace("postgresql://", f"postgresql+{driver}://")
    engine = create_engine(address, poolclass=NullPool, **{"isolation_level": level} if level else {})
    yield engine
    engine.dispose()


def sqlalchemy_session(driver: str, kind: type[Session]) -> Any:
    """A session, also of a subclass."""

    @contextmanager
    def opened(dsn: str, level: str | None) -> Iterator[Caller]:
        with engine_of(dsn, level, driver) as engine, kind(engine) as session:
            yield _of_sqlalchemy(session)

    return opened


@contextmanager
def sqlalchemy_scoped_session(dsn: str, level: str | None) -> Iterator[Caller]:
    """The session of a scope."""
    with engine_of(dsn, level) as engine:
        scoped = scoped_session(sessionmaker(engine))
        try:
            yield _of_sqlalchemy(scoped)
        finally:
            scoped.remove()


@contextmanager
def sqlalchemy_connection(dsn: str, level: str | None) -> Iterator[Caller]:
    """A connection of an engine."""
    with engine_of(dsn, level) as engine, engine.connect() as connection:
        yield _of_sqlalchemy(connection)


@contextmanager
def _psycopg(dsn: str, level: str | None) -> Iterator[Any]:
    connection = psycopg.connect(
        dsn, autocommit=level == AUTOCOMMIT, row_factory=class_row(Caller), cursor_factory=psycopg.RawCursor
    )
    if level == ISOLATION:
        connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def psycopg_connection(dsn: str, level: str | None) -> Iterator[Caller]:
    """A connection of psycopg 3, whose own cursors take other parameters and return other rows."""
    with _psycopg(dsn, level) as connection:
        yield Caller(connection, connection.execute, connection, connection.transaction)


@contextmanager
def psycopg_cursor(dsn: str, level: str | None) -> Iterator[Caller]:
    """A cursor of psycopg 3."""
    with _psycopg(dsn, level) as connection:
        yield Caller(connection.cursor(), connection.execute, connection, connection.transaction)


class _Atomic:
    """The outermost block `atomic` of Django, in steps."""

    def __init__(self, alias: str) -> None:
        self._alias = alias

    def begin_atomic(self) -> None:
        self._block = transaction.atomic(using=self._alias)
        self._block.__enter__()

    def commit(self) -> None:
        self._block.__exit__(None, None, None)

    def rollback(self) -> None:
        transaction.set_rollback(True, using=self._alias)
        self.commit()


def use_django(dsn: str) -> None:
    """Configure Django for this process: the aliases `default`, `strict` (another isolation level) and `nowhere`."""
    if settings.configured:
        return
    read = conninfo_to_dict(dsn)
    given = {name.upper(): str(read[name]) for name in ("user", "password", "host", "port") if read.get(name)}
    database = {"ENGINE": "django.db.backends.postgresql", "NAME": read["dbname"], **given}
    strict = {**database, "OPTIONS": {"isolation_level": psycopg.IsolationLevel.SERIALIZABLE}}
    nowhere = {**database, "HOST": "127.0.0.1", "PORT": "1"}
    settings.configure(DATABASES={"default": database, "strict": strict, "nowhere": nowhere}, USE_TZ=True)
    django.setup()


def _of_django(given: Callable[[str], Any]) -> Any:
    @contextmanager
    def opened(dsn: str, level: str | None) -> Iterator[Caller]:
        use_django(dsn)
        alias = "strict" if level == ISOLATION else "default"
        connection = django.db.connections[alias]

        def run(statement: str) -> None:
            with connection.cursor() as cursor:
                cursor.execute(statement)

        try:
            yield Caller(given(alias), run, _Atomic(alias), lambda: transaction.atomic(using=alias))
        finally:
            connection.close()
            del django.db.connections[alias]  # a test that failed may leave it in a block

    return opened


KINDS: dict[str, Callable[[str, str | None], AbstractContextManager[Caller]]] = {
    "sqlalchemy session": sqlalchemy_session("psycopg", Session),
    "sqlalchemy session on psycopg2": sqlalchemy_session("psycopg2", Session),
    "sqlmodel session": sqlalchemy_session("psycopg", sqlmodel.Session),
    "sqlalchemy scoped session": sqlalchemy_scoped_session,
    "sqlalchemy connection": sqlalchemy_connection,
    "psycopg connection": psycopg_connection,
    "psycopg cursor": psycopg_cursor,
    "django connection": _of_django(lambda alias: django.db.connections[alias]),
    "django alias": _of_django(lambda alias: alias),
}
