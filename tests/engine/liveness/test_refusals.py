"""Beats that the server refuses: an answer proves that the session lives, so handlers go on.

Each handler here outlasts the refusals.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from asyncq import Client, Worker, task
from asyncq.domain.events import HeartbeatFailed, JobCompleted, JobLost, JobStarted, LeaseInDoubt, WorkerLost
from tests.engine.conftest import MakeWorker
from tests.support.faults import terminate
from tests.support.locks import be_up_for_long
from tests.support.roles import three_roles
from tests.support.seen import Seen
from tests.support.waiting import wait_until

REFUSE = """
create function {schema}.refuse() returns trigger language plpgsql as $$
begin
  raise exception 'refused by a test' using errcode = '{code}';
end $$;
create trigger refuse before update on {schema}._workers for each statement execute function {schema}.refuse()
"""
ALLOW = "drop function {schema}.refuse cascade"


class Handler:
    """A task whose handler runs until it may leave.

    Attributes:
        leave: Set when it may.
    """

    def __init__(self) -> None:
        self.leave = asyncio.Event()
        self.task = task(name="outlast")(self._run)

    async def _run(self) -> None:
        await self.leave.wait()


@pytest.fixture
def handler() -> Handler:
    """A handler that runs longer than the rest of the test."""
    return Handler()


@asynccontextmanager
async def refused(db: asyncpg.Connection, schema: str, code: str) -> AsyncGenerator[None]:
    """Let the server refuse all heartbeats with this SQLSTATE."""
    await db.execute(REFUSE.format(schema=schema, code=code))
    try:
        yield
    finally:
        await db.execute(ALLOW.format(schema=schema))


async def outlast(worker: Worker, seen: Seen) -> None:
    """Beat until two heartbeats, a second apart, were refused: later than half of the grace after the first."""
    assert worker._running is not None
    heartbeat = worker._running.parts.heartbeat

    def has_failed_twice() -> bool:
        heartbeat.beat_now()
        return len(seen.of(HeartbeatFailed)) >= 2

    await wait_until(has_failed_twice, description="two refused heartbeats")


async def beat(worker: Worker, db: asyncpg.Connection, schema: str) -> None:
    """Have the worker beat once more: from then on it knows that it holds its lock."""
    assert worker._running is not None
    worker._running.parts.heartbeat.beat_now()
    has_beaten = f"select last_seen > started_at from {schema}._workers"
    await wait_until(lambda: db.fetchval(has_beaten), description="a heartbeat")


def alarms(seen: Seen) -> list[object]:
    """The events that must not occur while the server answers and the lease is not over."""
    return [*seen.of(LeaseInDoubt), *seen.of(WorkerLost), *seen.of(JobLost)]


@pytest.mark.parametrize("code", ["25006", "53100", "53200", "55P03", "57014", "42501", "40001", "P0001", "XX000"])
async def test_a_refused_sign_of_life_is_neither_silence_nor_a_lost_lock(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    handler: Handler,
    db: asyncpg.Connection,
    schema: str,
    code: str,
) -> None:
    """Any refusal arrives in the session that holds the lock, so the lock still counts."""
    await be_up_for_long(db, schema)
    async with make_worker(handler.task).start() as worker, make_worker(handler.task, observers=[]).start():
        await client.add_job("outlast")
        await seen.wait_for(JobStarted)
        async with refused(db, schema, code):
            await outlast(worker, seen)
        handler.leave.set()
        await seen.wait_for(JobCompleted)

    assert ([], 1) == (alarms(seen), len(seen.of(JobStarted)))
    assert {f"[{code}]" in event.error or "read only" in event.error for event in seen.of(HeartbeatFailed)} == {True}


async def test_a_missing_privilege_interrupts_no_handler(
    dsn: str, seen: Seen, handler: Handler, db: asyncpg.Connection
) -> None:
    """An administrator's doing, which is undone before the lease is over; the worker cannot even read its row."""
    async with three_roles(dsn) as roles:
        table = f"{roles.schema}._workers"
        async with (
            Client(dsn, schema=roles.schema) as client,
            Worker(
                roles.dsn_of(roles.worker), [handler.task], schema=roles.schema, observers=[seen], poll=60
            ).start() as worker,
        ):
            await client.add_job("outlast")
            await seen.wait_for(JobStarted)
            await db.execute(f"revoke all on {table} from {roles.worker}")
            await outlast(worker, seen)
            await db.execute(f"grant select, insert, update, delete on {table} to {roles.worker}")
            handler.leave.set()
            await seen.wait_for(JobCompleted)

    assert ([], 1) == (alarms(seen), len(seen.of(JobStarted)))
    assert {"42501"} == {event.error.rpartition("[")[2][:5] for event in seen.of(HeartbeatFailed)}


async def test_a_lock_that_was_taken_again_while_beats_are_refused_counts_again(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    handler: Handler,
    db: asyncpg.Connection,
    schema: str,
) -> None:
    """The connection ended too, but no rescue has run. None can from then on, until the lease is over."""
    async with make_worker(handler.task).start() as worker:
        await client.add_job("outlast")
        await seen.wait_for(JobStarted)
        async with refused(db, schema, "53100"):
            await terminate(db, schema, "heartbeat")
            await outlast(worker, seen)
        handler.leave.set()
        await seen.wait_for(JobCompleted)

    assert ([], 1) == (alarms(seen), len(seen.of(JobStarted)))


async def test_a_lock_that_was_taken_again_after_others_took_over_does_not_count(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    handler: Handler,
    db: asyncpg.Connection,
    schema: str,
) -> None:
    """The server had freed the lock long before the worker noticed it: its jobs run elsewhere."""
    async with make_worker(handler.task).start() as worker:
        await client.add_job("outlast")
        await seen.wait_for(JobStarted)
        await beat(worker, db, schema)
        async with refused(db, schema, "53100"):
            # In one transaction: no beat between the two finds that the row is gone.
            async with db.transaction():
                await db.execute(f"delete from {schema}._workers")
                assert 1 == await terminate(db, schema, "heartbeat")
            doubt = await seen.wait_for(LeaseInDoubt)
        await seen.wait_for(WorkerLost)
        handler.leave.set()

    assert "the connection that holds its lock was lost" == doubt.reason
