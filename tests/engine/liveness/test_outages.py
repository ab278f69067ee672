"""A worker during outages of the database: it stays, every job runs, and none runs twice.

In each test one handler lasts longer than the outage, and is not interrupted.
"""

import contextlib
import logging
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from pathlib import Path

import anyio
import asyncpg
import pytest

from asyncq import Client, StoreUnavailable, Worker, task
from asyncq.domain.events import (
    FetchFailed,
    HeartbeatFailed,
    JobCompleted,
    JobLost,
    JobsRescued,
    LeaseInDoubt,
    ListenConnected,
    ListenLost,
    PartRecovered,
    SettleFailed,
    WorkerCrashed,
)
from asyncq.engine.fetch import fetcher, listener
from asyncq.engine.liveness import heartbeat, heartbeat_thread
from asyncq.engine.settle import completer, outbox
from asyncq.server import Server
from asyncq.store import database
from tests.support.faults import link_to, terminate_all
from tests.support.outages import SCHEMA, Load, connected, own_server
from tests.support.seen import Seen
from tests.support.waiting import wait_until

JOBS = 600


@task
async def nothing() -> None:
    """The least job."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that these tests may kill; each leaves it running."""
    with own_server({"max_connections": "30"}) as made:
        yield made


@pytest.fixture
async def load(server: Server) -> AsyncIterator[Load]:
    """Jobs on that server; the schema is dropped at the end."""
    made = Load(server.dsn)
    await made.install()
    yield made
    async with connected(server.dsn) as db:
        await db.execute(f"drop schema {SCHEMA} cascade")


def worker_of(load: Load, seen: Seen, dsn: str) -> Worker:
    """A worker that hardly ever polls: events must wake it."""
    return Worker(dsn, [load.task, load.long, nothing], schema=SCHEMA, observers=[seen], poll=60)


async def add_one(dsn: str) -> None:
    """Add a job that does nothing."""
    async with Client(dsn, schema=SCHEMA) as client:
        await client.add_job(nothing)


def once_each(load: Load) -> bool:
    """Whether every job has run, and none twice."""
    return (Counter(range(JOBS)), 1) == (load.runs, load.begun)


def alarms(seen: Seen) -> list[object]:
    """The events that no outage may cause."""
    return [*seen.of(JobLost), *seen.of(JobsRescued), *seen.of(WorkerCrashed), *seen.of(LeaseInDoubt)]


# Connections and servers that end


