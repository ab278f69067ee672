"""`client.cron` on the caller's connection, with any codecs and isolation level."""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from asyncq import Client, CronItem, CronItemNotFound, InvalidCrontab, StoreError, TransactionUnusable
from tests.support.session import Session

ITEM = CronItem("t", "0 8 * * *", payload={"a": 1.5}, fill=timedelta(hours=1), flags=["f"], tz="Europe/Berlin")


@pytest.fixture
async def client(dsn: str, schema: str) -> AsyncIterator[Client]:
    """An open client."""
    async with Client(dsn, schema=schema) as opened:
        yield opened


@pytest.fixture
async def odd(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """A caller's connection with codecs of its own, in another zone."""
    connection = await asyncpg.connect(dsn)
    for kind in ("json", "jsonb"):
        await connection.set_type_codec(kind, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    await connection.set_type_codec("timestamptz", encoder=str, decoder=str, schema="pg_catalog")
    await connection.execute("set timezone = 'America/St_Johns'; set datestyle = 'German'; set search_path = ''")
    yield connection
    await connection.close(timeout=5)


async def test_each_call_works_on_any_connection(client: Client, odd: asyncpg.Connection) -> None:
    """The answers equal those of the client's own connection."""
    added = await client.cron.add(ITEM, connection=odd, autocommit=True)
    assert added == await client.cron.get_item("t")
    changed = await client.cron.change("t", priority=3, connection=odd, autocommit=True)
    assert changed == await client.cron.get_item("t")
    paused = await client.cron.pause("t", connection=odd, autocommit=True)
    assert paused == await client.cron.get_item("t")
    resumed = await client.cron.resume("t", connection=odd, autocommit=True)
    assert resumed == await client.cron.get_item("t", connection=odd)
    run = await client.cron.run("t", connection=odd, autocommit=True)
    removed = await client.cron.remove("t", connection=odd, autocommit=True)

    assert ("added", resumed) == (run.outcome, removed)
    assert (3, ("f",), timedelta(hours=1), '{"a": 1.5}') == (
        changed.priority,
        changed.flags,
        changed.fill,
        changed.payload,
    )


DOORS: dict[str, Callable[[Client, Any], Awaitable[Any]]] = {
    "get_item": lambda client, item: client.cron.get_item(item),
    "change": lambda client, item: client.cron.change(item, priority=1),
    "pause": lambda client, item: client.cron.pause(item),
    "resume": lambda client, item: client.cron.resume(item),
    "remove": lambda client, item: client.cron.remove(item),
    "run": lambda client, item: client.cron.run(item),
}


@pytest.mark.parametrize("door", DOORS)
async def test_a_text_that_cannot_be_an_identifier_has_no_item(client: Client, door: str) -> None:
    """PostgreSQL cannot even receive some of these; a value that is no text is the caller's mistake."""
    for text in ("\0", "a\0b", "\ud800", "x" * 100_000, ""):
        with pytest.raises(CronItemNotFound):
            await DOORS[door](client, text)
    for wrong in (5, None, b"t"):
        with pytest.raises(InvalidCrontab, match=re.escape(f"identifier must be a str, got {wrong!r}")):
            await DOORS[door](client, wrong)


async def test_a_change_of_an_item_since_the_transaction_began_is_an_error_at_repeatable_read(
    client: Client, db: asyncpg.Connection
) -> None:
    """The caller has to repeat the transaction, as with jobs."""
    await client.cron.add(ITEM)
    transaction = db.transaction(isolation="repeatable_read")
    await transaction.start()
    await db.fetchval("select 1")
    await client.cron.get_item("t", connection=db)
    await client.cron.pause("t")
    with pytest.raises(StoreError) as caught:
        await client.cron.resume("t", connection=db)
    await transaction.rollback()

    assert "40001" == caught.value.sqlstate


async def test_a_transaction_that_takes_no_writes_is_an_error(client: Client, db: asyncpg.Connection) -> None:
    """Reading works in one that is read only."""
    await client.cron.add(ITEM)
    async with db.transaction(readonly=True):
        seen = await client.cron.get_item("t", connection=db)
        with pytest.raises(TransactionUnusable):
            await client.cron.pause("t", connection=db)

    assert "t" == seen.identifier


async def test_the_list_reads_many_items_at_once(client: Client, sql: Session) -> None:
    """One statement reads them in the order of their names."""
    await sql.execute("select asyncq.add_cron_item('i' || n, 't', '@daily') from generate_series(1, 200) as n")

    listed = await client.cron.list_items()

    assert sorted(f"i{number}" for number in range(1, 201)) == [status.identifier for status in listed]
