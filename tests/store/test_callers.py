"""`store.callers`: a change on a caller's connection belongs to a transaction, unless `autocommit` is given."""

import inspect
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from asyncq import (
    Client,
    ConfigurationError,
    CronItem,
    CronItemNotFound,
    JobContext,
    JobFilter,
    StoreUnavailable,
    TransactionUnusable,
    Worker,
    chain,
    task,
)
from asyncq.admin import Admin
from asyncq.cron import CronAdmin
from tests.support.callers import KINDS
from tests.support.session import session

LATER = datetime(2040, 1, 31, 4, tzinfo=UTC)

Change = Callable[[Client, dict[str, Any]], Awaitable[Any]]

CHANGES: dict[str, Change] = {
    "add_job": lambda client, how: client.add_job("t", **how),
    "add_jobs": lambda client, how: client.add_jobs([nothing.job()], **how),
    "add_workflow": lambda client, how: client.add_workflow(chain(nothing.job()), **how),
    "cancel_jobs": lambda client, how: client.admin.cancel_jobs([1], **how),
    "complete_jobs": lambda client, how: client.admin.complete_jobs([1], **how),
    "discard_jobs": lambda client, how: client.admin.discard_jobs([1], **how),
    "reschedule_jobs": lambda client, how: client.admin.reschedule_jobs([1], priority=1, **how),
    "retry_jobs": lambda client, how: client.admin.retry_jobs([1], **how),
    "remove_job": lambda client, how: client.admin.remove_job("k", **how),
    "force_unlock_workers": lambda client, how: client.admin.force_unlock_workers([1], **how),
    "change_matching": lambda client, how: client.admin.change_matching(JobFilter(key="k"), "cancel", 9, **how),
    "cleanup": lambda client, how: client.admin.cleanup(**how),
    "pause": lambda client, how: client.admin.pause(task="t", **how),
    "resume": lambda client, how: client.admin.resume(task="t", **how),
    "set_limit": lambda client, how: client.admin.set_limit("l", concurrency=2, **how),
    "unset_limit": lambda client, how: client.admin.unset_limit("l", **how),
    "set_partition": lambda client, how: client.admin.set_partition("l", "k", concurrency=2, **how),
    "remove_limit": lambda client, how: client.admin.remove_limit("l", **how),
    "remove_ended_jobs": lambda client, how: client.admin.remove_ended_jobs([1], **how),
    "redact_ended_jobs": lambda client, how: client.admin.redact_ended_jobs([1], **how),
    "cron.add": lambda client, how: client.cron.add(CronItem("t", "* * * * *", identifier="other"), **how),
    "cron.change": lambda client, how: client.cron.change("item", priority=1, **how),
    "cron.pause": lambda client, how: client.cron.pause("item", **how),
    "cron.resume": lambda client, how: client.cron.resume("item", **how),
    "cron.run": lambda client, how: client.cron.run("item", **how),
    "cron.remove": lambda client, how: client.cron.remove("item", **how),
}


@task
async def nothing() -> None:
    """The least job."""


@pytest.fixture
async def stocked(client: Client, dsn: str, schema: str) -> Client:
    """A client of a schema with one stored item, and one limit."""
    await client.cron.add(CronItem("t", "* * * * *", identifier="item"))
    async with session(dsn, schema) as sql:
        await sql.execute("""
            insert into asyncq._limits (id, name, at_once) values (7, 'l', 1);
            select asyncq._store_tasks('{limited}');
            update asyncq._tasks set limit_id = 7, by = '{k}' where identifier = 'limited'""")
    return client


async def counted(client: Client) -> tuple[int, list[bool]]:
    """How many jobs there are, and which items are paused."""
    jobs = [job async for job in client.admin.iter_jobs()]
    return len(jobs), [item.paused_at is not None for item in await client.cron.list_items()]


def test_every_change_that_takes_a_connection_is_here() -> None:
    """A new one has to be tried on each library too: its rows are read by name, and its parameters have a type."""
    found = {
        start + name
        for start, kind in (("", Client), ("", Admin), ("cron.", CronAdmin))
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and "autocommit" in inspect.signature(method).parameters
    }

    assert found == CHANGES.keys()


@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_on_a_connection_in_no_transaction_is_refused(
    stocked: Client, db: asyncpg.Connection, name: str
) -> None:
    """It would be committed at once, although the caller expects a transaction to roll back."""
    before = await counted(stocked)
    with pytest.raises(
        TransactionUnusable, match=r"in no transaction.*first \(async with connection.trans.*autocommit=True"
    ):
        await CHANGES[name](stocked, {"connection": db})

    assert before == await counted(stocked)


@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_in_a_transaction_or_with_autocommit_is_made(
    stocked: Client, db: asyncpg.Connection, name: str
) -> None:
    """The first follows the transaction; the second permits the commit at once."""
    async with db.transaction():
        await CHANGES[name](stocked, {"connection": db})
        with pytest.raises(ConfigurationError, match="in a transaction: its commit decides"):
            await CHANGES[name](stocked, {"connection": db, "autocommit": True})
        await db.execute("rollback; begin")
    await CHANGES[name](stocked, {"connection": db, "autocommit": True})


