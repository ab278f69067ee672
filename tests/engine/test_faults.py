"""The link that tests break fails exactly where a test asks for it."""

import asyncio
import time
from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.support.faults import Direction, Link, When, link_to
from tests.support.waiting import wait_until
from tests.support.wire import is_commit

BROKEN = (asyncpg.ConnectionDoesNotExistError, asyncpg.InternalClientError, OSError)


@pytest.fixture
async def link(dsn: str) -> AsyncIterator[Link]:
    """A way to the server that can be broken."""
    async with link_to(dsn) as made:
        yield made


async def connect(link: Link, role: str = "far") -> asyncpg.Connection:
    """A connection through the link."""
    return await asyncpg.connect(link.dsn, server_settings={"application_name": f"test {role}"}, timeout=5)


async def write(link: Link, schema: str, role: str = "far") -> bool:
    """Insert a row in a transaction; whether its COMMIT was answered."""
    connection = await connect(link, role)
    try:
        async with connection.transaction():
            await connection.execute(f"create table {schema}.written ()")
    except BROKEN:
        return False
    finally:
        connection.terminate()
    return True


async def ended(connection: asyncpg.Connection, statement: str) -> bool:
    """Run a statement; whether the connection ended meanwhile."""
    try:
        await connection.execute(statement)
    except (*BROKEN, asyncpg.AdminShutdownError):
        return True
    return False


async def is_written(db: asyncpg.Connection, schema: str) -> bool:
    """Whether the server has committed it."""
    return await db.fetchval("select to_regclass($1) is not null", f"{schema}.written")


@pytest.mark.parametrize(("when", "kept"), [("before", False), ("after", True)])
async def test_a_link_cuts_at_commit(link: Link, db: asyncpg.Connection, schema: str, when: When, kept: bool) -> None:
    """The client cannot distinguish a lost commit from a lost answer."""
    link.cut_at_commit("far", when)
    answered = await write(link, schema)

    assert (False, kept) == (answered, await is_written(db, schema))
    assert ({when: 1}, kept) == (link.cuts, bool(link.lost_commits))


async def test_a_link_cuts_as_soon_as_commit_was_sent(link: Link, schema: str) -> None:
    """The outcome is unknown. The cut counts as one between COMMIT and its answer."""
    link.cut_at_commit("far", "sent")
    answered = await write(link, schema)

    assert (False, {"sent": 1}, 1) == (answered, link.cuts, link.lost_commits)


async def test_a_cut_at_commit_happens_as_often_as_asked_and_for_that_role_only(
    link: Link, db: asyncpg.Connection, schema: str
) -> None:
    """The next try works."""
    link.cut_at_commit("far", "before", times=2)
    near = await write(link, schema, "near")
    await db.execute(f"drop table {schema}.written")
    far = [await write(link, schema) for _ in range(3)]

    assert (True, [False, False, True]) == (near, far)


async def test_a_connection_that_another_session_ends_during_commit_is_counted(
    link: Link, db: asyncpg.Connection, schema: str
) -> None:
    """Kills of the client and of the server fall there too, by chance: the link counts them as it counts its cuts."""
    connection = await connect(link)
    pid = connection.get_server_pid()
    await connection.execute(
        f"""
        create table {schema}.slow ();
        create function {schema}.wait() returns trigger language plpgsql
            as 'begin perform pg_sleep(30); return null; end';
        create constraint trigger wait after insert on {schema}.slow deferrable initially deferred
            for each row execute function {schema}.wait()"""
    )

    async def commits() -> bool:
        return await db.fetchval("select wait_event = 'PgSleep' from pg_stat_activity where pid = $1", pid) is True

    async with asyncio.TaskGroup() as group:
        writing = group.create_task(ended(connection, f"begin; insert into {schema}.slow default values"))
        assert not await writing
        writing = group.create_task(ended(connection, "commit"))
        await wait_until(commits, description="the server to be in the middle of COMMIT")
        await db.execute("select pg_terminate_backend($1)", pid)
    await wait_until(lambda: not link.count("far"), description="the end of the connection")

    assert (True, 1) == (writing.result(), link.lost_commits)


