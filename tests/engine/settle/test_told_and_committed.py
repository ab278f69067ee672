"""A worker reports only committed ends of its jobs, even if the answers to its writes were lost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from asyncq import Client, Task, Worker, task
from asyncq.domain.events import JobCompleted, JobLost, JobRetried, JobStarted, SettleFailed, WorkerLost
from asyncq.store import database
from tests.support.faults import Link, link_to
from tests.support.outages import connected
from tests.support.seen import Seen
from tests.support.waiting import wait_until

REFUSE_ENDS = """
create function {schema}.refuse() returns trigger language plpgsql as $$
begin
  raise exception 'refused by a test' using errcode = '53100';
end $$;
create trigger refuse before delete on {schema}._jobs for each row execute function {schema}.refuse()
"""


class Handler:
    """A task whose handler waits, and then succeeds or fails."""

    def __init__(self) -> None:
        self.leave = asyncio.Event()
        self.error: Exception | None = None

    @property
    def task(self) -> Task[...]:
        """The task, called `hold`."""

        @task(name="hold")
        async def hold() -> None:
            await self.leave.wait()
            if self.error is not None:
                raise self.error

        return hold


@pytest.fixture
def handler() -> Handler:
    """A handler that ends when the test wants it."""
    return Handler()


@asynccontextmanager
async def behind(link: Link, schema: str, handler: Handler, seen: Seen) -> AsyncIterator[Worker]:
    """A worker whose connections use a link, and whose handler runs."""
    async with Worker(link.dsn, [handler.task], schema=schema, observers=[seen], poll=60).start() as worker:
        await seen.wait_for(JobStarted)
        yield worker


@pytest.mark.parametrize("error", [None, ValueError("no")], ids=["completed", "failed"])
@pytest.mark.parametrize("queue", [None, "line"], ids=["plain", "serial"])
async def test_a_settlement_that_was_never_written_is_lost_with_its_worker(
    dsn: str,
    schema: str,
    client: Client,
    seen: Seen,
    handler: Handler,
    error: Exception | None,
    queue: str | None,
) -> None:
    """Another worker has declared it dead and runs its job; only that one reports the end."""
    other = Seen()
    handler.error = error
    added = await client.add_job("hold", queue=queue)
    async with link_to(dsn) as link, behind(link, schema, handler, seen):
        link.cut_at_statement("settle", "before", "settle", times=1000)
        handler.leave.set()
        await seen.wait_for(SettleFailed, 2)
        link.refuse("fetch")  # It comes back later.
        await client.admin.force_unlock_workers([1])
        await seen.wait_for(WorkerLost)
        handler.error = None
        async with Worker(dsn, [handler.task], schema=schema, observers=[other], poll=60).start():
            await other.wait_for(JobCompleted)
            link.mend()
            await seen.wait_for(JobLost)

    assert ([added.id], [added.id]) == (other.ids(JobCompleted), seen.ids(JobLost))
    assert ([], []) == (seen.of(JobCompleted), seen.of(JobRetried))


async def test_a_settlement_that_the_server_refused_was_not_written(
    dsn: str, schema: str, client: Client, seen: Seen, db: asyncpg.Connection, handler: Handler
) -> None:
    """A refusal is an answer and leaves no doubt, even if the job is removed before the next try."""
    added = await client.add_job("hold")
    async with Worker(dsn, [handler.task], schema=schema, observers=[seen], poll=60).start():
        await seen.wait_for(JobStarted)
        await db.execute(REFUSE_ENDS.format(schema=schema))
        handler.leave.set()
        await seen.wait_for(SettleFailed, 2)
        # Another session removes the job by hand.
        await db.execute(f"drop function {schema}.refuse cascade; delete from {schema}._jobs")
        await seen.wait_for(JobLost)

    assert ([], [added.id]) == (seen.ids(JobCompleted), seen.ids(JobLost))


async def test_a_settlement_that_is_committed_after_it_was_given_up_is_reported_as_done(
    dsn: str,
    schema: str,
    client: Client,
    seen: Seen,
    db: asyncpg.Connection,
    handler: Handler,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first try waits in the server. The next one finds the row locked by the first."""
    monkeypatch.setattr(database, "ANSWER_S", 0.3)
    added = await client.add_job("hold", queue="line")
    await db.execute(f"""
        create function {schema}.wait() returns trigger language plpgsql
          as $$ begin perform pg_advisory_xact_lock_shared(17, 17); return new; end $$;
        create trigger wait before insert on {schema}._wakeups for each row execute function {schema}.wait()""")
    tries = "select count(*) from pg_stat_activity where application_name = $1 and wait_event_type = 'Lock'"
    async with link_to(dsn) as link, behind(link, schema, handler, seen) as worker:

        def is_held_back() -> bool:
            assert worker._running is not None
            return bool(worker._running.parts.outbox._held_back)

        async with connected(dsn) as holder, holder.transaction():
            await holder.execute("select pg_advisory_xact_lock(17, 17)")
            handler.leave.set()
            await wait_until(lambda: db.fetchval(tries, f"{schema} settle"), description="a write that waits")
            # Neither its answer nor a request to cancel it gets through.
            link.hold_open("settle")
            await seen.wait_for(SettleFailed)
            await wait_until(is_held_back, description="a settlement that is put off")
        await seen.wait_for(JobCompleted)

    assert ([added.id], []) == (seen.ids(JobCompleted), seen.ids(JobLost))