@pytest.mark.parametrize("kind", ["sqlalchemy session, asyncpg", "sqlalchemy connection, psycopg", "psycopg cursor"])
async def test_all_changes_are_part_of_the_transaction_of_another_library(stocked: Client, dsn: str, kind: str) -> None:
    """They share the statements, so each of these has parameters that all drivers send."""
    job = await stocked.add_job("t", job_key="k")
    before = await counted(stocked)
    async with KINDS[kind](dsn, None) as caller:
        for name, change in CHANGES.items():
            await change(stocked, {"connection": caller.connection})
            with pytest.raises(ConfigurationError, match="in a transaction: its commit decides"):
                await CHANGES[name](stocked, {"connection": caller.connection, "autocommit": True})
        with pytest.raises(CronItemNotFound):
            await stocked.cron.get_item("item", connection=caller.connection)
        during = await counted(stocked)
        await caller.rollback()
        moved = await stocked.admin.reschedule_jobs([job.id], run_at=LATER, priority=-3, connection=caller.connection)
        (failed,) = await stocked.admin.discard_jobs([job.id], "it's %s", connection=caller.connection)
        removed = await stocked.admin.remove_job("k", connection=caller.connection)
        await caller.commit()

    assert before == during
    assert [(LATER, -3)] == [(each.run_at, each.priority) for each in moved]
    assert ("it's %s", job.id) == (failed.last_error, removed and removed.id)
    assert 0 == (await counted(stocked))[0]


@pytest.mark.parametrize("name", CHANGES)
async def test_autocommit_without_a_connection_is_refused(stocked: Client, name: str) -> None:
    """The client's own connections commit each call anyway, so the caller forgot the connection."""
    with pytest.raises(ConfigurationError, match="autocommit=True needs connection="):
        await CHANGES[name](stocked, {"autocommit": True})
    with pytest.raises(ConfigurationError, match="autocommit must be True or False, got 1"):
        await CHANGES[name](stocked, {"autocommit": 1})


async def test_reads_need_no_transaction(stocked: Client, db: asyncpg.Connection) -> None:
    """They change nothing that a rollback could miss."""
    assert "item" == (await stocked.cron.get_item("item", connection=db)).identifier


async def test_a_transaction_that_begins_with_the_first_statement_is_one_from_then_on(client: Client, dsn: str) -> None:
    """The driver of a pooled connection knows it from the server. A pool's proxy works too."""
    async with asyncpg.create_pool(dsn, min_size=0, max_size=1) as pool, pool.acquire() as borrowed:
        with pytest.raises(TransactionUnusable, match="in no transaction"):
            await client.add_job(nothing, connection=borrowed)
        await borrowed.execute("begin; select 1")
        await client.add_job(nothing, connection=borrowed)
        await borrowed.execute("rollback")
        with pytest.raises(TransactionUnusable, match="in no transaction"):
            await client.add_job(nothing, connection=borrowed)
        added = await client.add_job(nothing, connection=borrowed, autocommit=True)

    assert [added.id] == [job.id async for job in client.admin.iter_jobs()]


@pytest.mark.parametrize("autocommit", [False, True])
async def test_a_connection_that_is_closed_is_no_connection_outside_of_a_transaction(
    client: Client, dsn: str, autocommit: bool
) -> None:
    """A closed one, and a proxy that was released: the caller has another fault to correct."""
    connection = await asyncpg.connect(dsn)
    await connection.close(timeout=5)
    async with asyncpg.create_pool(dsn, min_size=0, max_size=1) as pool:
        async with pool.acquire() as borrowed:
            pass
        for gone in (connection, borrowed):
            with pytest.raises(StoreUnavailable, match="is closed"):
                await client.add_job(nothing, connection=gone, autocommit=autocommit)


@pytest.mark.parametrize("kind", ["sqlalchemy session, asyncpg", "psycopg connection"])
async def test_a_handler_adds_in_the_transaction_of_its_own_session(
    client: Client, dsn: str, schema: str, kind: str
) -> None:
    """The worker's connections have no part in it, and the commit is the handler's."""

    async def place(order: int, ctx: JobContext) -> None:
        async with KINDS[kind](dsn, None) as caller:
            await ctx.add_job(nothing, connection=caller.connection, priority=order)
            await ctx.add_jobs([nothing.job()], connection=caller.connection)
            await (caller.commit() if order == 7 else caller.rollback())

    placing = task(place, name="place")
    await client.add_jobs([placing.job(7), placing.job(8)])
    await Worker(dsn, [placing], schema=schema).run_once()

    assert [0, 7] == sorted([job.priority async for job in client.admin.iter_jobs()])


async def test_a_handler_is_refused_too(client: Client, dsn: str, schema: str) -> None:
    """Its connection is in a transaction only if the handler opens one, or the task is transactional."""
    said: list[str] = []

    async def attempt(ctx: JobContext) -> None:
        async with ctx.connection() as db:
            for adding in (ctx.add_job(nothing, connection=db), ctx.add_jobs([nothing.job()], connection=db)):
                try:
                    await adding
                    said.append("added")
                except TransactionUnusable:
                    said.append("refused")

    plain, shared = task(attempt, name="plain"), task(attempt, name="shared", transactional=True)
    await client.add_jobs([plain.job(), shared.job()])
    await Worker(dsn, [plain, shared, nothing], schema=schema, concurrency=1).run_once()

    assert ["refused", "refused", "added", "added"] == said
