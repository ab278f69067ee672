"""`store.listen`: the connection that receives notifications, and notices when it is broken."""

from asyncq.store.database import Database
from asyncq.store.listen import TO_ALL, cancel_channel, channel, listening
from tests.support.jobs import add, fetch
from tests.support.session import Session
from tests.support.waiting import wait_until

# Cancels, changed items, a call to beat, a slot that was taken: of no interest here.
QUIET = (lambda *said: None, lambda: None, lambda: None, lambda text: None)


async def test_an_add_is_received(database: Database, sql: Session) -> None:
    """Each transaction notifies once."""
    heard: list[str] = []
    async with listening(database, heard.append, *QUIET) as listener:
        await listener.go_on_call(was_mine=False)
        await add(sql)
        await wait_until(lambda: heard, description="the notification")

    assert [""] == heard


async def test_the_channel_is_the_schemas_own(sql: Session) -> None:
    """Sixty-three bytes at most: the longest schema still fits."""
    assert f"{sql.schema}:jobs" == channel(sql.schema)
    assert len(channel("x" * 40)) < 63


async def test_a_connection_that_is_cut_is_noticed_at_once(database: Database, sql: Session) -> None:
    """The listener reconnects, and fetches the jobs that it missed."""
    async with listening(database, lambda text: None, *QUIET) as listener:
        quiet = listener.broken.is_set()
        await listener.probe(0, 1.0)
        await sql.rows(
            "select pg_terminate_backend(pid) from pg_catalog.pg_stat_activity where application_name = $1",
            f"{sql.schema} listen",
        )
        await wait_until(listener.broken.is_set, description="the listener to notice")

    assert not quiet


async def test_a_cancel_of_a_running_job_is_received_with_its_worker(database: Database, sql: Session) -> None:
    """It has its own channel, since it is no reason to fetch."""
    heard: list[tuple[int, int]] = []
    woken: list[str] = []
    job = await add(sql)
    await fetch(sql, worker=3, token=9)
    async with listening(database, woken.append, lambda *said: heard.append(said), *QUIET[1:]):
        for said in ("", "1 2", "1 2 3 4", "one two three", "1 2 9223372036854775808000"):
            await sql.rows("select pg_notify($1, $2)", cancel_channel(sql.schema), said)
        await sql.rows("select from asyncq.cancel_jobs(array[$1::bigint])", job)
        await wait_until(lambda: heard, description="the notification")

    assert ([(3, job)], []) == (heard, woken)


async def test_the_channel_of_cancels_is_the_schemas_own_too(sql: Session) -> None:
    """The same limit."""
    assert f"{sql.schema}:cancel" == cancel_channel(sql.schema)
    assert len(cancel_channel("x" * 40)) < 63


async def test_a_message_to_all_workers_is_no_cancel(database: Database, sql: Session) -> None:
    """They beat at once: a migration wants to be seen."""
    heard: list[tuple[int, int]] = []
    looks: list[int] = []
    async with listening(
        database, QUIET[3], lambda *said: heard.append(said), QUIET[1], lambda: looks.append(1), QUIET[3]
    ):
        await sql.rows("select pg_notify($1, $2)", cancel_channel(sql.schema), TO_ALL)
        await wait_until(lambda: looks, description="the notification")

    assert ([], [1]) == (heard, looks)