async def test_all_connections_may_be_terminated_again_and_again_in_mid_load(
    server: Server, load: Load, seen: Seen
) -> None:
    """An administrator, a failover, an idle timeout: no completion is lost, and no job runs again for it."""
    await load.add(range(JOBS))
    async with worker_of(load, seen, server.dsn).start(), connected(server.dsn) as db:
        for part in range(1, 5):
            await load.reached(JOBS * part // 6)
            await terminate_all(db, SCHEMA)
        await load.reached(JOBS)
        await load.written()

    assert once_each(load)
    assert [] == alarms(seen)


@pytest.mark.parametrize("crash", [False, True], ids=["restart", "kill"])
async def test_a_server_that_restarts_in_mid_load_costs_no_job_and_no_second_run(
    server: Server, load: Load, seen: Seen, crash: bool
) -> None:
    """The server was upgraded, or crashed. The worker keeps unwritten results, and continues."""
    await load.add(range(JOBS))
    async with worker_of(load, seen, server.dsn).start():
        await load.reached(JOBS // 3)
        if crash:
            await anyio.to_thread.run_sync(server.kill)
            await seen.wait_for(FetchFailed)
        await anyio.to_thread.run_sync(server.restart)
        await load.reached(JOBS)
        await load.written()

    assert once_each(load)
    assert [] == alarms(seen)


async def test_an_outage_takes_one_line_of_the_log_for_each_part_and_one_at_its_end(
    server: Server, load: Load, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    """There were up to 200 lines once. The last line has the number of failures of each part."""
    caplog.set_level(logging.INFO, "asyncq")
    await load.add(range(JOBS))
    async with worker_of(load, seen, server.dsn).start():
        await load.reached(JOBS // 3)
        caplog.clear()
        await anyio.to_thread.run_sync(server.kill)
        for kind in (FetchFailed, SettleFailed, ListenLost, HeartbeatFailed):
            await seen.wait_for(kind, 4)
        await anyio.to_thread.run_sync(server.restart)
        await seen.wait_for(ListenConnected, 2)
        await load.reached(JOBS)
        await load.written()
        await seen.wait_for(PartRecovered, 3)

    lines = Counter(record.asyncq_event for record in caplog.records)
    ends = {event.part: event.failures for event in seen.of(PartRecovered)}
    assert {1} == {lines[kind.__name__] for kind in (FetchFailed, SettleFailed, ListenLost, HeartbeatFailed)}
    assert lines["PartRecovered"] == len(ends)
    assert (len(seen.of(FetchFailed)), len(seen.of(SettleFailed))) == (
        ends["fetching"],
        ends["writing results of jobs"],
    )
    assert ends["the heartbeat"] >= len(seen.of(HeartbeatFailed))


async def test_after_the_servers_return_a_worker_listens_again_and_need_not_poll(
    server: Server, load: Load, seen: Seen
) -> None:
    """Peers fell back to their poll, here a minute."""
    async with worker_of(load, seen, server.dsn).start():
        await seen.wait_for(ListenConnected)
        await anyio.to_thread.run_sync(server.kill)
        await seen.wait_for(ListenLost, 3)
        await anyio.to_thread.run_sync(server.restart)
        await seen.wait_for(ListenConnected, 2)
        await add_one(server.dsn)
        await seen.wait_for(JobCompleted)

    assert [] == alarms(seen)


def test_no_part_of_a_worker_waits_longer_than_half_a_second_between_its_tries() -> None:
    """Latency must be normal within a second of the server's return, even after a long outage."""
    assert {0.5} == {part.SLOWEST_RETRY_S for part in (fetcher, completer, listener)}


async def test_the_number_of_unwritten_results_is_bounded(
    server: Server, load: Load, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker without a bound would fill its memory, and repeat all those jobs if it died."""
    monkeypatch.setattr(outbox, "FULL", 20)
    await load.add(range(JOBS))
    async with link_to(server.dsn) as link:
        link.refuse("settle")
        async with worker_of(load, seen, link.dsn).start():
            await load.reached(20)
            await seen.wait_for(SettleFailed, 5)
            held = len(load.runs)
            link.mend()
            await load.reached(JOBS)
            await load.written()

    # One batch of at most 20 that is being written, 20 that wait, and one for each of ten loops.
    assert 20 <= held <= 50
    assert once_each(load)


# Servers that do not write


@contextlib.asynccontextmanager
async def read_only(db: asyncpg.Connection) -> AsyncGenerator[None]:
    """Let the server write nothing for as long as the block lasts, from a moment after its beginning on."""
    await db.execute("alter system set default_transaction_read_only = on")
    await db.execute("select pg_reload_conf()")
    try:
        yield
    finally:
        await db.execute("set default_transaction_read_only = off")
        await db.execute("alter system reset default_transaction_read_only")
        await db.execute("select pg_reload_conf()")


async def test_a_worker_outlasts_a_time_in_which_the_server_is_read_only(
    server: Server, load: Load, seen: Seen
) -> None:
    """A full disk is answered so by hosted databases."""
    await load.add(range(JOBS))
    async with connected(server.dsn) as db, worker_of(load, seen, server.dsn).start():
        await load.reached(JOBS // 3)
        async with read_only(db):
            await seen.wait_for(FetchFailed)
            await seen.wait_for(SettleFailed)
            await seen.wait_for(HeartbeatFailed, 2)
        await load.reached(JOBS)
        await load.written()

    assert once_each(load)
    assert [] == alarms(seen)


async def test_a_server_that_is_read_only_when_it_comes_back_interrupts_no_handler(
    server: Server, load: Load, seen: Seen
) -> None:
    """The restart released all locks, and no beat can be written. But no rescue can take over either."""
    await load.add(range(JOBS))
    async with worker_of(load, seen, server.dsn).start():
        await load.reached(JOBS // 3)
        async with connected(server.dsn) as db:
            await db.execute("alter system set default_transaction_read_only = on")
        await anyio.to_thread.run_sync(server.restart)
        await seen.wait_for(HeartbeatFailed, 3)
        async with connected(server.dsn) as db, read_only(db):
            pass
        await load.reached(JOBS)
        await load.written()

    assert once_each(load)
    assert [] == alarms(seen)


async def test_a_heartbeat_that_is_refused_as_read_only_finds_the_server_that_has_taken_over(
    server: Server, load: Load, seen: Seen
) -> None:
    """Its old connection leads to a server that writes nothing for long, a new one to where all is well."""
    await load.add(range(JOBS))
    old = "select count(*) from pg_stat_activity where backend_start < $1 and application_name = $2"
    setting = "alter database postgres {} default_transaction_read_only"
    async with connected(server.dsn) as db, worker_of(load, seen, server.dsn).start():
        await load.reached(JOBS // 3)
        await db.execute(setting.format("set") + " = off")
        try:
            begun = await db.fetchval("select clock_timestamp()")
            async with read_only(db):
                await wait_until(lambda: _is_zero(db, old, begun, f"{SCHEMA} heartbeat"), description="a new heartbeat")
                await load.reached(JOBS)
                await load.written()
        finally:
            await db.execute(setting.format("reset"))

    assert once_each(load)
    assert [] == alarms(seen)


async def _is_zero(db: asyncpg.Connection, query: str, *args: object) -> bool:
    return await db.fetchval(query, *args) == 0


async def is_read_only(dsn: str) -> bool:
    """Whether a new connection can write nothing."""
    async with connected(dsn) as db:
        return await db.fetchval("show transaction_read_only") == "on"


@pytest.mark.parametrize("migrates", [False, True], ids=["registers", "migrates"])
async def test_a_worker_that_starts_while_the_server_is_read_only_raises(
    server: Server, load: Load, seen: Seen, migrates: bool
) -> None:
    """A service that waits for its database at the start waits for this error too.

    No transaction of a caller is affected.
    """
    await load.install()
    worker = Worker(server.dsn, [nothing], schema=SCHEMA, observers=[seen], migrate=migrates)
    async with connected(server.dsn) as db, read_only(db):
        await wait_until(lambda: is_read_only(server.dsn), description="a server that writes nothing")
        with pytest.raises(StoreUnavailable, match="read only") as caught:
            await worker.run_once()

    assert ("not_sent", "25006") == (caught.value.outcome, caught.value.sqlstate)


async def test_a_worker_whose_server_came_back_as_a_standby_continues_when_that_is_promoted(
    server: Server, load: Load, seen: Seen
) -> None:
    """After a failover the server neither accepts writes nor LISTEN for a while."""
    await load.add(range(JOBS))
    async with worker_of(load, seen, server.dsn).start():
        await load.reached(JOBS // 3)
        await anyio.to_thread.run_sync(server.kill)
        standby_signal(server).touch()
        await anyio.to_thread.run_sync(server.restart)
        await wait_until(
            lambda: any(
                "[25006]" in str(event.error) or "read only" in str(event.error) for event in seen.of(FetchFailed)
            ),
            description="a refused fetch",
        )
        async with connected(server.dsn) as db:
            was_standby = await db.fetchval("select pg_is_in_recovery()")
            await seen.wait_for(HeartbeatFailed, len(seen.of(HeartbeatFailed)) + 2)
            await db.execute("select pg_promote()")
        await load.reached(JOBS)
        await load.written()
        await add_one(server.dsn)
        await seen.wait_for(JobCompleted, JOBS + 2)

    assert was_standby
    assert once_each(load)
    assert [] == alarms(seen)


def standby_signal(server: Server) -> Path:
    """The file that makes a server begin as a standby."""
    return next(server.folder.rglob("PG_VERSION")).parent / "standby.signal"


async def test_a_worker_that_finds_no_free_connection_waits_for_one(server: Server, load: Load, seen: Seen) -> None:
    """`too many connections` is an outage like another, but others can take over: a long handler may be interrupted."""
    await load.add(range(JOBS))
    async with worker_of(load, seen, server.dsn).start(), connected(server.dsn) as db:
        await load.reached(JOBS // 3)
        async with contextlib.AsyncExitStack() as stack:
            while not any("too many" in event.error for event in seen.of(ListenLost)):
                try:
                    await stack.enter_async_context(connected(server.dsn))
                except asyncpg.TooManyConnectionsError:
                    await terminate_all(db, SCHEMA)
                    await anyio.sleep(0.01)
        await load.reached(JOBS)
        await load.written()

    assert Counter(range(JOBS)) == load.runs
    assert [] == [*seen.of(JobLost), *seen.of(JobsRescued), *seen.of(WorkerCrashed)]


# Statements that fail


@pytest.mark.parametrize("code", ["40001", "40P01"], ids=["serialization", "deadlock"])
async def test_serialization_failures_and_deadlocks_of_our_own_statements_are_survived(
    server: Server, load: Load, seen: Seen, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """Users' triggers and long transactions on our tables may cause them. The statements are retried."""
    for part in (completer, fetcher):
        monkeypatch.setattr(part, "SLOWEST_RETRY_S", part.FIRST_RETRY_S)
    await load.add(range(JOBS))
    async with connected(server.dsn) as db, worker_of(load, seen, server.dsn).start():
        await load.reached(JOBS // 6)
        await db.execute(
            f"""
            create sequence {SCHEMA}.hits;
            create function {SCHEMA}.fail() returns trigger language plpgsql as $$
            begin
              if nextval('{SCHEMA}.hits') % 10 < 5 then
                raise exception 'injected' using errcode = '{code}';
              end if;
              return null;
            end $$;
            create trigger fail after update or delete on {SCHEMA}._jobs
              for each statement execute function {SCHEMA}.fail()"""
        )
        await load.reached(JOBS)
        await load.written()

    assert 1 <= len(seen.of(SettleFailed))
    assert 1 <= len(seen.of(FetchFailed))
    assert once_each(load)
    assert [] == alarms(seen)


# Half-open connections


async def test_half_open_connections_are_given_up_and_replaced_in_mid_load(
    server: Server, load: Load, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A firewall dropped them silently: neither data nor an error arrives."""
    monkeypatch.setattr(listener, "PROBE_S", 0.2)
    monkeypatch.setattr(listener, "PROBE_DEADLINE_S", 0.2)
    monkeypatch.setattr(database, "ANSWER_S", 0.5)
    for module in (heartbeat, heartbeat_thread):
        monkeypatch.setattr(module, "END_S", 0.5)
    await load.add(range(JOBS))
    async with link_to(server.dsn) as link, worker_of(load, seen, link.dsn).start():
        await load.reached(JOBS // 3)
        link.freeze_open("")
        await load.reached(JOBS)
        await load.written()
        await seen.wait_for(ListenConnected, 2)
        await add_one(server.dsn)
        await seen.wait_for(JobCompleted, JOBS + 2)

    assert once_each(load)
    assert [] == alarms(seen)


# The client


async def add_until_refused(client: Client) -> None:
    """Add jobs; a server reads its settings again a moment after it was asked to."""
    for _ in range(1000):
        await client.add_job(nothing)


async def test_a_client_reports_that_nothing_was_added_while_the_server_is_down(server: Server, load: Load) -> None:
    """It works again as soon as the server does."""
    async with Client(server.dsn, schema=SCHEMA) as client:
        await client.add_job(nothing)
        await anyio.to_thread.run_sync(server.kill)
        outcomes: list[str] = []
        for _ in range(3):
            with pytest.raises(StoreUnavailable) as caught:
                await client.add_job(nothing)
            outcomes.append(caught.value.outcome)
        await anyio.to_thread.run_sync(server.restart)
        await client.add_job(nothing)
        counted = await client.admin.counts()
    assert "not_sent" == outcomes[-1]
    assert 2 == counted.available


async def test_a_client_on_a_read_only_server_reports_that_nothing_was_added(server: Server, load: Load) -> None:
    """The server cannot be used, which is no fault of the caller's transaction."""
    async with Client(server.dsn, schema=SCHEMA) as client, connected(server.dsn) as db, read_only(db):
        with pytest.raises(StoreUnavailable) as caught:
            await add_until_refused(client)

    assert ("not_sent", "25006") == (caught.value.outcome, caught.value.sqlstate)
