"""`store.listen`: the connection that hears of new jobs, and notices its own death."""

from asyncq.store.database import Database
from asyncq.store.listen import channel, listening
from tests.sql.jobs import add
from tests.sql.session import Session
from tests.waiting import wait_until


async def test_an_add_is_heard(database: Database, sql: Session) -> None:
    """Once for each transaction."""
    heard: list[int] = []
    async with listening(database, lambda: heard.append(1), lambda *said: None):
        await add(sql)
        await wait_until(lambda: heard, description="the notification")

    assert [1] == heard


async def test_the_channel_is_the_schemas_own(sql: Session) -> None:
    """Sixty-three bytes at most: the longest schema still fits."""
    assert f"{sql.schema}:jobs" == channel(sql.schema)
    assert len(channel("x" * 40)) < 63


async def test_a_connection_that_is_cut_is_noticed_at_once(database: Database, sql: Session) -> None:
    """Whoever listens connects again, and looks for what it missed."""
    async with listening(database, lambda: None, lambda *said: None) as listener:
        quiet = listener.broken.is_set()
        await listener.probe(1.0)
        await sql.rows(
            "select pg_terminate_backend(pid) from pg_catalog.pg_stat_activity where application_name = $1",
            f"{sql.schema} listen",
        )
        await wait_until(listener.broken.is_set, description="the listener to notice")

    assert not quiet
