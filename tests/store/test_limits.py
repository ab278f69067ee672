"""The limits of a role stop neither maintenance nor administration, directly and behind a pooler."""

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import cast

import anyio
import psycopg
import pytest

from asyncq import Client
from asyncq.domain.errors import StoreError, StoreUnavailable
from asyncq.store.database import Connection, Database, ReconnectingConnection
from asyncq.store.limits import TRANSACTION_TIMEOUT_SINCE, unlimited
from tests.support.pooler import pooled, pooler
from tests.support.session import Session
from tests.support.waiting import wait_until

LIMITS = {
    "statement_timeout": "250ms",
    "lock_timeout": "100ms",
    "idle_in_transaction_session_timeout": "250ms",
    "idle_session_timeout": "500ms",
}
LOCK = "begin; lock table asyncq._jobs, asyncq._workers, asyncq._batches, asyncq._tasks, asyncq._key_locks"
# In a transaction pg_stat_activity shows what it showed first.
ANEW = "select pg_catalog.pg_stat_clear_snapshot()"
# Longer than each limit.
IS_WAITING = """
select exists (
  select from pg_catalog.pg_stat_activity as activity
  where activity.usename = $1 and activity.wait_event_type = 'Lock'
    and activity.query_start < pg_catalog.clock_timestamp() - interval '400 ms')
"""

Call = Callable[[Client], Awaitable[object]]


async def iterated(client: Client) -> None:
    """Read all jobs."""
    async for _ in client.admin.iter_jobs():
        pass


CALLS: dict[str, Call] = {
    "counts": lambda client: client.admin.counts(),
    "exact counts": lambda client: client.admin.counts(exact=True),
    "list_workers": lambda client: client.admin.list_workers(),
    "force_unlock_workers": lambda client: client.admin.force_unlock_workers(["7"]),
    "cleanup": lambda client: client.admin.cleanup(),
    "checkup": lambda client: client.admin.checkup(),
    "repair": lambda client: client.admin.repair(),
    "find_jobs": lambda client: client.admin.find_jobs(),
    "iter_jobs": iterated,
    "cancel_jobs": lambda client: client.admin.cancel_jobs([1]),
}
STATEMENTS: dict[str, tuple[object, ...]] = {
    "rescue_jobs": (True, True),
    "prune": (60.0, 60.0, 10),
    "prune_key_locks": (0, 10),
    "unknown_tasks": ("{}",),
    "register_worker": (30.0, 1, 1, "host", ["t"], 0, None, []),
}


@asynccontextmanager
async def limited(sql: Session, dsn: str, way: str) -> AsyncGenerator[tuple[str, str]]:
    """A role with limits: its name, and the DSN of its way to the server."""
    role = f"l_{secrets.token_hex(6)}"
    limits = dict(LIMITS)
    if sql.connection.get_server_version().major >= TRANSACTION_TIMEOUT_SINCE:
        limits["transaction_timeout"] = "300ms"
    await sql.execute(f"create role {role} login superuser")
    for name, value in limits.items():
        await sql.execute(f"alter role {role} set {name} = '{value}'")
    mine = dsn.replace("postgres@", f"{role}@", 1)
    try:
        match way:
            case "pgbouncer":
                with pooler(mine) as through:
                    yield role, pooled(through)
            case "pooled":
                yield role, pooled(mine)
            case _:
                yield role, mine
    finally:
        await wait_until(lambda: has_ended(sql, role), description="the connections of the role to be closed")
        await sql.execute(f"drop owned by {role}; drop role {role}")


async def has_ended(sql: Session, role: str) -> bool:
    """Whether the role has no connection any more."""
    await sql.execute(ANEW)
    return not await sql.value("select count(*) from pg_stat_activity where usename = $1", role)


async def is_waiting(sql: Session, role: str) -> bool:
    """Whether the role has waited for a lock for longer than its limits."""
    await sql.execute(ANEW)
    return await sql.value(IS_WAITING, role)


async def release_when_waiting(sql: Session, role: str) -> None:
    """Hold locks until the role has waited for one of them for longer than its limits."""
    await wait_until(lambda: is_waiting(sql, role), description="the role to wait")
    await sql.execute("commit")


@pytest.mark.parametrize(
    ("way", "call"),
    [
        *(pytest.param(way, call, id=f"{way}-{name}") for name, call in CALLS.items() for way in ("direct", "pooled")),
        pytest.param("pgbouncer", CALLS["counts"], id="pgbouncer-counts"),
    ],
)
async def test_administration_waits_longer_than_the_role_may(sql: Session, dsn: str, way: str, call: Call) -> None:
    """The caller may wait; Ctrl-C ends it."""
    async with limited(sql, dsn, way) as (role, mine), Client(mine, schema=sql.schema, pool_size=1) as client:
        await sql.execute(LOCK)
        async with anyio.create_task_group() as group:
            group.start_soon(release_when_waiting, sql, role)
            await call(client)


@pytest.mark.parametrize("way", ["direct", "pooled", "pgbouncer"])
async def test_adds_and_calls_of_a_caller_keep_the_limits(sql: Session, dsn: str, way: str) -> None:
    """These are limits of a web request, even on the connection of an earlier administrative call."""
    async with limited(sql, dsn, way) as (_, mine), Client(mine, schema=sql.schema, pool_size=1) as client:
        await client.admin.counts()
        await sql.execute(LOCK)
        with pytest.raises(StoreError) as refused:
            await client.add_job("t", queue="q")
        await sql.execute("commit")

        assert refused.value.sqlstate in ("55P03", "57014")


@pytest.mark.parametrize("way", ["direct", "pooled"])
@pytest.mark.parametrize("name", STATEMENTS)
async def test_statements_of_workers_wait_longer_than_the_role_may(sql: Session, dsn: str, way: str, name: str) -> None:
    """Each has a deadline of the worker's own."""
    async with limited(sql, dsn, way) as (role, mine):
        line = ReconnectingConnection(Database(mine, sql.schema), "test")
        await line.ready()
        await sql.execute(LOCK)
        async with anyio.create_task_group() as group:
            group.start_soon(release_when_waiting, sql, role)
            await line.fetch(name, *STATEMENTS[name])
        await line.close()
        await sql.execute("delete from asyncq._workers")


async def test_a_statement_of_a_worker_ends_in_the_server_without_it(sql: Session, dsn: str) -> None:
    """None runs on after its worker has given up."""
    connection = await Database(dsn, sql.schema).connect("test")
    limits = [await connection.fetchval(f"show {name}") for name in LIMITS]
    await connection.close()

    assert ["2min", "0", "0", "0"] == limits


async def test_a_connection_that_breaks_as_its_limits_are_set_is_an_outage(dsn: str, schema: str) -> None:
    """The pool has taken it back then, and each call of it raises an error of the driver."""
    async with Database(dsn, schema).pool("test", 1) as pool, pool.acquire() as connection:
        # Nothing runs in between that would notice the end.
        with psycopg.connect(dsn) as other:
            other.execute("select pg_terminate_backend(%s, 5000)", [connection.get_server_pid()])
        with pytest.raises(StoreUnavailable):
            async with unlimited(cast(Connection, connection), schema):
                pass
