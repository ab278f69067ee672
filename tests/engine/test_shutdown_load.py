"""Stopping in the middle of a load: nothing is lost, nothing runs twice, and it ends in time."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import asyncpg
import pytest

from asyncq import Client, JobContext, Worker, task
from asyncq.domain.events import (
    JobCompleted,
    JobsReturned,
    JobStarted,
    SettleFailed,
    SettlementsAbandoned,
    WorkerStopped,
)
from asyncq.engine import supervisor
from asyncq.engine.liveness import heartbeat, heartbeat_thread
from tests.support.counting_program import create_runs
from tests.support.faults import link_to
from tests.support.seen import Seen
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
JOBS = 1500


@task
async def short() -> None:
    """A job that takes a moment."""
    await asyncio.sleep(0.002)


@asynccontextmanager
async def counting(dsn: str, schema: str, grace: float) -> AsyncIterator[Process]:
    """A worker process that writes down its runs; killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.counting_program", dsn, schema, str(grace), stdout=PIPE, cwd=ROOT
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def wait_for_runs(db: asyncpg.Connection, schema: str, count: int, what: str = "ended") -> None:
    """Wait until so many runs have ended, or begun."""

    async def are_there() -> bool:
        condition = "ended" if what == "ended" else "true"
        return count <= await db.fetchval(f"select count(*) from {schema}.runs where {condition}")

    await wait_until(are_there, description=f"{count} runs to have {what}", limit_s=30)


async def marks(db: asyncpg.Connection, schema: str) -> list[tuple[int, int, bool]]:
    """The distinct counters of the remaining jobs: failed attempts, interruptions, whether they are claimed."""
    rows = await db.fetch(
        f"select distinct attempts, interruptions, locked_by is not null from {schema}._all_jobs() order by 1, 2, 3"
    )
    return [tuple(row) for row in rows]


async def test_at_a_signal_under_load_no_job_is_lost_and_none_runs_twice(
    dsn: str, schema: str, client: Client, db: asyncpg.Connection
) -> None:
    """In a rolling deploy each process stops while the next one works.

    Claims that did not start are returned unchanged.
    """
    await create_runs(db, schema)
    await client.add_jobs([client_job(number) for number in range(JOBS)])
    async with counting(dsn, schema, grace=25) as first, counting(dsn, schema, grace=25) as second:
        await wait_for_runs(db, schema, JOBS // 5)
        first.send_signal(signal.SIGTERM)
        codes = [await first.wait()]
        await wait_for_runs(db, schema, JOBS // 2)
        second.send_signal(signal.SIGTERM)
        codes.append(await second.wait())
    left = await marks(db, schema)
    async with counting(dsn, schema, grace=25) as third:
        await wait_for_runs(db, schema, JOBS)
        third.send_signal(signal.SIGTERM)
        codes.append(await third.wait())
    twice = await db.fetch(f"select number from {schema}.runs group by number having count(*) <> 1")

    assert [0, 0, 0] == codes
    assert [(0, 0, False)] == left
    assert ([], 0) == (twice, await db.fetchval(f"select count(*) from {schema}._all_jobs()"))


def client_job(number: int, how: str = "short") -> object:
    """A job for a worker process; only its name is known here."""

    @task(name="count")
    async def count(number: int, how: str = "short") -> None:
        pass

    return count.job(number=number, how=how)


async def test_long_jobs_are_interrupted_after_the_grace_period_and_start_again_at_once_elsewhere(
    dsn: str, schema: str, client: Client, db: asyncpg.Connection
) -> None:
    """No attempt is counted, but one interruption. The other worker has the free slots."""
    await create_runs(db, schema)
    async with counting(dsn, schema, grace=0.1) as first:
        await client.add_jobs([client_job(number, "long") for number in range(5)])
        await wait_for_runs(db, schema, 5, "begun")
        async with counting(dsn, schema, grace=0.1) as second:
            await wait_until(lambda: is_listening(db, schema, 2), description="the second worker to listen")
            first.send_signal(signal.SIGTERM)
            first_code = await first.wait()
            await wait_for_runs(db, schema, 10, "begun")
            running = await marks(db, schema)
            second.send_signal(signal.SIGTERM)
            second_code = await second.wait()
    left = await marks(db, schema)

    assert (0, 0) == (first_code, second_code)
    assert ([(0, 1, True)], [(0, 2, False)]) == (running, left)


async def is_listening(db: asyncpg.Connection, schema: str, count: int) -> bool:
    """Whether so many workers listen."""
    sql = "select count(*) = $2 from pg_stat_activity where application_name = $1"
    return await db.fetchval(sql, f"{schema} listen", count)


async def test_completions_are_flushed_although_the_database_is_down_during_the_stop(
    dsn: str, schema: str, client: Client, seen: Seen
) -> None:
    """A deploy may meet a failover: results are written when the server is back, before the worker ends."""
    async with (
        link_to(dsn) as link,
        asyncio.TaskGroup() as group,
        Worker(link.dsn, [short], schema=schema, observers=[seen], poll=60).start() as worker,
    ):
        await client.add_jobs([short.job()] * 300)
        await seen.wait_for(JobCompleted, 50)
        link.refuse("settle")
        await seen.wait_for(SettleFailed)
        stopping = group.create_task(worker.stop())
        await seen.wait_for(SettleFailed, 3)
        still = not stopping.done()
        link.mend()
        await stopping
    rest = sum(len(event.job_ids) for event in seen.of(JobsReturned))

    assert still
    assert ([], 0) == (seen.of(SettlementsAbandoned), (await client.admin.counts()).active)
    assert len(seen.of(JobStarted)) == len(seen.of(JobCompleted))
    assert 300 - len(seen.of(JobCompleted)) == (await client.admin.counts()).available >= rest


async def test_a_stop_ends_in_time_although_the_database_does_not_answer(
    dsn: str, schema: str, client: Client, seen: Seen, db: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Supervisors send SIGKILL after half a minute, which would also interrupt the handlers' clean-up."""
    monkeypatch.setattr(supervisor, "FLUSH_S", 0.2)
    for module in (heartbeat, heartbeat_thread):
        monkeypatch.setattr(module, "END_S", 0.5)
    told: set[int] = set()

    @task
    async def wait(ctx: JobContext) -> None:
        if ctx.job.id not in told:
            await ctx.cancelled.wait()
            told.add(ctx.job.id)

    async with link_to(dsn) as link:
        async with Worker(link.dsn, [short, wait], schema=schema, observers=[seen], poll=60, lease=3).start() as worker:
            await client.add_jobs([wait.job()] * 2 + [short.job()] * 300)
            await seen.wait_for(JobCompleted, 50)
            link.freeze("")
            with anyio.fail_after(20):
                await worker.stop()
            stopped = len(seen.of(WorkerStopped))
        link.mend()
    await db.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name ^@ $1", f"{schema} "
    )
    await db.execute(f"update {schema}._workers set last_seen = last_seen - interval '1 hour'")
    await Worker(dsn, [short, wait], schema=schema).run_once()

    assert (1, 2) == (stopped, len(told))
