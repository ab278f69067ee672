"""A job that its client awaits is handed to an idle worker: its result arrives, over all that may come between."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from asyncq import Client, JobCancelledError, JobContext, Worker, task
from asyncq.domain.events import JobCompleted, JobRetried, JobsReturned, JobStarted, WorkerLost
from asyncq.engine.fetch import cursor
from asyncq.store.database import ReconnectingConnection
from tests.engine.conftest import MakeWorker
from tests.engine.liveness.test_rescued_in_part import declare_dead
from tests.support.faults import BOTH, link_to, terminate
from tests.support.handoffs import OPEN_SLOTS
from tests.support.seen import Seen
from tests.support.session import Session, session
from tests.support.waiting import LIMIT_S, wait_until

IN_A_ROW = "select count(*) from asyncq._jobs where locked_by is not null and extras ? 'watchers'"


@task
async def number(n: int) -> int:
    """Return its argument."""
    return n


@task(retry=[0])
async def fail_once(ctx: JobContext) -> tuple[int, int, int]:
    """Fail, and then return what it knows of its job."""
    if ctx.attempt == 1:
        raise ValueError("not yet")
    return ctx.attempt, ctx.job.priority, ctx.job.max_attempts


class Gated:
    """A task that waits in its runs until it may return the number of the run."""

    def __init__(self) -> None:
        self.leave = asyncio.Event()
        self.runs = 0

        @task(name="gated")
        async def gated() -> int:
            self.runs += 1
            mine = self.runs
            await self.leave.wait()
            return mine

        self.task = gated


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """No scan counts as expensive: on a busy machine a worker would open no slot."""
    monkeypatch.setattr(cursor, "CHEAP_S", 60.0)


@pytest.fixture
async def sql(dsn: str, schema: str) -> AsyncIterator[Session]:
    """A session that commits each statement."""
    async with session(dsn, schema) as opened:
        yield opened


@pytest.fixture
async def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements of the workers, by name."""
    names: list[str] = []
    real = ReconnectingConnection.fetch

    async def fetch(line: ReconnectingConnection, name: str, *args: Any) -> Any:
        names.append(name)
        return await real(line, name, *args)

    monkeypatch.setattr(ReconnectingConnection, "fetch", fetch)
    return names


async def slot_is_open(sql: Session, count: int = 1) -> None:
    """Wait until so many slots are open."""
    await wait_until(lambda: sql.value(f"select ({OPEN_SLOTS}) = $1", count), description=f"{count} slots")


async def test_an_awaited_job_starts_without_a_fetch(
    sql: Session, client: Client, make_worker: MakeWorker, sent: list[str]
) -> None:
    """No statement that ends plain jobs touches it."""
    results: list[int] = []
    async with make_worker(number).start(), asyncio.timeout(LIMIT_S):
        for n in range(3):
            await slot_is_open(sql)
            sent.clear()
            results.append(await client.run(number.job(n)))
            assert not {"fetch_jobs", "settle_completed"} & {*sent}

    assert [0, 1, 2] == results
    assert [] == await sql.rows("select from asyncq._jobs")


async def test_a_failed_run_is_retried_with_the_options_of_the_add(
    sql: Session, client: Client, make_worker: MakeWorker, seen: Seen, sent: list[str]
) -> None:
    """The second run is fetched; its result reaches the client."""
    async with make_worker(fail_once).start(), asyncio.timeout(LIMIT_S):
        await slot_is_open(sql)
        sent.clear()
        result = await client.run(fail_once.job().with_options(priority=-7, max_attempts=3))

    assert ((2, -7, 3), 1) == (result, len(seen.of(JobRetried)))


async def test_a_cancelled_run_raises_that(sql: Session, client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """The handler is cancelled, and the client is notified."""
    gated = Gated()
    async with make_worker(gated.task).start(), asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
        await slot_is_open(sql)
        running = group.create_task(_raised(client.run(gated.task.job())))
        started = await seen.wait_for(JobStarted)
        assert 1 == await sql.value(IN_A_ROW)
        await client.admin.cancel_jobs([started.job_id])
        assert isinstance(await running, JobCancelledError)


async def _raised(call: Any) -> Exception:
    try:
        await call
    except Exception as error:  # noqa: BLE001 - the tests compare it
        return error
    raise AssertionError("it returned")


async def test_a_job_whose_notification_is_lost_is_returned_and_its_result_arrives(
    dsn: str, schema: str, sql: Session, client: Client, seen: Seen
) -> None:
    """The LISTEN connection of the worker breaks before it receives the message. No attempt is counted."""
    async with (
        link_to(dsn) as link,
        Worker(link.dsn, [number], schema=schema, observers=[seen], poll=60).start(),
        asyncio.timeout(LIMIT_S),
        asyncio.TaskGroup() as group,
    ):
        await slot_is_open(sql)
        link.hold("listen", "answers")
        running = group.create_task(client.run(number.job(5)))
        await wait_until(lambda: sql.value(f"select ({IN_A_ROW}) = 1"), description="the claim")
        assert not seen.of(JobStarted)
        link.lose("listen")
        assert 5 == await running

    assert (1, 1) == (sum(len(event.job_ids) for event in seen.of(JobsReturned)), len(seen.of(JobStarted)))


@pytest.mark.parametrize("has_started", [False, True])
async def test_the_result_of_a_second_worker_arrives_after_the_first_one_has_died(
    dsn: str, schema: str, sql: Session, client: Client, seen: Seen, db: asyncpg.Connection, *, has_started: bool
) -> None:
    """Its worker hears nothing more, before or after it received the job."""
    gated = Gated()
    async with (
        link_to(dsn) as link,
        Worker(link.dsn, [gated.task], schema=schema, observers=[seen], poll=1).start(),
        asyncio.timeout(LIMIT_S),
        asyncio.TaskGroup() as group,
    ):
        await slot_is_open(sql)
        if not has_started:
            link.hold("listen", "answers")
        running = group.create_task(client.run(gated.task.job()))
        await wait_until(lambda: sql.value(f"select ({IN_A_ROW}) = 1"), description="the claim")
        if has_started:
            await seen.wait_for(JobStarted)
        link.hold("", *BOTH)
        await terminate(db, schema, "heartbeat")
        rescued = await declare_dead(db, schema)
        async with Worker(dsn, [gated.task], schema=schema, poll=1).start():
            await wait_until(lambda: gated.runs == 1 + has_started, description="the second run")
            gated.leave.set()
            assert 1 + has_started == await running
        link.deliver("listen")
        link.deliver("")
        await seen.wait_for(WorkerLost)

    assert 1 == len(rescued)


async def test_a_client_whose_connection_was_cut_meanwhile_asks_for_the_result(
    dsn: str, schema: str, sql: Session, make_worker: MakeWorker, seen: Seen
) -> None:
    """The end is kept for a minute, as that of a fetched job."""
    gated = Gated()
    async with (
        make_worker(gated.task).start(),
        link_to(dsn) as link,
        Client(link.dsn, schema=schema) as client,
        asyncio.timeout(LIMIT_S),
        asyncio.TaskGroup() as group,
    ):
        await slot_is_open(sql)
        running = group.create_task(client.run(gated.task.job()))
        await seen.wait_for(JobStarted)
        assert 1 == await sql.value(IN_A_ROW)
        link.hold("", "answers")
        gated.leave.set()
        await seen.wait_for(JobCompleted)
        link.lose("")
        link.mend()
        assert 1 == await running
