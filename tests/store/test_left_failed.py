"""A connection of ours that a pooler left in a failed transaction, as pgpool does in raw mode."""

import asyncpg
import pytest

from asyncq import Client, StoreUnavailable
from asyncq.store.database import Database, ReconnectingConnection
from asyncq.store.failures import is_transient
from asyncq.store.heartbeat_connection import HeartbeatConnection
from tests.support.session import Session

SAID = "failed transaction that asyncq did not begin"


async def fail(connection: asyncpg.Connection) -> None:
    """Leave a transaction open in which a statement has failed; the driver does not know of it."""
    with pytest.raises(asyncpg.DivisionByZeroError):
        await connection.execute("begin; select 1 / 0")


async def test_a_line_in_a_failed_transaction_is_opened_again(line: ReconnectingConnection) -> None:
    """Otherwise nothing would end that transaction, and the worker would never fetch again."""
    failed = await line.connection()
    await fail(failed)
    with pytest.raises(StoreUnavailable, match=SAID) as error:
        await line.fetch("server_time")

    assert (True, "not_sent", True) == (failed.is_closed(), error.value.outcome, is_transient(error.value))
    assert 1 == len(await line.fetch("server_time"))


async def test_a_clients_connection_in_a_failed_transaction_is_opened_again(dsn: str, schema: str) -> None:
    """With `retry_for` the caller does not notice, although it is the only connection of the pool."""
    async with Client(dsn, schema=schema, pool_size=1, retry_for=5) as client:
        first = await client.add_job("t")
        assert client._pool is not None
        connection = await client._pool.acquire()
        await fail(connection)
        await client._pool.release(connection, is_well=True)
        second = await client.add_job("t")
        jobs = (await client.admin.find_jobs(newest=False)).jobs

    assert [first.id, second.id] == [job.id for job in jobs]


async def test_a_client_without_retries_raises_once_and_then_works(dsn: str, schema: str) -> None:
    """The error does not mention a transaction of the caller, who has none."""
    async with Client(dsn, schema=schema, pool_size=1) as client:
        assert client._pool is not None
        connection = await client._pool.acquire()
        await fail(connection)
        await client._pool.release(connection, is_well=True)
        with pytest.raises(StoreUnavailable, match=SAID):
            await client.add_job("t")
        await client.add_job("t")


async def test_a_heartbeats_connection_in_a_failed_transaction_is_opened_again(
    database: Database, sql: Session
) -> None:
    """Otherwise it would refuse each beat until the lease is over."""
    lifeline = HeartbeatConnection(database, lambda _: None)
    await lifeline.open()
    assert lifeline._connection is not None
    await fail(lifeline._connection)
    with pytest.raises(StoreUnavailable, match=SAID):
        await lifeline.watch(0)

    assert not lifeline.is_open
