"""Workers that were declared dead and return: their handlers end, and no claim of the dead id starts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from asyncq import Client, JobContext, Worker, task
from asyncq.domain.events import (
    JobCompleted,
    JobInterrupted,
    JobLost,
    JobsReturned,
    JobStarted,
    ListenConnected,
    ListenLost,
    WorkerLost,
)
from asyncq.engine.fetch import fetcher
from asyncq.engine.liveness.start_gate import StartGate
from asyncq.engine.settle import claim_next
from asyncq.store.statements import query
from tests.engine.conftest import MakeWorker
from tests.engine.liveness.test_leases import Held, held
from tests.support.faults import BOTH, Link, link_to, terminate
from tests.support.seen import Seen
from tests.support.waiting import wait_until

__all__ = ["held"]

AT_A_GLANCE = False


async def declare_dead(db: asyncpg.Connection, schema: str) -> list[int]:
    """Let all leases end, and rescue all jobs that no transaction holds. Returns the rescued jobs."""
    async with db.transaction():
        await db.execute(f"update {schema}._workers set last_seen = last_seen - lease - interval '1 s'")
        return [row["job_id"] for row in await db.fetch(query("rescue_jobs", schema), AT_A_GLANCE, None)]


@pytest.fixture(autouse=True)
async def cleared(db: asyncpg.Connection, schema: str) -> AsyncIterator[None]:
    """At the end the row of the dead worker is removed, as by the next round of any worker."""
    yield
    await db.fetch(query("rescue_jobs", schema), AT_A_GLANCE, None)


@asynccontextmanager
async def holding(dsn: str, schema: str, job_id: int) -> AsyncIterator[None]:
    """Some other transaction holds the row of a job."""
    connection = await asyncpg.connect(dsn, server_settings={"application_name": "test"})
    try:
        async with connection.transaction():
            await connection.execute(f"select from {schema}._jobs where id = $1 for update", job_id)
            yield
    finally:
        await connection.close(timeout=5)


async def silence(link: Link, db: asyncpg.Connection, schema: str) -> None:
    """Nothing arrives any more, and the server ends the connection that holds the worker's lock."""
    link.hold("", *BOTH)
    await terminate(db, schema, "heartbeat")


async def at_rest(db: asyncpg.Connection, schema: str) -> None:
    """Wait until the worker sleeps with an open slot."""
    offered = f"select count(*) = 1 from {schema}._handoff_slots where token is not null"
    await wait_until(lambda: db.fetchval(offered), description="a slot")


@pytest.mark.parametrize("queue", [None, "q"])
async def test_a_worker_that_was_rescued_in_part_cancels_its_handlers_and_registers_again(
    dsn: str, schema: str, client: Client, seen: Seen, held: Held, db: asyncpg.Connection, queue: str | None
) -> None:
    """Its jobs run elsewhere by now. Without the refused beat it would run them to the end too."""
    async with link_to(dsn) as link, Worker(link.dsn, [held.task], schema=schema, observers=[seen], poll=1).start():
        jobs = [(await client.add_job("hold", queue=queue and f"{queue}{number}")).id for number in range(3)]
        await seen.wait_for(JobStarted, 3)
        await silence(link, db, schema)
        async with holding(dsn, schema, jobs[0]):
            rescued = await declare_dead(db, schema)
            link.deliver("")
            lost = await seen.wait_for(WorkerLost)
            await wait_until(lambda: len(held.alone.log) >= 6, description="the handlers to end")
            ends = [line for line in held.alone.log if line.startswith("end")][:3]
            await seen.wait_for(JobLost, 2)
        held.leave.set()
        await seen.wait_for(JobCompleted, 3)

    assert (jobs[1:], 3) == (sorted(rescued), lost.running)
    assert sorted(f"end {job} {lost.worker_id}" for job in jobs) == sorted(ends)
    assert ([], sorted(jobs)) == (held.alone.overlaps, sorted(seen.ids(JobCompleted)))


