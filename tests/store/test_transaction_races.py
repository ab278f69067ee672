"""A transaction that has a claim, and other changes of its job in every order: no deadlock, and nothing is lost."""

from typing import get_args

import anyio
import asyncpg
import pytest

from asyncq.domain.errors import StoreError
from asyncq.domain.job import Claim, JobSpec
from asyncq.domain.task import Isolation
from asyncq.store import add, transactions
from asyncq.store.claim import START, fetch_jobs
from asyncq.store.database import Database, ReconnectingConnection
from tests.support.jobs import WORKER, claimed
from tests.support.session import Session, session
from tests.support.waiting import wait_until

LEVELS = pytest.mark.parametrize("level", get_args(Isolation))
AGAIN = [JobSpec(task="t", job_key="k")]


async def running(database: Database, sql: Session, line: ReconnectingConnection) -> Claim:
    """A job with the key `k`, claimed."""
    await add.add_jobs(database, sql.connection, AGAIN)
    ids = await sql.values("select id from asyncq._tasks")
    (claim,) = (await fetch_jobs(line, WORKER, 1, 10, ids, None, START)).claims
    return claim


async def blocked(sql: Session, other: Session) -> bool:
    """Whether a session waits for another one."""
    return await sql.value("select pg_blocking_pids($1) <> '{}'", other.connection.get_server_pid())


async def run_in_transaction(
    database: Database, handler: Session, claim: Claim, level: str, go_on: anyio.Event, held: anyio.Event
) -> str:
    """Run a handler that adds its own key: lock the claim, add, complete, commit. Returns how that ended."""
    transaction = transactions.Transaction(database, handler.connection, level)
    await transaction.begin()
    try:
        holding = await transactions.lock_claim(database, handler.connection, WORKER, claim)
        held.set()
        await go_on.wait()
        await add.add_jobs(database, handler.connection, AGAIN)
        ending = await transactions.complete_claim(
            database, handler.connection, WORKER, claim, holding.xid, duration_s=1.0
        )
        await transaction.commit()
    except StoreError as error:
        return error.sqlstate or ""
    finally:
        await transaction.roll_back()
    return ending


@LEVELS
async def test_a_handler_and_an_earlier_add_of_its_key_do_not_deadlock(
    dsn: str, schema: str, database: Database, sql: Session, other: Session, line: ReconnectingConnection, level: str
) -> None:
    """The add has the key lock and wants the row. The handler has the row and waits for the key lock."""
    claim = await running(database, sql, line)
    held, go_on = anyio.Event(), anyio.Event()
    endings: list[str] = []

    async def handle(handler: Session) -> None:
        endings.append(await run_in_transaction(database, handler, claim, level, go_on, held))

    async with session(dsn, schema, deadlock_timeout="20ms") as handler, anyio.create_task_group() as group:
        group.start_soon(handle, handler)
        await held.wait()
        async with other.connection.transaction():
            added = await add.add_jobs(database, other.connection, AGAIN)
            go_on.set()
            await wait_until(lambda: blocked(sql, handler), description="the handler to wait for the key lock")

    assert ["completed" if level == "read_committed" else "40001"] == endings
    assert ["added"] == [item.outcome for item in added]
    assert [claim.id] * (level != "read_committed") == await claimed(sql)


@LEVELS
async def test_a_later_add_of_its_key_waits_for_the_handler(
    dsn: str, schema: str, database: Database, sql: Session, other: Session, line: ReconnectingConnection, level: str
) -> None:
    """It waits for the key lock without other locks, and then finds the job that the handler added."""
    claim = await running(database, sql, line)
    outcomes: list[str] = []

    async def add_outside() -> None:
        outcomes.extend(item.outcome for item in await add.add_jobs(database, other.connection, AGAIN))

    async with session(dsn, schema, deadlock_timeout="20ms") as handler, anyio.create_task_group() as group:
        transaction = transactions.Transaction(database, handler.connection, level)
        await transaction.begin()
        held = await transactions.lock_claim(database, handler.connection, WORKER, claim)
        await add.add_jobs(database, handler.connection, AGAIN)
        group.start_soon(add_outside)
        await wait_until(lambda: blocked(sql, other), description="the add to wait for the key lock")
        ending = await transactions.complete_claim(
            database, handler.connection, WORKER, claim, held.xid, duration_s=1.0
        )
        await transaction.commit()
        await transaction.roll_back()

    assert ("completed", ["updated"], []) == (ending, outcomes, await claimed(sql))


@LEVELS
async def test_a_rescue_skips_a_live_transaction_and_takes_its_job_afterwards(
    dsn: str, schema: str, database: Database, sql: Session, line: ReconnectingConnection, level: str
) -> None:
    """A locked row has a live transaction. After its rollback the job is rescued."""
    claim = await running(database, sql, line)
    async with session(dsn, schema) as handler:
        transaction = transactions.Transaction(database, handler.connection, level)
        await transaction.begin()
        await transactions.lock_claim(database, handler.connection, WORKER, claim)
        meanwhile = await sql.values("select job_id from asyncq._rescue_jobs(true)")
        await transaction.roll_back()
    afterwards = await sql.values("select job_id from asyncq._rescue_jobs(true)")

    assert ([], [claim.id]) == (meanwhile, afterwards)


async def test_a_claim_that_a_rescue_is_taking_is_waited_for_and_lost(
    dsn: str, schema: str, database: Database, sql: Session, other: Session, line: ReconnectingConnection
) -> None:
    """The rescue was first: the transaction begins without its claim, and its handler is not called."""
    claim = await running(database, sql, line)
    stands: list[bool] = []

    async with session(dsn, schema) as handler, anyio.create_task_group() as group:
        transaction = transactions.Transaction(database, handler.connection, "read_committed")
        await transaction.begin()

        async def hold() -> None:
            stands.append((await transactions.lock_claim(database, handler.connection, WORKER, claim)).is_current)

        async with other.connection.transaction():
            await other.rows("select from asyncq._rescue_jobs(true)")
            group.start_soon(hold)
            await wait_until(lambda: blocked(sql, handler), description="the handler to wait for the rescue")
        await wait_until(lambda: bool(stands), description="the claim")
        await transaction.roll_back()

    assert [False] == stands


async def test_a_commit_that_the_server_answers_with_a_rollback_is_an_error(
    dsn: str, schema: str, database: Database
) -> None:
    """A statement had failed, and COMMIT ends such a transaction without an error of the driver."""
    async with session(dsn, schema) as handler:
        transaction = transactions.Transaction(database, handler.connection, "read_committed")
        await transaction.begin()
        with pytest.raises(asyncpg.DivisionByZeroError):
            await handler.rows("select 1 / 0")
        with pytest.raises(StoreError, match="everything was rolled back"):
            await transaction.commit()
        await transaction.roll_back()

        assert 1 == await handler.value("select 1")
