"""Helpers of the tests of locks: a server that has been up for long, workers with and without their locks."""

import asyncpg

from asyncq.store.statements import render
from tests.support.session import Session

UP_FOR_LONG = """
create or replace function asyncq._locks_since() returns timestamptz language sql volatile
as $$ select '-infinity'::timestamptz $$
"""


async def be_up_for_long(connection: asyncpg.Connection, schema: str) -> None:
    """Let a free lock count, although the server of the tests has just been started."""
    await connection.execute(render(UP_FOR_LONG, schema))


async def register(sql: Session, *, lease_s: float = 30.0, concurrency: int = 100) -> int:
    """Register a worker over a session, which holds its lock from then on. Returns its id."""
    backend = await sql.value("select pg_backend_pid()")
    (row,) = await sql.run("register_worker", lease_s, 1, concurrency, "h", ["t"], backend, None, [])

    assert row["holds"]
    return row["id"]


async def let_go(sql: Session, worker_id: int) -> None:
    """Free a worker's lock, as the server does when its connection ends."""
    assert await sql.value("select pg_advisory_unlock(asyncq._lock_space(), $1)", worker_id)


async def doubted_at(sql: Session, worker_id: int) -> object:
    """The time at which a worker's lock was first seen free."""
    return await sql.value("select doubted_at from asyncq._workers where id = $1", worker_id)


async def end_the_grace(sql: Session, worker_id: int) -> None:
    """Let a doubted worker have been silent for long enough."""
    await sql.rows("update asyncq._workers set doubted_at = doubted_at - asyncq._grace() where id = $1", worker_id)
