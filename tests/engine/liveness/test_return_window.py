"""Servers that were away for longer than a lease: no worker is declared dead before it could return."""

import asyncio
from collections.abc import Iterator

import asyncpg
import pytest
from anyio.to_thread import run_sync

from asyncq import Client, JobContext, Task, Worker, task
from asyncq.domain.events import HeartbeatFailed, JobCompleted, JobsRescued, JobStarted, LeaseInDoubt, WorkerLost
from asyncq.server import Server
from asyncq.store.statements import render
from tests.engine.liveness.test_leases import process
from tests.support.faults import link_to
from tests.support.outages import SCHEMA, connected, own_server
from tests.support.seen import Seen
from tests.support.waiting import wait_until

LEASE_S = 2.0
EARLIER_S = 7
"""The test of the window's end sees a server that has returned so much earlier: the window is ten seconds."""
RETURNED_EARLIER = f"""
create or replace function asyncq._locks_since() returns timestamptz language sql volatile
as $$ select pg_catalog.pg_postmaster_start_time() - interval '{EARLIER_S} seconds' $$
"""
BACK_S = f"select extract(epoch from clock_timestamp() - pg_postmaster_start_time())::float8 + {EARLIER_S}"


class Handlers:
    """A task whose handlers end when they may; their runs are counted."""

    def __init__(self) -> None:
        self.leave = asyncio.Event()
        self.runs: list[int] = []

    @property
    def task(self) -> Task[...]:
        """The task, called `hold`."""

        @task(name="hold")
        async def hold(ctx: JobContext) -> None:
            self.runs.append(ctx.job.id)
            await self.leave.wait()

        return hold


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that the test kills."""
    with own_server() as made:
        yield made


async def beats(db: asyncpg.Connection, worker_id: int) -> None:
    """Wait until a worker has beaten twice: it has checked the others meanwhile."""
    query = f"select last_seen from {SCHEMA}._workers where id = $1"
    for _ in range(2):
        before = await db.fetchval(query, worker_id)

        async def has_moved(before: object = before) -> bool:
            return await db.fetchval(query, worker_id) != before

        await wait_until(has_moved, description="a heartbeat")


async def test_jobs_that_ended_during_an_outage_beyond_the_lease_do_not_run_again(server: Server) -> None:
    """The first worker that returns would declare the others dead, moments before they return too."""
    first, second, handlers = Seen(), Seen(), Handlers()
    await Client(server.dsn, schema=SCHEMA).migrate()
    async with Client(server.dsn, schema=SCHEMA) as client, link_to(server.dsn) as link:
        options = {"schema": SCHEMA, "lease": LEASE_S, "concurrency": 1, "poll": 1}
        async with (
            Worker(server.dsn, [handlers.task], observers=[first], **options).start(),
            Worker(link.dsn, [handlers.task], observers=[second], **options).start(),
        ):
            ids = [(await client.add_job("hold")).id for _ in range(2)]
            for seen in (first, second):
                await seen.wait_for(JobStarted)
            await run_sync(server.kill)
            link.refuse("")
            handlers.leave.set()
            # The worker assumes that its lease is over; the result of its handler is not written yet.
            await second.wait_for(LeaseInDoubt)
            await wait_until(lambda: _is_over(second), description="the end of the lease")
            await run_sync(server.restart)
            async with connected(server.dsn) as db:
                await beats(db, 1)
            link.mend()
            for seen in (first, second):
                await seen.wait_for(JobCompleted)

    assert ids == sorted(handlers.runs)
    assert ids == sorted(first.ids(JobCompleted) + second.ids(JobCompleted))
    assert [] == [*first.of(JobsRescued), *first.of(WorkerLost), *second.of(WorkerLost)]


def _is_over(seen: Seen) -> bool:
    return seen.of(HeartbeatFailed)[-1].silent_s > LEASE_S


async def test_a_worker_that_died_with_the_server_is_noticed_when_the_return_window_is_over(server: Server) -> None:
    """Its lease was over long before, so nothing is delayed further."""
    seen = Seen()
    await Client(server.dsn, schema=SCHEMA).migrate()
    async with (
        Client(server.dsn, schema=SCHEMA) as client,
        process(server.dsn, SCHEMA, lease=LEASE_S) as victim,
    ):
        added = await client.add_job("hold", {"how": "for ever"})
        await victim.says(f"started {added.id}")
        victim.process.kill()
        await run_sync(server.kill)
        await run_sync(server.restart)
        async with connected(server.dsn) as db:
            await db.execute(render(RETURNED_EARLIER, SCHEMA))
            begun_s = await db.fetchval(BACK_S)

        @task
        async def hold(how: str) -> None:
            """Run well this time."""

        async with Worker(server.dsn, [hold], schema=SCHEMA, lease=LEASE_S, observers=[seen], poll=1).start():
            await seen.wait_for(JobsRescued)
            async with connected(server.dsn) as db:
                rescued_s = await db.fetchval(BACK_S)
            await seen.wait_for(JobCompleted)

    assert [added.id] == seen.ids(JobCompleted)
    assert 10 <= rescued_s <= max(10, begun_s) + 5
