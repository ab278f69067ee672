"""`store.pooled`: each statement in a transaction of its own, which no pooler can take apart."""

import asyncio

import asyncpg
import pytest

from asyncq import Client, ConfigurationError, Worker, task
from asyncq.domain.events import JobCompleted, PollingOnly
from asyncq.store.database import Database
from asyncq.store.dsn import read_dsn
from asyncq.store.pooled import PooledConnection, is_pooled, prelude
from tests.support.pooler import pooled
from tests.support.seen import Seen
from tests.support.waiting import wait_until


@task
async def nothing() -> None:
    """The least job."""


@pytest.mark.parametrize(
    ("dsn", "rest", "size"),
    [
        ("postgresql://h/d", "postgresql://h/d", None),
        ("postgresql://h/d?statement_cache_size=0", "postgresql://h/d", 0),
        ("postgresql://h/d?statement_cache_size=0&sslmode=require", "postgresql://h/d?sslmode=require", 0),
        ("postgresql://h1,h2/d?a=%26&statement_cache_size=20", "postgresql://h1,h2/d?a=%26", 20),
        ("postgresql://u:a%3Fb@h/d?host=/run", "postgresql://u:a%3Fb@h/d?host=/run", None),
    ],
)
def test_our_parameter_is_removed_from_the_dsn_and_nothing_else_is_changed(
    dsn: str, rest: str, size: int | None
) -> None:
    """The driver would send it to the server as a setting. Other parameters are left to the driver."""
    read = read_dsn(dsn)

    assert (rest, size) == (read.uri, read.statement_cache_size)


@pytest.mark.parametrize("size", ["", "none", "-1", "1.5", "٣"])
def test_a_size_that_is_no_number_is_refused(size: str) -> None:
    """Silence would leave the pooler with prepared statements."""
    with pytest.raises(ConfigurationError, match="whole number"):
        Database(f"postgresql://h/d?statement_cache_size={size}", "asyncq")


def test_a_prelude_is_one_message_with_all_settings() -> None:
    """More messages would be more round trips; a list of schemas is a list."""
    text = prelude({"jit": "off", "search_path": "pg_catalog, pg_temp"})

    assert (
        "begin isolation level read committed; set local jit = 'off'; set local search_path = 'pg_catalog', 'pg_temp'"
        == text
    )


async def test_only_a_connection_to_a_pooler_counts_as_one(dsn: str, schema: str) -> None:
    """asyncpg's classes say of any connection that it is an instance of theirs."""
    plain = await Database(dsn, schema).connect("test")
    other = await Database(pooled(dsn), schema).connect("test")
    await plain.close()
    await other.close()

    assert (False, True) == (is_pooled(plain), is_pooled(other))
    assert isinstance(plain, PooledConnection)


async def test_a_statement_that_fails_leaves_no_transaction_behind(dsn: str, schema: str) -> None:
    """The session is returned to the pooler, and the next statement works."""
    connection = await Database(pooled(dsn), schema).connect("test")
    with pytest.raises(asyncpg.DivisionByZeroError):
        await connection.fetchval("select 1 / $1::int", 0)
    after = (connection.is_in_transaction(), await connection.fetchval("select $1::int", 7))
    await connection.close()

    assert (False, 7) == after


async def test_every_way_to_run_a_statement_commits_it(dsn: str, schema: str, db: asyncpg.Connection) -> None:
    """Callers need not know about the pooler."""
    connection = await Database(pooled(dsn), schema).connect("test")
    await connection.execute(f"create table {schema}.written (n int)")
    insert = f"insert into {schema}.written values ($1) returning n"
    await connection.execute(insert, 1)
    await connection.fetch(insert, 2)
    await connection.fetchrow(insert, 3)
    await connection.fetchval(insert, 4)
    await connection.executemany(insert, [(5,), (6,)])
    await connection.fetchmany(insert, [(7,)])
    async with connection.transaction():
        await connection.fetchval(insert, 8)
    rows = await db.fetch(f"select n from {schema}.written order by n")
    await connection.close()

    assert [*range(1, 9)] == [row["n"] for row in rows]


async def test_types_are_read_without_jit_which_the_transaction_and_the_session_keep(
    dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading the types of arrays takes seconds with jit; other programs want the session with it."""
    read, seen = asyncpg.Connection._introspect_types, bytearray()

    async def hear(part: bytes) -> None:
        seen.extend(part)

    async def spy(self: asyncpg.Connection, *args: object, **options: object) -> object:
        await self.copy_from_query("select current_setting('jit')", output=hear)
        return await read(self, *args, **options)

    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", spy)
    connection = await Database(pooled(dsn), schema).connect("test")
    try:
        async with connection.transaction():
            await connection.execute("set local jit = on")
            await connection.fetchval("select $1::int[]", [1])
            inside = await connection.fetchval("show jit")
        outside = await asyncpg.Connection.fetchval(connection, "select source from pg_settings where name = 'jit'")
    finally:
        await connection.close()

    assert (b"off\n", "on", "default") == (seen, inside, outside)


async def test_a_transaction_of_the_callers_is_one_and_can_be_rolled_back(
    dsn: str, schema: str, db: asyncpg.Connection
) -> None:
    """Its statements are not committed one by one."""
    connection = await Database(pooled(dsn), schema).connect("test")
    await connection.execute(f"create table {schema}.written (n int)")
    transaction = connection.transaction()
    await transaction.start()
    await connection.fetchval(f"insert into {schema}.written values ($1) returning n", 1)
    await transaction.rollback()
    count = await db.fetchval(f"select count(*) from {schema}.written")
    await connection.close()

    assert 0 == count


async def test_a_statement_that_is_cancelled_is_stopped_and_leaves_no_transaction_behind(
    dsn: str, schema: str, db: asyncpg.Connection
) -> None:
    """The pooler gets its session back."""
    connection = await Database(pooled(dsn), schema).connect("test")

    async def sleeps() -> bool:
        sql = "select count(*) = 1 from pg_stat_activity where wait_event = 'PgSleep' and application_name = $1"
        return await db.fetchval(sql, f"{schema} test")

    async with asyncio.TaskGroup() as group:
        running = group.create_task(connection.fetchval("select pg_sleep($1)", 60))
        await wait_until(sleeps, description="the statement to run")
        running.cancel()

    after = (connection.is_in_transaction(), await connection.fetchval("select $1::int", 7))
    await connection.close()

    assert (False, 7) == after


async def test_a_worker_works_with_a_session_for_each_transaction(dsn: str, schema: str) -> None:
    """The test simulates it on the server itself, so that it needs no pooler."""
    seen = Seen()
    async with (
        Client(pooled(dsn), schema=schema) as client,
        Worker(pooled(dsn), [nothing], schema=schema, observers=[seen], poll=0.05).start(),
    ):
        await client.add_jobs([nothing.job()] * 20)
        await seen.wait_for(JobCompleted, 20)

    assert 1 == len(seen.of(PollingOnly))


@pytest.mark.parametrize(
    ("options", "said"),
    [({"listen": False, "listen_dsn": "postgresql://h"}, "leave one of them out"),
     ({"listen_dsn": "postgresql://h?statement_cache_size=0"}, "directly")],
)  # fmt: skip
def test_options_for_listen_that_contradict_each_other_are_refused(options: dict[str, object], said: str) -> None:
    """Either is a mistake that would cost latency in silence."""
    with pytest.raises(ConfigurationError, match=said):
        Worker("postgresql://h", [nothing], **options)