async def test_a_worker_whose_transaction_has_a_claim_while_it_is_rescued_is_dead(
    dsn: str, schema: str, client: Client, seen: Seen, held: Held, db: asyncpg.Connection
) -> None:
    """A transactional task of its own holds it. That run is cancelled too; its claim remains until it ends."""
    begun = asyncio.Event()

    @task(transactional=True)
    async def own(ctx: JobContext) -> None:
        await ctx.query("select")
        begun.set()
        await held.leave.wait()

    tasks = [held.task, own]
    async with link_to(dsn) as link, Worker(link.dsn, tasks, schema=schema, observers=[seen], poll=1).start():
        kept, taken = (await client.add_job(own)).id, (await client.add_job("hold")).id
        await seen.wait_for(JobStarted, 2)
        await begun.wait()
        await silence(link, db, schema)
        rescued = await declare_dead(db, schema)
        link.deliver("")
        await seen.wait_for(WorkerLost)
        held.leave.set()
        await seen.wait_for(JobCompleted, 2)

    assert [taken] == rescued
    # The next rescue, or the end of the cancelled run: whichever comes first returns the job.
    assert {kept, taken} == {*seen.ids(JobLost), *seen.ids(JobInterrupted)}
    assert taken in seen.ids(JobLost)
    assert {kept, taken} == {*seen.ids(JobCompleted)}


async def test_a_job_that_was_fetched_under_a_dead_id_never_starts(
    dsn: str,
    schema: str,
    client: Client,
    seen: Seen,
    db: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The answer to the fetch arrives before the refused beat; another worker has run the job."""
    monkeypatch.setattr(fetcher, "HALF_GRACE_S", -1.0)
    asked, is_proven = list[bool](), StartGate.is_proven

    async def note(admission: StartGate) -> bool:
        asked.append(True)
        return await is_proven(admission)

    monkeypatch.setattr(StartGate, "is_proven", note)

    @task
    async def never() -> None:
        raise AssertionError

    async with link_to(dsn) as link, Worker(link.dsn, [never], schema=schema, observers=[seen], poll=60).start():
        await seen.wait_for(ListenConnected)
        await at_rest(db, schema)
        link.hold("fetch", BOTH[1])
        added = await client.add_job(never, job_key="k")
        await wait_until(
            lambda: db.fetchval(f"select locked_by is not null from {schema}._jobs"), description="the claim"
        )
        link.hold("heartbeat", *BOTH)
        link.hold("settle", *BOTH)
        async with holding(dsn, schema, added.id):
            assert [] == await declare_dead(db, schema)
        assert [added.id] == await declare_dead(db, schema)
        await db.execute(f"delete from {schema}._jobs")
        link.deliver("fetch")
        await wait_until(lambda: asked or seen.of(JobStarted), description="the answer")
        link.deliver("settle")
        link.deliver("heartbeat")
        await seen.wait_for(WorkerLost)

    assert [] == seen.of(JobStarted)


async def test_late_claims_of_the_next_job_are_returned_before_they_start(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settlements do not wait for a beat. The next fetch claims the jobs again."""
    monkeypatch.setattr(claim_next, "HALF_GRACE_S", -1.0)
    ran: list[int] = []

    @task
    async def note(number: int) -> None:
        ran.append(number)

    added = await client.add_jobs([note.job(number).with_options(queue="q") for number in range(4)])
    async with make_worker(note).start():
        await seen.wait_for(JobCompleted, 4)

    returned = [event for event in seen.of(JobsReturned) if event.reason == "their settlement was answered late"]
    assert ([*range(4)], [job.id for job in added]) == (ran, seen.ids(JobCompleted))
    assert returned


async def test_a_busy_worker_that_is_declared_dead_loses_its_listen_connection_and_listens_again(
    schema: str, client: Client, make_worker: MakeWorker, seen: Seen, held: Held, db: asyncpg.Connection
) -> None:
    """A paused process does not read from it, so that the notification queue of the server would fill."""
    async with make_worker(held.task, poll=1, concurrency=1).start():
        await client.add_job("hold")
        await seen.wait_for(JobStarted)
        await wait_until(lambda: _listens(db, schema), description="the lock of the LISTEN connection")
        await declare_dead(db, schema)
        await seen.wait_for(ListenLost)
        await seen.wait_for(ListenConnected, 2)
        held.leave.set()
        await seen.wait_for(JobCompleted)


async def _listens(db: asyncpg.Connection, schema: str) -> bool:
    return await db.fetchval(f"select bool_and({schema}._is_listening(id)) from {schema}._workers")
