"""Steps in threads, under a time limit, beside a worker that leaves; and how many transactions they cost."""

from collections import Counter

import anyio
import anyio.from_thread
import asyncpg
import pytest

from asyncq import Client, JobContext, task
from asyncq.domain.events import JobCompleted, JobInterrupted, JobTimedOut, StepDone
from asyncq.store.statements import query
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen

STEPS = 20


async def nothing() -> None:
    """A step that does nothing."""


async def test_a_plain_function_calls_steps_through_its_event_loop(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """A retry gets the result in its thread."""
    called: list[int] = []
    found: list[int] = []

    async def work(number: int) -> int:
        called.append(number)
        return number

    @task(retry=[0])
    def handle(ctx: JobContext) -> None:
        found.append(anyio.from_thread.run(ctx.step, "work", work, 7))
        if ctx.attempt == 1:
            raise ValueError("once")

    await client.add_job(handle)
    async with make_worker(handle).start():
        await seen.wait_for(JobCompleted)

    assert ([7], [7, 7]) == (called, found)


async def test_a_step_that_hangs_is_not_stored(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """The time limit cancels its function, and the next run calls it again; the step before it stays."""
    called: Counter[str] = Counter()

    async def work(name: str) -> None:
        called[name] += 1
        if name == "second" and called[name] == 1:
            await anyio.sleep_forever()

    @task(timeout="1 s", retry=[0])
    async def handle(ctx: JobContext) -> None:
        await ctx.step("first", work, "first")
        await ctx.step("second", work, "second")

    await client.add_job(handle)
    async with make_worker(handle).start():
        await seen.wait_for(JobCompleted)

    assert {"first": 1, "second": 2} == called
    assert (1, ["first", "second"]) == (len(seen.of(JobTimedOut)), [event.name for event in seen.of(StepDone)])


async def test_a_worker_that_leaves_passes_the_steps_on(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """It has no grace: the run is interrupted, and the one of the next worker goes on behind the step."""
    called: list[str] = []

    @task
    async def handle(ctx: JobContext) -> None:
        await ctx.step("work", called.append, "work")
        if ctx.job.interruptions == 0:
            await anyio.sleep_forever()

    await client.add_job(handle)
    async with make_worker(handle, grace=0).start():
        await seen.wait_for(StepDone)
    await make_worker(handle).run_once()

    assert (["work"], 1, 1) == (called, len(seen.of(JobInterrupted)), len(seen.of(JobCompleted)))


@pytest.mark.parametrize("kind", ["step", "tx_step"])
async def test_each_step_is_one_transaction(
    client: Client, make_worker: MakeWorker, db: asyncpg.Connection, kind: str
) -> None:
    """Others of the worker, such as a heartbeat, may come between them."""
    used: list[int] = []

    async def work(*_connections: object) -> None:
        """A step that writes nothing."""

    @task
    async def handle(ctx: JobContext) -> None:
        before = await db.fetchval("select pg_current_xact_id()::text::bigint")
        for number in range(STEPS):
            await getattr(ctx, kind)(f"step {number}", work)
        used.append(await db.fetchval("select pg_current_xact_id()::text::bigint") - before - 1)

    await client.add_job(handle)
    await make_worker(handle).run_once()

    assert STEPS <= used[0] <= 1.5 * STEPS


@pytest.mark.parametrize("steps", [0, STEPS])
async def test_steps_are_read_once_in_a_run_and_only_if_there_are_any(
    client: Client, make_worker: MakeWorker, schema: str, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """A handler without steps asks nothing."""
    asked: Counter[str] = Counter()
    fetch = asyncpg.Connection.fetch

    async def counted(connection: asyncpg.Connection, text: str, *args: object, **options: object) -> object:
        asked[text] += 1
        return await fetch(connection, text, *args, **options)

    @task
    async def handle(ctx: JobContext) -> None:
        for number in range(steps):
            await ctx.step(f"step {number}", nothing)

    await client.add_job(handle)
    monkeypatch.setattr(asyncpg.Connection, "fetch", counted)
    await make_worker(handle).run_once()

    assert (min(steps, 1), steps) == (asked[query("steps", schema)], asked[query("store_step", schema)])
