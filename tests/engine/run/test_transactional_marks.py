"""Others change a job while its transaction is open: cancel it, replace it, rerun it, or add its key again.

At every isolation level confirmed changes hold, and no request is lost.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, get_args

import pytest

from asyncq import Client, ConstantRetry, JobContext, Task, task
from asyncq.domain.events import JobCancelled, JobCompleted, JobRetried, JobStarted, TransactionAborted
from asyncq.domain.task import Isolation
from tests.engine.conftest import MakeWorker
from tests.support.effects import Effects
from tests.support.seen import Seen

Change = Callable[[int], Awaitable[object]]

LEVELS = pytest.mark.parametrize("level", get_args(Isolation))


def changed_meanwhile(effects: Effects, level: Isolation, change: Change, **options: Any) -> Task[...]:
    """A task that, in its first run, writes and lets others change its job, before its transaction ends."""
    changed: list[int] = []

    @task(transactional=True, isolation=level, retry=ConstantRetry(0), **options)
    async def write(ctx: JobContext) -> None:
        await ctx.query(effects.insert, ctx.job.id)
        if not changed:
            changed.append(ctx.job.id)
            try:
                await change(ctx.job.id)
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                return  # The handler ends as if it had not been cancelled.

    return write


@LEVELS
async def test_a_job_that_is_cancelled_has_no_effect(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects, level: Isolation
) -> None:
    """The cancellation was confirmed before the commit.

    So the commit must fail, whether the handler noticed it or not.
    """
    write = changed_meanwhile(effects, level, lambda job: client.admin.cancel_jobs([job]))
    added = await client.add_job(write)
    async with make_worker(write).start():
        await seen.wait_for(JobCancelled)

    assert ([], []) == (await effects.kept(), (await client.admin.find_jobs(newest=False)).jobs)
    assert ([added.id], [], []) == (seen.ids(JobCancelled), seen.of(JobCompleted), seen.of(JobRetried))


@LEVELS
async def test_a_job_that_is_replaced_has_no_effect_and_the_new_one_has(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects, level: Isolation
) -> None:
    """A unique policy cancels the job that runs."""
    policy = {"states": ["available", "active"], "on_conflict": "replace"}
    write = changed_meanwhile(effects, level, lambda _: client.add_job(write), unique=policy)
    old = await client.add_job(write)
    async with make_worker(write).start():
        await seen.wait_for(JobCancelled)
        await seen.wait_for(JobCompleted)

    assert [old.id] == seen.ids(JobCancelled)
    assert seen.ids(JobCompleted) == await effects.kept() != [old.id]


@LEVELS
async def test_a_job_that_is_asked_for_again_runs_again(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects, level: Isolation
) -> None:
    """The run that began before is kept where the level lets it; the one that begins after is kept in any case."""
    write = changed_meanwhile(effects, level, lambda _: client.add_job(write, rerun=True), singleton=True)
    added = await client.add_job(write)
    async with make_worker(write).start():
        await seen.wait_for(JobStarted, 2)
        await seen.wait_for(JobCompleted, 2 if level == "read_committed" else 1)

    assert [added.id] * (2 if level == "read_committed" else 1) == await effects.kept()
    assert ([], []) == ((await client.admin.find_jobs(newest=False)).jobs, seen.of(JobRetried))


@LEVELS
async def test_a_job_whose_key_goes_to_a_new_one_is_done_and_so_is_the_new_one(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects, level: Isolation
) -> None:
    """The old job has one attempt left. An old snapshot cannot end it, so it is interrupted and repeated at no cost."""
    write = changed_meanwhile(effects, level, lambda _: client.add_job(write, job_key="k"))
    old = await client.add_job(write, job_key="k")
    async with make_worker(write, concurrency=1).start():
        await seen.wait_for(JobCompleted, 2)

    assert [old.id, old.id + 1] == await effects.kept()
    assert ([] if level == "read_committed" else [old.id]) == seen.ids(TransactionAborted)


@LEVELS
async def test_a_handler_that_adds_its_own_key_beside_others_does_not_deadlock(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects, level: Isolation
) -> None:
    """Each of its runs adds its successor, while others add the same key as fast as they can.

    The handler holds its row while it waits for the key lock; adds that hold the key lock wait for the row.
    """
    outside: list[int] = []

    @task(transactional=True, isolation=level, retry=ConstantRetry(0))
    async def write(ctx: JobContext, turn: int) -> None:
        await ctx.query(effects.insert, ctx.job.id)
        await asyncio.sleep(0.001)
        if turn < 20:
            await ctx.add_job(write.job(turn=turn + 1).with_options(job_key="k"))

    async def add_outside() -> None:
        for _ in range(40):
            outside.append((await client.add_job(write.job(turn=99), job_key="k")).id)
            await asyncio.sleep(0.002)

    async with make_worker(write, concurrency=4, pool_size=4).start():
        await client.add_job(write.job(turn=0), job_key="k")
        async with asyncio.TaskGroup() as group:
            group.create_task(add_outside())
            group.create_task(add_outside())
        while (await client.admin.find_jobs(newest=False)).jobs:
            await asyncio.sleep(0.01)
    errors = [event.error for event in [*seen.of(TransactionAborted), *seen.of(JobRetried)]]

    assert 80 == len(outside)
    assert [] == [error for error in errors if "deadlock" in error]
    assert [] == [error for error in errors if "serialize" not in error]
    assert sorted(seen.ids(JobCompleted)) == await effects.kept()
