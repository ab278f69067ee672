"""Jobs are rows of your database: they are added in your transaction, and exist if and only if it commits."""

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from asyncq import Client, TransactionUnusable, task
from asyncq.testing import assert_added, assert_not_added, run_due


@task
async def send_bill(order: int) -> None:
    """Send the bill of an order."""


async def test_a_job_of_a_committed_transaction_runs(
    dsn: str, schema: str, client: Client, db: asyncpg.Connection
) -> None:
    """`connection=` is the connection of your transaction: the order and its job are stored together."""
    async with db.transaction():
        added = await client.add_job(send_bill, 7, connection=db)

    ran = await run_due(dsn, [send_bill], schema=schema)

    assert ran.completed == [added.id]


async def test_a_job_of_a_rolled_back_transaction_never_was(
    dsn: str, schema: str, client: Client, db: asyncpg.Connection
) -> None:
    """No bill for an order that does not exist."""
    transaction = db.transaction()
    await transaction.start()
    await client.add_job(send_bill, 7, connection=db)
    await transaction.rollback()

    ran = await run_due(dsn, [send_bill], schema=schema)

    assert ran.started == []


async def test_a_session_of_sqlalchemy_is_a_connection_too(dsn: str, schema: str, client: Client) -> None:
    """So are its connections, SQLModel's session, and connections of psycopg. The session begins its transaction."""
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://"))
    async with AsyncSession(engine) as session:
        await client.add_job(send_bill, 7, connection=session)
        await session.rollback()
        added = await client.add_job(send_bill, 8, connection=session)
        await assert_added(session, send_bill, schema=schema, order=8)
        await session.commit()
    await engine.dispose()

    ran = await run_due(dsn, [send_bill], schema=schema)

    assert ran.completed == [added.id]


async def test_no_worker_sees_a_job_before_the_commit(
    dsn: str, schema: str, client: Client, db: asyncpg.Connection
) -> None:
    """The handler will find the order: it cannot run too early."""
    # A name that nobody used before makes others who need it wait for the commit; this one is known from here on.
    await run_due(dsn, [send_bill], schema=schema)

    async with db.transaction():
        await client.add_job(send_bill, 7, connection=db)
        ran = await run_due(dsn, [send_bill], schema=schema)

        assert ran.started == []
        await assert_not_added(client, send_bill)
        await assert_added(db, send_bill, schema=schema, order=7)


async def test_an_add_in_sql_is_part_of_the_transaction_too(
    dsn: str, schema: str, client: Client, db: asyncpg.Connection
) -> None:
    """Any driver or language can run the statement. A trigger can add the job as well."""
    await db.execute(f"create table {schema}.orders (id int primary key)")
    await db.execute(f"""
        create function {schema}.bill() returns trigger language plpgsql as $$
        begin
          perform {schema}.add_job('send_bill', json_build_object('order', new.id));
          return new;
        end $$;
        create trigger bill after insert on {schema}.orders for each row execute function {schema}.bill()
    """)

    await db.execute(f"insert into {schema}.orders values (7)")

    await assert_added(client, send_bill, order=7)


async def test_an_aborted_transaction_takes_no_jobs(client: Client, db: asyncpg.Connection) -> None:
    """PostgreSQL refuses everything after an error, until the rollback; the error says just that."""
    transaction = db.transaction()
    await transaction.start()
    with pytest.raises(asyncpg.DivisionByZeroError):
        await db.execute("select 1 / 0")

    with pytest.raises(TransactionUnusable, match="roll it back first"):
        await client.add_job(send_bill, 7, connection=db)

    await transaction.rollback()
