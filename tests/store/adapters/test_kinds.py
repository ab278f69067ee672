"""`adapters.kinds`: the library of a connection is found without an import, and other values are refused."""

import subprocess
import sys
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy.exc
import sqlalchemy.ext.asyncio
import sqlalchemy.orm
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from asyncq import Client, ConfigurationError, StoreUnavailable, TransactionUnusable
from asyncq.store.adapters.kinds import adapter_of
from tests.support.callers import KINDS
from tests.support.ids import written

SYNCHRONOUS = [
    sqlalchemy.orm.Session,
    sqlalchemy.orm.scoped_session,
    sqlalchemy.Connection,
    psycopg.Connection,
    psycopg.Cursor,
]
POOLS = [asyncpg.Pool, sqlalchemy.ext.asyncio.AsyncEngine, sqlalchemy.ext.asyncio.async_sessionmaker]


@pytest.mark.parametrize("kind", SYNCHRONOUS, ids=written)
def test_a_synchronous_connection_is_refused_with_the_right_call(kind: type[Any]) -> None:
    """Its methods cannot be awaited."""
    with pytest.raises(TypeError, match=rf"got {kind.__module__}\.{kind.__name__}, .*synchronous: SyncClient.*add_job"):
        adapter_of(kind.__new__(kind), autocommit=False)


@pytest.mark.parametrize("kind", POOLS, ids=written)
def test_a_pool_is_refused_with_an_advice(kind: type[Any]) -> None:
    """It would be another connection than that of the transaction."""
    with pytest.raises(TypeError, match="is a pool: take a connection from it first"):
        adapter_of(kind.__new__(kind), autocommit=False)


async def test_any_other_value_is_refused_with_the_kinds(dsn: str) -> None:
    """The client checks it before all else."""
    said = r"must be an asyncpg connection; an AsyncSession.* of SQLAlchemy; or an AsyncCo.* of psycopg; got builtins\."
    for value in ("default", 5, object()):
        with pytest.raises(TypeError, match=said):
            await Client(dsn).add_job("t", connection=value)  # type: ignore[call-overload]


async def test_a_database_that_is_not_postgresql_is_refused(dsn: str) -> None:
    """A session of another engine of the program."""
    engine = sqlalchemy.create_engine("sqlite://")
    with (
        engine.connect() as connection,
        pytest.raises(TypeError, match="PostgreSQL, where the jobs are, got one to sqlite"),
    ):
        sqlalchemy_fetch(connection)
    engine.dispose()


def sqlalchemy_fetch(connection: Any) -> None:
    """A statement on a synchronous connection."""
    from asyncq.store.adapters.sqlalchemy import fetch

    fetch(connection, "select 1", (), autocommit=False)


class Base(DeclarativeBase):
    """The models of the test."""


class Order(Base):
    """A model with an engine of its own."""

    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)


async def test_a_session_of_several_engines_has_to_say_which(client: Client, dsn: str) -> None:
    """The error has the call that does."""
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://"))
    async with AsyncSession(binds={Order: engine}) as session:
        with pytest.raises(ConfigurationError, match="which of its engines leads to the jobs"):
            await client.add_job("t", connection=session)
        chosen = await session.connection(bind_arguments={"mapper": Order})
        added = await client.add_job("t", connection=chosen)
        await session.commit()
    await engine.dispose()

    assert added.id == (await client.get_job(added.id)).id


@pytest.mark.parametrize("kind", ["sqlalchemy session, asyncpg", "sqlalchemy session, psycopg", "psycopg connection"])
async def test_a_statement_and_its_parameters_are_sent_as_they_are(dsn: str, kind: str) -> None:
    """Colons, percent signs and backslashes have a meaning for some libraries, and none in a statement of asyncq."""
    statement = r"select 'a:b %s % 12:30 \:c' || $1::text as said, (array[1, 2, 3])[2:$2::int] as some -- :d % e"
    async with KINDS[kind](dsn, None) as caller:
        (row,) = await adapter_of(caller.connection, autocommit=None).fetch(statement, ":f %s", 3)

    assert (r"a:b %s % 12:30 \:c:f %s", [2, 3]) == (row["said"], row["some"])


async def test_a_session_whose_flush_failed_has_to_be_rolled_back(client: Client, dsn: str) -> None:
    """SQLAlchemy refuses the statement; afterwards the session can be used again."""
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://"))
    async with AsyncSession(engine) as session:
        session.add(Order(id=1))
        with pytest.raises(sqlalchemy.exc.ProgrammingError):
            await session.flush()
        with pytest.raises(TransactionUnusable, match="roll it back first"):
            await client.add_job("t", connection=session)
        await session.rollback()
        await client.add_job("t", connection=session)
    await engine.dispose()


async def test_a_connection_that_is_not_there_is_unavailable(client: Client, dsn: str) -> None:
    """Nothing was sent: the engine's pool has no free connection, or the connection is closed."""
    url = dsn.replace("postgresql://", "postgresql+asyncpg://")
    engine = create_async_engine(url, pool_size=1, max_overflow=0, pool_timeout=0.05)
    async with engine.connect() as closed, AsyncSession(engine) as session:
        for given in (session, closed):
            with pytest.raises(StoreUnavailable, match="cannot be sent") as caught:
                await client.add_job("t", connection=given)
            assert "not_sent" == caught.value.outcome
            await closed.close()
    await engine.dispose()


async def test_a_server_that_cannot_be_reached_is_reported() -> None:
    """The session connects with the add; nothing was sent."""
    for driver in ("asyncpg", "psycopg"):
        engine = create_async_engine(f"postgresql+{driver}://u@127.0.0.1:1/d")
        async with AsyncSession(engine) as session:
            with pytest.raises(StoreUnavailable) as caught:
                await Client("postgresql://").add_job("t", connection=session)
        await engine.dispose()

        assert (driver, "not_sent") == (driver, caught.value.outcome)


def test_no_library_is_imported() -> None:
    """A service without them starts as fast as before."""
    program = "import asyncq, sys; print({'sqlalchemy', 'psycopg', 'sqlmodel', 'django'} & set(sys.modules))"

    assert "set()\n" == subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
