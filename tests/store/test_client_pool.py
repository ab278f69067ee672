"""`ClientPool`: the client's connections are at hand again at once, and still the pool's."""

import asyncio
from collections.abc import AsyncIterator

import anyio
import asyncpg
import pytest

from asyncq.store import client_pool
from asyncq.store.client_pool import ClientPool
from asyncq.store.failures import is_closed
from tests.support.waiting import wait_until


@pytest.fixture
async def pool(dsn: str) -> AsyncIterator[asyncpg.Pool]:
    """Two connections at most, opened on demand."""
    async with asyncpg.create_pool(dsn, min_size=0, max_size=2) as made:
        yield made


@pytest.fixture
async def made(pool: asyncpg.Pool) -> AsyncIterator[ClientPool]:
    """Spares of that pool."""
    made = ClientPool(pool)
    yield made
    await made.close()


async def break_one(dsn: str, made: ClientPool) -> int:
    """Let a spare connection end, as a restart of the server does. Returns the process that served it."""
    broken = await made.acquire()
    pid = broken.get_server_pid()
    await made.release(broken, is_well=True)
    killer = await asyncpg.connect(dsn)
    await killer.execute(f"select pg_terminate_backend({pid})")
    await killer.close()
    await wait_until(lambda: is_closed(broken), description="the driver to notice")
    return pid


async def test_a_released_connection_is_taken_again_without_the_pool(pool: asyncpg.Pool, made: ClientPool) -> None:
    """The last used one comes first, since its memory is warm."""
    first, second = await made.acquire(), await made.acquire()
    await made.release(first, is_well=True)
    await made.release(second, is_well=True)
    again = await made.acquire()

    assert (second, 0) == (again, pool.get_idle_size())
    await made.release(again, is_well=True)


async def test_after_a_failure_the_driver_releases_the_connection(pool: asyncpg.Pool, made: ClientPool) -> None:
    """It may wait for a statement that it cancels."""
    await made.release(await made.acquire(), is_well=False)

    assert 1 == pool.get_idle_size()


async def test_a_waiting_caller_gets_the_next_connection(made: ClientPool) -> None:
    """All connections are in use, and callers are served in order."""
    held = [await made.acquire(), await made.acquire()]
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        waiting = [group.create_task(made.acquire()) for _ in range(2)]
        await asyncio.sleep(0)
        for connection in held:
            await made.release(connection, is_well=True)
    taken = [task.result() for task in waiting]

    assert [1, 1] == [await connection.fetchval("select 1") for connection in taken]
    for connection in taken:
        await made.release(connection, is_well=True)


async def test_one_that_broke_meanwhile_is_replaced(dsn: str, made: ClientPool) -> None:
    """A restart of the server ends all of them."""
    pid = await break_one(dsn, made)
    connection = await made.acquire()

    assert pid != await connection.fetchval("select pg_backend_pid()")
    await made.release(connection, is_well=True)


async def test_unused_connections_are_closed(
    pool: asyncpg.Pool, made: ClientPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that is used all the time stays."""
    monkeypatch.setattr(client_pool, "IDLE_S", 0.05)
    for connection in [await made.acquire(), await made.acquire()]:
        await made.release(connection, is_well=True)

    async def is_one_closed() -> bool:
        await made.release(await made.acquire(), is_well=True)
        return pool.get_size() == 1

    await wait_until(is_one_closed, description="one of two to be closed")
    await wait_until(lambda: pool.get_size() == 0, description="the other one to follow")
    connection = await made.acquire()

    assert 1 == await connection.fetchval("select 1")
    await made.release(connection, is_well=True)


async def test_closing_waits_for_used_connections_and_leaves_none(pool: asyncpg.Pool, made: ClientPool) -> None:
    """A running call may finish."""
    spare, used = await made.acquire(), await made.acquire()
    await made.release(spare, is_well=True)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        closing = group.create_task(made.close())
        await asyncio.sleep(0.05)
        assert not closing.done()
        await made.release(used, is_well=True)

    assert 0 == pool.get_size()


async def test_closing_waits_for_those_that_wait_for_a_connection(pool: asyncpg.Pool, made: ClientPool) -> None:
    """Their calls must complete too. The driver would cut them off with an unknown outcome."""

    async def use() -> int:
        connection = await made.acquire()
        try:
            return await connection.fetchval("select count(*) from pg_class, pg_sleep(0.05)")
        finally:
            await made.release(connection, is_well=True)

    held = [await made.acquire(), await made.acquire()]
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        waiting = [group.create_task(use()) for _ in range(6)]
        await asyncio.sleep(0)
        group.create_task(made.close())
        await asyncio.sleep(0)
        for connection in held:
            await made.release(connection, is_well=True)

    assert all(task.result() for task in waiting)
    assert 0 == pool.get_size()


async def test_closing_is_no_matter_of_those_that_broke_meanwhile(
    dsn: str, pool: asyncpg.Pool, made: ClientPool
) -> None:
    """The server may have been restarted since."""
    await break_one(dsn, made)
    await made.close()

    assert 0 == pool.get_size()


async def test_a_close_that_is_cancelled_cuts_all_off(dsn: str, pool: asyncpg.Pool, made: ClientPool) -> None:
    """In a cancelled task group no await completes. The server must not keep a connection for it."""
    spare, used = await made.acquire(), await made.acquire()
    pids = [spare.get_server_pid(), used.get_server_pid()]
    await made.release(spare, is_well=True)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await made.close()
    look = await asyncpg.connect(dsn)

    async def are_gone() -> bool:
        return 0 == await look.fetchval("select count(*) from pg_stat_activity where pid = any($1)", pids)

    await wait_until(are_gone, description="both connections to end")
    await look.close()


async def test_a_connection_that_is_lost_by_the_time_it_is_tidied_is_no_error(dsn: str) -> None:
    """A task returns it after a cancelled call, and nobody awaits that task: its error would only be logged."""
    lost, killer = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    await killer.execute(f"select pg_terminate_backend({lost.get_server_pid()})")
    await wait_until(lambda: is_closed(lost), description="the driver to notice")
    token = client_pool._is_well.set(False)
    try:
        await client_pool.tidy(lost)
    finally:
        client_pool._is_well.reset(token)
        await killer.close()

    assert is_closed(lost)