@pytest.mark.parametrize("when", ["before", "sent", "after"])
async def test_a_link_cuts_at_a_statement_that_was_prepared_before(link: Link, when: When) -> None:
    """Only the first execution of a statement sends its text."""
    connection = await connect(link)
    statement = await connection.prepare("select 'needle'")
    await statement.fetchval()
    link.cut_at_statement("far", when, "needle")
    with pytest.raises(BROKEN):
        await statement.fetchval()

    assert {when: 1} == link.cuts


async def test_a_link_delays_both_directions(link: Link) -> None:
    """A server far away has this delay."""
    connection = await connect(link)
    link.delay("far", 0.05)
    began = time.perf_counter()
    await connection.execute("select")
    took_s = time.perf_counter() - began
    await connection.close()

    assert took_s >= 0.1


@pytest.mark.parametrize("direction", ["requests", "answers"])
async def test_held_data_arrives_in_order_once_it_is_delivered(link: Link, direction: Direction) -> None:
    """TCP delivers retransmitted data like this: late, and complete."""
    connection = await connect(link)
    link.hold("far", direction)
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(connection.fetchval("select 1"))
        waited = await asyncio.wait({asked}, timeout=0.1)
        link.deliver("far")
    second = await connection.fetchval("select 2")
    await connection.close()

    assert ({asked}, 1, 2) == (waited[1], asked.result(), second)


async def test_the_end_of_a_held_connection_reaches_the_server_once_it_is_lost(
    link: Link, db: asyncpg.Connection
) -> None:
    """On a half-open connection the server keeps the session and its locks, although the client has ended."""
    connection = await connect(link)
    pid = connection.get_server_pid()

    async def lives() -> bool:
        return await db.fetchval("select true from pg_stat_activity where pid = $1", pid) is True

    link.hold_open("far")
    connection.terminate()
    other = await connect(link)
    answer = await other.fetchval("select 1")
    await other.close()
    lived = await lives()
    link.lose("far")

    async def is_gone() -> bool:
        return not await lives()

    await wait_until(is_gone, description="the end of the session")

    assert (True, 1) == (lived, answer)


async def test_a_cancel_request_is_passed_on(link: Link) -> None:
    """The driver sends it on a connection of its own when a statement takes too long."""
    connection = await connect(link)
    with pytest.raises(TimeoutError):
        await connection.execute("select pg_sleep(60)", timeout=0.05)
    answer = await connection.fetchval("select 1", timeout=5)
    await connection.close()

    assert (1, 1) == (answer, link.cancel_requests)


async def test_a_cancel_request_shares_the_fate_of_the_connection_that_it_is_about(
    link: Link, db: asyncpg.Connection
) -> None:
    """A broken network would lose it too."""
    connection = await connect(link)
    pid = connection.get_server_pid()

    async def sleeps() -> bool:
        return await db.fetchval("select wait_event = 'PgSleep' from pg_stat_activity where pid = $1", pid) is True

    async with asyncio.TaskGroup() as group:
        running = group.create_task(connection.execute("select pg_sleep(60)"))
        await wait_until(sleeps, description="the server to run the statement")
        link.freeze("far")
        running.cancel()
        await wait_until(lambda: bool(link.cancel_requests), description="the request to cancel")
        still_runs = await db.fetchval("select state = 'active' from pg_stat_activity where pid = $1", pid)
        connection.terminate()
    await db.execute("select pg_terminate_backend($1)", pid)

    assert still_runs


@pytest.mark.parametrize(
    ("statement", "ends"),
    [
        ("COMMIT;", True),
        (" commit and no chain", True),
        ("end", True),
        ("commit prepared 'x'", False),
        ("select 'commit'", False),
        ("endless", False),
    ],
)
def test_a_commit_is_known_by_its_first_word(statement: str, ends: bool) -> None:
    """The case does not matter. `commit prepared` ends another transaction."""
    assert ends == is_commit(statement)
