"""The pruner removes expired rows in batches, and reports them. No job waits for it."""

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from asyncq import Client, JobState, StoreUnavailable, task
from asyncq.domain.events import JobCompleted, JobsPruned, MaintenanceFailed
from asyncq.engine.maintenance import pruner, rounds
from asyncq.testing import MovableClock, run_due
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen

ENDED = """
insert into {schema}._ended_jobs (id, created_at, ended_at, keep_until, task_id, state)
select i, now(), now(), now() - interval '1 s', 1, 'completed' from generate_series(1, {count}) as i;
select setval('{schema}._jobs_id_seq', {count})
"""
GATES = """
insert into {schema}._key_locks (key, used_at)
select i * 1000000007::bigint, now() - interval '25 hours' from generate_series(-{count} / 2, {count} / 2 - 1) as i
"""


@task
async def nothing() -> None:
    """The least job."""


@task(max_attempts=1)
async def fail() -> None:
    """Is discarded at once."""
    raise OSError


async def test_a_failed_job_is_removed_after_thirty_days(client: Client, dsn: str, schema: str, seen: Seen) -> None:
    """Until then users may read its error, or retry it."""
    added = await client.add_job(fail)
    async with MovableClock(dsn, schema) as clock:
        await run_due(dsn, [fail], schema=schema)
        await clock.move(timedelta(days=29))
        await run_due(dsn, [fail], schema=schema)  # removes the record of its failed attempt
        before = (await client.get_job(added.id)).state
        await clock.move(timedelta(days=2))
        await run_due(dsn, [fail], schema=schema, observers=[seen])

    assert (JobState.DISCARDED, [JobsPruned(discarded=1, ended=0, requests=0, key_locks=0, attempts=0)]) == (
        before,
        seen.of(JobsPruned),
    )


@pytest.mark.parametrize(
    ("retention", "left"), [(None, 1), (timedelta(days=400), 1), (timedelta(days=300), 0), (3600, 0), (0, 0)], ids=str
)
async def test_how_long_failed_jobs_are_kept_is_an_option(
    client: Client, make_worker: MakeWorker, db: asyncpg.Connection, schema: str, retention: Any, left: int
) -> None:
    """None means for ever."""
    await client.add_job(fail)
    await make_worker(fail, discarded_retention=None).run_once()
    await db.execute(f"update {schema}._jobs set updated_at = now() - interval '1 year'")
    await make_worker(fail, discarded_retention=retention).run_once()

    assert left == await db.fetchval(f"select count(*) from {schema}._all_jobs()")


async def test_a_worker_prunes_until_nothing_is_left_and_reports_it_once(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str, monkeypatch: Any
) -> None:
    """The event has the sum of all batches."""
    monkeypatch.setattr(pruner, "BATCH", 10)
    monkeypatch.setattr(pruner.random, "randint", lambda low, high: low)
    await db.execute(ENDED.format(schema=schema, count=95) + ";" + GATES.format(schema=schema, count=40))
    async with make_worker(nothing).start():
        await seen.wait_for(JobsPruned)
        await client.add_job(nothing)
        await seen.wait_for(JobCompleted)

    assert [JobsPruned(discarded=0, ended=95, requests=0, key_locks=40, attempts=0)] == seen.of(JobsPruned)


async def test_a_worker_that_runs_once_prunes_a_batch_anywhere(
    make_worker: MakeWorker, db: asyncpg.Connection, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a deployment of only short workers old rows are removed too, a batch at a time, without delaying jobs."""
    monkeypatch.setattr(pruner, "BATCH", 10)
    await db.execute(ENDED.format(schema=schema, count=25) + ";" + GATES.format(schema=schema, count=40))
    monkeypatch.setattr(pruner.random, "randint", lambda low, high: 5)
    await make_worker(nothing).run_once()
    key_locks = await db.fetchval(f"select array_agg(key order by key) from {schema}._key_locks where key > 0")

    assert 15 == await db.fetchval(f"select count(*) from {schema}._ended_jobs")
    assert [i * 1_000_000_007 for i in range(11, 20)] == key_locks


async def test_pruning_is_not_done_in_every_round(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str, monkeypatch: Any
) -> None:
    """Rounds are as often as leases ask for; pruning is in no hurry."""
    made = asyncio.Semaphore(0)
    calls: list[int] = []
    real, real_prune = rounds.unknown_tasks, pruner.prune

    async def count_round(*args: Any) -> list[str]:
        names = await real(*args)
        made.release()
        return names

    async def count_prune(*args: Any) -> dict[str, int]:
        calls.append(1)
        return await real_prune(*args)

    monkeypatch.setattr(rounds, "unknown_tasks", count_round)
    monkeypatch.setattr(pruner, "prune", count_prune)
    async with make_worker(nothing, lease=1).start():
        for _ in range(4):
            await made.acquire()

    assert [1] == calls


async def test_pruning_that_fails_is_reported_with_its_results_and_ends_nothing(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str, monkeypatch: Any
) -> None:
    """The database may be away for a while."""
    monkeypatch.setattr(pruner, "BATCH", 10)
    await db.execute(ENDED.format(schema=schema, count=25))
    real, answers = pruner.prune, [None, StoreUnavailable("away")]

    async def fail_second(*args: Any) -> dict[str, int]:
        if answers and (error := answers.pop(0)):
            raise error
        return await real(*args)

    monkeypatch.setattr(pruner, "prune", fail_second)
    async with make_worker(nothing).start():
        await seen.wait_for(MaintenanceFailed)
        await client.add_job(nothing)
        await seen.wait_for(JobCompleted)

    assert (["away"], [10]) == (
        [event.error for event in seen.of(MaintenanceFailed)],
        [event.ended for event in seen.of(JobsPruned)],
    )


async def test_two_workers_prune_each_row_once(
    make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str, monkeypatch: Any
) -> None:
    """There is no leader: workers skip rows that others have locked."""
    monkeypatch.setattr(pruner, "BATCH", 10)
    monkeypatch.setattr(pruner.random, "randint", lambda low, high: low)
    await db.execute(ENDED.format(schema=schema, count=200) + ";" + GATES.format(schema=schema, count=200))
    async with make_worker(nothing).start(), make_worker(nothing).start():
        await seen.wait_for(JobsPruned)
    told = seen.of(JobsPruned)

    assert (200, 200) == (sum(event.ended for event in told), sum(event.key_locks for event in told))
