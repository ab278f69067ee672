"""Maintenance: any worker rescues the jobs of dead workers, and reports jobs of unknown tasks."""

import asyncio
from typing import Any

import asyncpg
import pytest

from asyncq import Client, JobState, StoreUnavailable, task
from asyncq.domain.events import (
    JobCompleted,
    JobsRescued,
    JobStarted,
    MaintenanceFailed,
    UnknownTasks,
)
from asyncq.engine.maintenance import pruner, rounds
from asyncq.store.database import ReconnectingConnection
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen


@task
async def nothing() -> None:
    """The least job."""


async def claim_as_a_dead_worker(db: asyncpg.Connection, schema: str, *, seconds_ago: int, lease: int = 1) -> int:
    """Simulate a worker that claimed all waiting jobs and then died; returns its id."""
    worker_id = await db.fetchval(f"""
        insert into {schema}._workers (lease, pid, concurrency, host, tasks, last_seen)
        values (make_interval(secs => {lease}), 1, 100, 'gone', '{{}}',
          clock_timestamp() - make_interval(secs => {seconds_ago})) returning id""")
    await db.execute(f"update {schema}._jobs set locked_by = {worker_id}, locked_at = now(), lock_token = 1")
    await db.execute(f"""
        update {schema}._workers
        set started_claims = array(select id || '/1' from {schema}._jobs where locked_by = {worker_id})
        where id = {worker_id}""")
    await db.execute(f"""
        insert into {schema}._partitions (id, key, running)
        select partition, queue, count(*) from {schema}._jobs where queue is not null group by partition, queue""")
    return worker_id


