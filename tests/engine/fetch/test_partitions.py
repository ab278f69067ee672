"""Jobs of partitions: a worker fetches them as soon as they may start, without waiting for its poll of a minute."""

import asyncio
from typing import Any

import anyio
import asyncpg
import pytest

from asyncq import Client, JobCompleted, JobStarted, Limit, Rate, WorkerStarted, task
from asyncq.engine.fetch import cursor, fetcher
from asyncq.store.database import ReconnectingConnection
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen
from tests.support.session import session
from tests.support.waiting import wait_until

LIMITS = {"a limit of each key": Limit(2, by="number"), "a total": Limit(2)}


@task
async def plain() -> None:
    """The least job without a limit."""


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """No scan counts as expensive: on a busy machine idle workers would fetch again a second later."""
    monkeypatch.setattr(cursor, "CHEAP_S", 60.0)


@pytest.mark.parametrize("jobs", [5, 150], ids=["rows", "a batch"])
async def test_the_end_of_a_limited_job_without_a_queue_starts_the_next_one(
    client: Client, make_worker: MakeWorker, seen: Seen, jobs: int
) -> None:
    """Its partition has room then, and no notification says so."""

    @task(concurrency=Limit(1, by="number"))
    async def serial(number: int) -> None:
        pass

    await make_worker(serial).run_once()
    await client.add_jobs([serial.job(number) for number in range(jobs)] * 2)
    async with make_worker(serial, concurrency=200, listen=False).start():
        await seen.wait_for(JobCompleted, 2 * jobs)

    assert 2 * jobs == len({*seen.ids(JobCompleted)})


async def test_all_slots_are_filled_from_partitions_that_share_them(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Three partitions share ten slots: a tenth job may start although no partition had a right to it at first."""
    leave = asyncio.Event()

    @task(concurrency=Limit(5, by="number"))
    async def wait(number: int) -> None:
        await leave.wait()

    await make_worker(wait).run_once()
    await client.add_jobs([wait.job(number) for number in (1, 2, 3)] * 10)
    async with make_worker(wait, concurrency=10, listen=False).start():
        await seen.wait_for(JobStarted, 10)
        leave.set()


@pytest.mark.parametrize("busy", [2, 300], ids=["few", "more than a fetch reads"])
async def test_a_free_queue_is_found_behind_the_wakeups_of_busy_ones(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, busy: int
) -> None:
    """A fetch for two slots looks at two partitions first, and both are full."""
    leave = asyncio.Event()

    @task
    async def wait() -> None:
        await leave.wait()

    await client.add_jobs([wait.job().with_options(queue=f"q{number}") for number in range(busy)])
    async with make_worker(wait, concurrency=busy, listen=False).start():
        await seen.wait_for(JobStarted, busy)
        jobs = [wait.job().with_options(queue=f"q{number}") for number in range(busy)]
        await client.add_jobs(jobs, connection=db, autocommit=True)
        await client.add_jobs([plain.job().with_options(queue="free")], connection=db, autocommit=True)
        async with make_worker(wait, plain, concurrency=2, listen=False).start():
            await seen.wait_for(JobCompleted)
            leave.set()


@pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS)
async def test_a_partition_that_another_transaction_holds_is_looked_at_again(
    dsn: str,
    schema: str,
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    monkeypatch: pytest.MonkeyPatch,
    limit: Limit,
) -> None:
    """The other one may be a fetch that has no room for all that may start."""
    fetches = 0
    real = ReconnectingConnection.fetch

    async def fetch(line: ReconnectingConnection, name: str, *args: Any) -> Any:
        nonlocal fetches
        fetches += name == "fetch_jobs"
        return await real(line, name, *args)

    @task(concurrency=limit)
    async def serial(number: int) -> None:
        pass

    await make_worker(serial).run_once()
    await client.add_jobs([serial.job(1)])
    await make_worker(serial).run_once()
    await client.add_jobs([serial.job(1)])
    async with session(dsn, schema) as other, other.connection.transaction():
        await other.rows("select from asyncq._partitions for no key update")
        async with make_worker(serial, listen=False).start():
            monkeypatch.setattr(ReconnectingConnection, "fetch", fetch)
            await wait_until(lambda: fetches >= 3, description="fetches that leave the partition alone")
            assert 1 == len(seen.of(JobStarted))
            await other.execute("commit; begin")
            await seen.wait_for(JobCompleted, 2)


EACH = {"concurrency": Limit(2, by="number")}
BLOCKS: dict[str, tuple[dict[str, Any], str | None]] = {
    "a paused task": (EACH, "select {schema}.pause(task => 'serial')"),
    "a paused limit": (EACH, "select {schema}.pause(limit_name => 'serial')"),
    "a paused queue": ({"queue": "q"}, "select {schema}.pause(queue => 'q')"),
    "a pause of everything": (EACH, "select {schema}.pause()"),
    "a full total": ({"concurrency": 1}, None),
    "a full total of keys": ({"concurrency": Limit(2, by="number", total=1)}, None),
    "a full total of queues": ({"concurrency": 1, "queue": "q"}, None),
    "a full key": ({"concurrency": Limit(1, by="number")}, None),
    "a used rate": ({"rate": Rate(1, per=86400)}, None),
    "a used rate of a key": ({"rate": Rate(1, per=86400, by="number")}, None),
}
"""What keeps a job from running, and the statement of an administrator; None: another job that runs or has started."""


@pytest.mark.parametrize("block", BLOCKS)
async def test_jobs_that_no_fetch_may_take_bring_no_fetch(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
    block: str,
) -> None:
    """An idle worker sends one query in the time of a poll, although their wakeups are due."""
    monkeypatch.setattr(fetcher, "latest_start_s", lambda *_: 60.0)  # A late start is returned, and has used the rate.
    options, order = BLOCKS[block]
    asked: list[str] = []
    real = ReconnectingConnection.fetch

    async def fetch(line: ReconnectingConnection, name: str, *args: Any) -> Any:
        asked.append(name)
        return await real(line, name, *args)

    @task(name="serial", **options)
    async def serial(number: int) -> None:
        await ended.wait()

    ended = anyio.Event()
    await make_worker(serial).run_once()
    async with make_worker(serial).start():
        if order:
            await db.execute(order.format(schema=schema))
        else:
            await client.add_job(serial.job(1))
            await seen.wait_for(JobStarted, 1)
        await client.add_jobs([serial.job(1), serial.job(1)])
        async with make_worker(serial, poll=0.05, listen=False).start():
            await seen.wait_for(WorkerStarted, 2)
            monkeypatch.setattr(ReconnectingConnection, "fetch", fetch)
            await wait_until(lambda: asked.count("next_due") >= 10, description="polls")
            names = asked[-8:]  # It has fetched when it started.
        ended.set()

    assert [] == [name for name in names if name.startswith("fetch")]
