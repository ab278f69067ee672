"""Links that go silent: each statement that waits for an answer is given up, and later ones work.

The link is half open: sent data is lost without an error, but new connections work.
"""

import asyncio
from typing import Any

import asyncpg
import pytest

from asyncq import Client, StoreUnavailable, Worker, task
from asyncq.domain.events import JobCompleted, JobStarted, ListenConnected, ListenLost, WorkerLost, WorkerStarted
from asyncq.engine import supervisor
from asyncq.engine.liveness.membership import Membership
from asyncq.engine.maintenance import rounds
from asyncq.store import database, listen
from asyncq.store.database import Database, ReconnectingConnection
from tests.engine.conftest import MakeWorker
from tests.support.faults import link_to, terminate
from tests.support.seen import Seen
from tests.support.waiting import LIMIT_S, wait_until


@task
async def nothing() -> None:
    """The least job."""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the deadlines, which normally allow for a slow server."""
    monkeypatch.setattr(database, "ANSWER_S", 0.3)
    for module in (database, listen):
        monkeypatch.setattr(module, "CONNECT_TIMEOUT_S", 1.0)
    monkeypatch.setattr(database, "LONGEST_ANSWER_S", 1.0)


async def test_a_slow_notification_of_others_does_not_delay_settlements(
    dsn: str, schema: str, client: Client, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both use the connection that settles."""
    first, go, frozen, real = asyncio.Event(), asyncio.Event(), list[bool](), supervisor.store.wake_workers

    @task
    async def wait(until: bool) -> None:
        await (go if until else first).wait()

    options: dict[str, Any] = {"schema": schema, "observers": [seen], "poll": 60, "concurrency": 1}
    async with link_to(dsn) as link, Worker(link.dsn, [wait], **options).start():

        async def wake(line: ReconnectingConnection) -> None:
            if not frozen:
                frozen.append(True)
                link.freeze_open("settle")
            await real(line)

        monkeypatch.setattr(supervisor.store, "wake_workers", wake)
        await client.add_job(wait.job(until=False), queue="a")
        await seen.wait_for(JobStarted)
        await client.add_job(wait.job(until=True))
        first.set()
        await seen.wait_for(JobStarted, 2)
        await wait_until(lambda: frozen, description="a wake-up of others")
        go.set()
        await seen.wait_for(JobCompleted, 2)

    assert frozen