async def test_the_jobs_of_a_worker_whose_lease_is_over_are_rescued(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """A power cut leaves claims; they cost an attempt, since the job itself may have killed the worker."""
    ids = [(await client.add_job(nothing, queue=queue)).id for queue in (None, "line", None)]
    dead = await claim_as_a_dead_worker(db, schema, seconds_ago=60)
    async with make_worker(nothing).start():
        await seen.wait_for(JobCompleted, 3)

    assert [((dead,), tuple(ids), ())] == [
        (event.worker_ids, event.job_ids, event.discarded_job_ids) for event in seen.of(JobsRescued)
    ]
    assert {2} == {event.attempt for event in seen.of(JobStarted)}


async def test_a_queue_whose_last_end_was_of_a_task_without_workers_goes_on(
    client: Client, make_worker: MakeWorker, db: asyncpg.Connection, schema: str
) -> None:
    """Only a fetch for that task would look. The end did not see the job, and a fetch found its queue full."""
    ran: list[str] = []

    @task
    async def theirs() -> None:
        ran.append("theirs")

    @task
    async def mine() -> None:
        ran.append("mine")

    await client.add_job(theirs, queue="line")
    await make_worker(theirs).run_once()
    await client.add_job(mine, queue="line")
    await db.execute(f"""
        update {schema}._partitions set running = 1;
        delete from {schema}._wakeups;
        insert into {schema}._wakeups (at, partition, task_id, freed, priority)
          select now(), held.id, task.id, 1, 0 from {schema}._partitions as held, {schema}._tasks as task
          where task.identifier = 'theirs'""")
    await make_worker(mine).run_once()

    assert ["theirs", "mine"] == ran


async def test_the_jobs_of_a_worker_within_its_lease_are_left_alone(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """The worker may only be slow, and running its jobs twice would be worse."""
    added = await client.add_job(nothing)
    await claim_as_a_dead_worker(db, schema, seconds_ago=60, lease=3600)
    await make_worker(nothing).run_once()
    state = (await client.get_job(added.id)).state
    await db.execute(f"update {schema}._jobs set locked_by = null, locked_at = null, lock_token = null")
    await db.execute(f"delete from {schema}._workers")

    assert ([], JobState.ACTIVE) == (seen.of(JobsRescued), state)


async def test_a_worker_dies_while_another_runs_and_its_jobs_are_rescued_within_a_lease(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """There are three rounds in each lease while a worker runs."""
    async with make_worker(nothing, lease=1).start():
        await client.add_job(nothing)
        await seen.wait_for(JobCompleted)
        async with db.transaction():
            added = await client.add_job(nothing, connection=db)
            await claim_as_a_dead_worker(db, schema, seconds_ago=60)
        await seen.wait_for(JobCompleted, 2)

    assert [(added.id,)] == [event.job_ids for event in seen.of(JobsRescued)]


async def test_a_rescue_does_not_wait_for_pruning(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker that has just started may prune for 20 s, while the jobs of a dead worker wait."""
    prunes, ends = asyncio.Event(), asyncio.Event()
    real = pruner.prune

    async def prune(*args: Any) -> dict[str, int]:
        prunes.set()
        await ends.wait()
        return await real(*args)

    monkeypatch.setattr(pruner, "prune", prune)
    async with make_worker(nothing, lease=1).start():
        await prunes.wait()
        async with db.transaction():
            added = await client.add_job(nothing, connection=db)
            await claim_as_a_dead_worker(db, schema, seconds_ago=60)
        await seen.wait_for(JobsRescued)
        ends.set()

    assert [(added.id,)] == [event.job_ids for event in seen.of(JobsRescued)]


async def test_a_job_that_lost_its_last_attempt_with_its_worker_is_discarded(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """A job that kills its worker each time must not be retried for ever."""
    added = await client.add_job(nothing, max_attempts=1)
    await claim_as_a_dead_worker(db, schema, seconds_ago=60)
    await make_worker(nothing).run_once()

    assert [(added.id,)] == [event.discarded_job_ids for event in seen.of(JobsRescued)]
    assert JobState.DISCARDED == (await client.get_job(added.id)).state


async def test_claims_of_a_worker_without_a_row_are_rescued_at_the_start(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """A fetch that was stalled in the server may claim after its worker was removed."""
    added = await client.add_job(nothing)
    await claim_as_a_dead_worker(db, schema, seconds_ago=0)
    await db.execute(f"delete from {schema}._workers")
    await make_worker(nothing).run_once()

    assert [added.id] == seen.ids(JobCompleted)


async def test_two_workers_rescue_each_job_once(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """There is no leader: all workers check, and skip jobs that another one rescues."""
    for _ in range(20):
        await client.add_job(nothing)
    await claim_as_a_dead_worker(db, schema, seconds_ago=60)
    async with make_worker(nothing).start(), make_worker(nothing).start():
        await seen.wait_for(JobCompleted, 20)

    assert 20 == len([job_id for event in seen.of(JobsRescued) for job_id in event.job_ids])
    assert {2} == {event.attempt for event in seen.of(JobStarted)}


async def test_tasks_that_no_worker_knows_are_reported_once(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A typo in a task's name, or a deploy in the wrong order; once is enough."""
    await client.add_job("strange")
    await client.add_job("stranger", queue="line")
    looked = asyncio.Semaphore(0)
    real = rounds.unknown_tasks

    async def count(*args: object) -> list[str]:
        names = await real(*args)  # type: ignore[arg-type]
        looked.release()
        return names

    monkeypatch.setattr(rounds, "unknown_tasks", count)
    async with make_worker(nothing, lease=1).start():
        for _ in range(3):
            await looked.acquire()

    assert [("strange", "stranger")] == [event.names for event in seen.of(UnknownTasks)]


async def test_a_thorough_rescue_delays_no_fetch(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads every waiting job: a second for some millions of them."""
    real, asked = rounds.rescue_jobs, asyncio.Event()

    async def wait_and_rescue(line: ReconnectingConnection, **options: bool) -> object:
        asked.set()
        await (await line.connection()).execute("select pg_advisory_xact_lock(7, 7)")
        return await real(line, **options)

    monkeypatch.setattr(rounds, "rescue_jobs", wait_and_rescue)
    monkeypatch.setattr(rounds, "THOROUGH_EVERY", 1)
    await db.execute("select pg_advisory_lock(7, 7)")
    async with make_worker(nothing).start():
        await asked.wait()
        await client.add_job(nothing)
        await seen.wait_for(JobCompleted)
        await db.execute("select pg_advisory_unlock(7, 7)")


@pytest.mark.parametrize("first", [1, 2])
async def test_one_round_in_so_many_reads_all_jobs_but_not_the_first_one_of_a_worker(
    make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """A restarted fleet would otherwise read a table of millions once for each worker, all at the same time."""
    real, looks = rounds.rescue_jobs, asyncio.Queue[bool]()

    async def note(line: ReconnectingConnection, *, thorough: bool, **options: bool) -> object:
        looks.put_nowait(thorough)
        return await real(line, thorough=thorough, **options)

    monkeypatch.setattr(rounds, "rescue_jobs", note)
    monkeypatch.setattr(rounds, "THOROUGH_EVERY", 3)
    monkeypatch.setattr(rounds.random, "randint", lambda least, most: max(least, min(first, most)))
    async with make_worker(nothing, lease=1).start():
        seen = [await looks.get() for _ in range(5)]

    assert [place % 3 == first for place in range(5)] == seen


async def test_a_round_that_fails_is_reported_and_the_next_one_tries_again(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The database may be away for a while; maintenance must not end with it."""
    real, failures = rounds.rescue_jobs, [StoreUnavailable("away"), StoreUnavailable("late", outcome="unknown")]

    async def fail_twice(*args: object, **options: object) -> object:
        if failures:
            raise failures.pop(0)
        return await real(*args, **options)  # type: ignore[arg-type]

    added = await client.add_job(nothing)
    await claim_as_a_dead_worker(db, schema, seconds_ago=60)
    monkeypatch.setattr(rounds, "rescue_jobs", fail_twice)
    async with make_worker(nothing, lease=1).start():
        await seen.wait_for(JobCompleted)

    assert ["away", "late"] == [event.error for event in seen.of(MaintenanceFailed)]
    assert [added.id] == seen.ids(JobCompleted)