async def test_a_slow_query_for_unknown_tasks_does_not_delay_fetches(
    dsn: str, schema: str, client: Client, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both use the connection that fetches."""
    real, frozen = rounds.unknown_tasks, list[bool]()
    options: dict[str, Any] = {"schema": schema, "observers": [seen], "poll": 1, "lease": 1}
    async with link_to(dsn) as link, Worker(link.dsn, [nothing], **options).start():

        async def ask(line: ReconnectingConnection, ids: Any) -> list[str]:
            if not frozen:
                frozen.append(True)
                link.freeze_open("fetch")
            return await real(line, ids)

        await seen.wait_for(WorkerStarted)
        monkeypatch.setattr(rounds, "unknown_tasks", ask)
        await wait_until(lambda: frozen, description="a round")
        added = await client.add_jobs([nothing.job(), nothing.job(), nothing.job()])
        await seen.wait_for(JobCompleted, 3)

    assert {job.id for job in added} == set(seen.ids(JobCompleted))


async def test_a_worker_that_was_declared_dead_comes_back_over_another_connection(
    dsn: str, schema: str, client: Client, seen: Seen, db: asyncpg.Connection
) -> None:
    """After a partition the connection that asks for the tasks' numbers may be half open."""
    options: dict[str, Any] = {"schema": schema, "observers": [seen], "poll": 60, "lease": 3}
    async with link_to(dsn) as link, Worker(link.dsn, [nothing], **options).start():
        at_rest = f"select count(*) = 1 from {schema}._handoff_slots where token is not null"
        await wait_until(lambda: db.fetchval(at_rest), description="a slot")
        link.freeze_open("fetch")
        await db.execute(f"delete from {schema}._workers")
        await seen.wait_for(WorkerLost)
        added = await client.add_job(nothing)
        await seen.wait_for(JobCompleted)

    assert [added.id] == seen.ids(JobCompleted)


async def test_a_worker_that_is_declared_dead_while_it_asks_for_its_tasks_registers_once_more(
    dsn: str,
    schema: str,
    client: Client,
    seen: Seen,
    make_worker: MakeWorker,
    db: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise it would keep an id without a heartbeat, and never fetch again."""
    monkeypatch.setattr(database, "ANSWER_S", 10.0)
    lost, real = list[int](), Membership.lost

    def note(member: Membership, worker_id: int) -> None:
        lost.append(worker_id)
        real(member, worker_id)

    monkeypatch.setattr(Membership, "lost", note)
    known = f"select count(*) = 1 from {schema}._workers"
    async with make_worker(nothing, lease=1, poll=1).start():
        other = await asyncpg.connect(dsn)
        try:
            async with other.transaction():
                await other.execute(f"lock table {schema}._tasks in access exclusive mode")
                await db.execute(f"delete from {schema}._workers")
                await seen.wait_for(WorkerLost)
                await wait_until(lambda: db.fetchval(known), description="the second id")
                second = await db.fetchval(f"delete from {schema}._workers returning id")
                # Its heart sees that it is gone, while its tasks cannot be asked for.
                await wait_until(lambda: second in lost, description="the loss of the second id")
        finally:
            await other.close()
        newer = f"select count(*) = 1 from {schema}._workers where id > {second}"
        await wait_until(lambda: db.fetchval(newer), description="the third id")
        added = await client.add_job(nothing)
        await seen.wait_for(JobCompleted)

    assert [added.id] == seen.ids(JobCompleted)


@pytest.mark.parametrize("role", ["settle", "fetch"])
async def test_a_new_connection_that_goes_silent_after_the_login_is_given_up(
    dsn: str,
    schema: str,
    client: Client,
    seen: Seen,
    db: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    role: str,
) -> None:
    """The driver's own limit ends with the login."""
    real, made = database._set, list[bool]()
    async with link_to(dsn) as link, Worker(link.dsn, [nothing], schema=schema, observers=[seen], poll=1).start():
        await client.add_job(nothing)
        await seen.wait_for(JobCompleted)

        async def set_later(*args: Any) -> None:
            if not made:
                made.append(True)
                link.freeze_open(role)
            await real(*args)

        monkeypatch.setattr(database, "_set", set_later)
        await terminate(db, schema, role)
        await client.add_jobs([nothing.job(), nothing.job()])
        await seen.wait_for(JobCompleted, 3)

    assert made


@pytest.mark.parametrize("when", ["at the start", "again"])
async def test_a_connection_that_listens_and_goes_silent_after_the_login_is_given_up(
    dsn: str,
    schema: str,
    client: Client,
    seen: Seen,
    db: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    when: str,
) -> None:
    """The worker starts anyway, and listens on another one."""
    real, made = listen.check_session, list[bool]()

    async with link_to(dsn) as link, asyncio.timeout(LIMIT_S):

        async def check(*args: Any) -> None:
            if not made:
                made.append(True)
                link.freeze_open("listen")
            await real(*args)

        if when == "at the start":
            monkeypatch.setattr(listen, "check_session", check)
        async with Worker(link.dsn, [nothing], schema=schema, observers=[seen], poll=60).start():
            if when == "again":
                monkeypatch.setattr(listen, "check_session", check)
                await terminate(db, schema, "listen")
                await seen.wait_for(ListenConnected, 2)
            else:
                await seen.wait_for(ListenConnected)
            await client.add_job(nothing)
            await seen.wait_for(JobCompleted)

    assert made
    assert "no answer in time" in seen.of(ListenLost)[-1].error


async def test_a_statement_without_a_deadline_of_its_caller_ends_by_itself(dsn: str, schema: str) -> None:
    """Other callers wait for the line."""
    async with link_to(dsn) as link:
        line = ReconnectingConnection(Database(link.dsn, schema), "fetch")
        await line.ready()
        link.freeze_open("fetch")
        async with asyncio.timeout(LIMIT_S):
            with pytest.raises(StoreUnavailable) as caught:
                await line.fetch("clock")
        rows = await line.fetch("clock")
        await line.close()

    assert "unknown" == caught.value.outcome
    assert rows


async def test_a_statement_that_was_not_answered_is_waited_for_twice_as_long(dsn: str, schema: str) -> None:
    """A slow server must get a chance to answer. One answer resets the deadline."""
    async with link_to(dsn) as link:
        line = ReconnectingConnection(Database(link.dsn, schema), "fetch", answer_s=0.1)
        await line.ready()
        deadlines_s: list[dict[str, float]] = []
        for _ in range(2):
            link.freeze_open("fetch")
            with pytest.raises(StoreUnavailable):
                await line.fetch("clock")
            await line.ready()
            deadlines_s.append({**line._deadlines_s})
        await line.fetch("clock")
        deadlines_s.append({**line._deadlines_s})
        await line.close()

    assert [{"clock": 0.2}, {"clock": 0.4}, {}] == deadlines_s
