"""The completer and marked jobs: cancelled, asked for again, to be kept; and random lives of all of them."""

import asyncio
import random

import asyncpg
import msgspec
import pytest

from asyncq import Client, ConstantRetry, JobContext, Snooze, Worker, task
from asyncq.domain.events import (
    JobCancelled,
    JobCompleted,
    JobDiscarded,
    JobLost,
    JobRetried,
    JobStarted,
    SettleFailed,
    SettlementsAbandoned,
)
from tests.engine.conftest import MakeWorker
from tests.engine.test_canceller import cancel
from tests.engine.test_properties import Running
from tests.support.faults import link_to, terminate
from tests.support.seen import Seen
from tests.support.waiting import wait_until

AGAIN = "update {0}._jobs set rerun = '{1}' where id = any($1) and locked_by is not null and cancelled_at is null"
KEEP = "update {0}._jobs set keep_until = now() + interval '1 h', keep_states = '{{completed,cancelled,discarded}}'"
ENDED = "select id, state from {0}._ended_jobs order by id"


async def ask_again(db: asyncpg.Connection, schema: str, *ids: int, payload: str = '{"number": 2}') -> None:
    """Ask for running jobs again, as an add under a unique policy does."""
    await db.execute(AGAIN.format(schema, payload), ids)


async def ended(db: asyncpg.Connection, schema: str) -> list[tuple[int, str]]:
    """The ended jobs that are kept."""
    return [tuple(row) for row in await db.fetch(ENDED.format(schema))]


@pytest.mark.parametrize("listen", [True, False])
@pytest.mark.parametrize("queue", [None, "line"])
async def test_a_job_that_was_rerun_runs_again_when_its_run_has_ended(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    listen: bool,
    queue: str | None,
) -> None:
    """It runs at once, with the latest payload, and its first run is reported as usual.

    Its worker needs no notification.
    """
    entered, leave = asyncio.Event(), asyncio.Event()
    numbers: list[int] = []

    @task(queue=queue)
    async def work(number: int) -> None:
        numbers.append(number)
        entered.set()
        await leave.wait()

    added = await client.add_job(work.job(number=1))
    async with make_worker(work, listen=listen).start():
        await entered.wait()
        await ask_again(db, schema, added.id)
        leave.set()
        await seen.wait_for(JobCompleted, 2)

    assert ([1, 2], [added.id] * 2) == (numbers, seen.ids(JobCompleted))
    assert [1, 1] == [event.attempt for event in seen.of(JobStarted)]


async def test_another_worker_takes_a_rerun_job_when_this_one_has_no_room(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """The settling statement notifies it."""
    entered, leave = asyncio.Event(), asyncio.Event()
    runs: list[int] = []

    @task
    async def work() -> None:
        runs.append(1)
        if len(runs) == 1:
            entered.set()
            await leave.wait()

    added = await client.add_job(work)
    async with make_worker(work, grace=3600).start() as first:
        await entered.wait()
        async with make_worker(work).start(), asyncio.TaskGroup() as group:
            await ask_again(db, schema, added.id, payload="{}")
            group.create_task(first.stop())
            leave.set()
            await seen.wait_for(JobCompleted, 2)

    assert [added.id] * 2 == seen.ids(JobCompleted)


async def test_a_discarded_job_that_was_rerun_is_reported_and_runs_again(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """The failure is the first run's; the second has all its attempts."""
    runs: list[int] = []
    failures: list[int] = []

    @task(max_attempts=1, on_discarded=lambda event: failures.append(event.job_id))
    async def fail_first() -> None:
        runs.append(1)
        if len(runs) == 1:
            await ask_again(db, schema, added.id, payload="{}")
            raise OSError

    added = await client.add_job(fail_first)
    await make_worker(fail_first).run_once()

    assert ([added.id], [added.id], [added.id]) == (seen.ids(JobDiscarded), failures, seen.ids(JobCompleted))
    assert [1, 1] == [event.attempt for event in seen.of(JobStarted)]


async def test_a_job_that_is_to_be_kept_completes_as_others_do(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """It may be in one batch with other jobs. If it fails first, it is kept after its last run."""

    @task(retry=[0])
    async def fail_once(ctx: JobContext) -> None:
        if ctx.attempt == 1:
            raise OSError

    kept = await client.add_jobs([fail_once.job(), fail_once.job()])
    await db.execute(KEEP.format(schema))
    plain = await client.add_job(fail_once)
    await make_worker(fail_once).run_once()
    ids = [each.id for each in kept]

    assert [(ids[0], "completed"), (ids[1], "completed")] == await ended(db, schema)
    assert (sorted([*ids, plain.id]), sorted(seen.ids(JobRetried))) == (
        sorted(seen.ids(JobCompleted)),
        sorted([*ids, plain.id]),
    )


async def test_a_cancelled_job_whose_settlement_got_no_answer_is_reported_once_as_cancelled(
    dsn: str, schema: str, client: Client, seen: Seen, db: asyncpg.Connection
) -> None:
    """The row is deleted, and the mark with it. The earlier notification to this worker decides."""
    cancelled, leave = asyncio.Event(), asyncio.Event()

    @task
    async def end_slowly() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            await leave.wait()

    async def is_gone() -> bool:
        return not await db.fetchval(f"select count(*) from {schema}._all_jobs() where id = $1", added.id)

    @task
    async def nothing() -> None:
        pass

    async with (
        link_to(dsn) as link,
        Worker(link.dsn, [end_slowly, nothing], schema=schema, observers=[seen], poll=60).start(),
    ):
        await client.add_job(nothing)
        await seen.wait_for(JobCompleted)
        added = await client.add_job(end_slowly)
        await seen.wait_for(JobStarted, 2)
        await cancel(db, schema, added.id)
        await cancelled.wait()
        link.cut_at_answer_with(b"cancelled")
        leave.set()
        await wait_until(is_gone, description="the settlement to be committed")
        await seen.wait_for(JobCancelled)

    assert ([added.id], [], True) == (seen.ids(JobCancelled), seen.of(JobLost), bool(seen.of(SettleFailed)))


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 40))])
async def test_no_marked_job_is_stuck_whatever_jobs_workers_and_connections_do(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str, seed: int
) -> None:
    """In the end each job has completed or was cancelled. Completed ones ran with the latest payload."""
    chance = random.Random(seed)
    asked: dict[int, int] = {}
    cancelled: set[int] = set()

    @task(name="live", retry=ConstantRetry(0.01), max_attempts=50)
    async def live(asked: int = 0) -> None:
        way = chance.random()
        if way < 0.2:
            raise OSError
        if way < 0.3:
            raise Snooze(0.005)
        await asyncio.sleep(chance.choice([0, 0, 0.01, 0.05]))

    def worker() -> Worker:
        return make_worker(
            live, concurrency=chance.choice([1, 3, 10]), grace=chance.choice([0, 0.01, 1]), poll=0.5, lease=1
        )

    async def mark(job_id: int) -> None:
        if chance.random() < 0.5:
            rows = await db.fetch(f"select id from {schema}.cancel_jobs(array[$1::bigint])", job_id)
            cancelled.update(row["id"] for row in rows)
        else:
            number = len(ids)
            if "UPDATE 1" == await db.execute(AGAIN.format(schema, f'{{"asked": {number}}}'), [job_id]):
                asked[job_id] = number

    async def all_ended() -> bool:
        return not await db.fetchval(f"select count(*) from {schema}._all_jobs()")

    ids: list[int] = []
    async with asyncio.TaskGroup() as group:
        workers = [Running(worker(), group) for _ in range(2)]
        for each in workers:
            await each.started.wait()
        for _ in range(60):
            queue = chance.choice([None, None, "a", "b"])
            ids.append((await client.add_job(live, queue=queue)).id)
            await db.execute(KEEP.format(schema) + f" where id = {ids[-1]}")
            await mark(chance.choice(ids[-5:]))
            match chance.randint(0, 11):
                case 0:
                    number = chance.randint(0, 1)
                    await workers[number].stop()
                    workers[number] = Running(worker(), group)
                    await workers[number].started.wait()
                case 1:
                    await terminate(db, schema, chance.choice(["fetch", "settle", "listen", "heartbeat"]))
                case 2 | 3 | 4:
                    await asyncio.sleep(chance.uniform(0, 0.02))
                case _:
                    pass
        await wait_until(all_ended, description="all jobs to end", limit_s=50)
        for each in workers:
            await each.stop()

    # A job may have ended before the statement that asks to keep it.
    ends = dict(await ended(db, schema))
    # The newest run of a job counts; workers report their runs in any order.
    in_order = sorted(seen.of(JobCompleted), key=lambda event: event.claim.revision)
    ran = {event.job_id: event.claim.payload for event in in_order}
    completed = set(ids) - cancelled
    assert len(ends) >= len(ids) // 2
    assert cancelled & ends.keys() == {job_id for job_id, state in ends.items() if state == "cancelled"}
    assert {job_id: asked.get(job_id, 0) for job_id in completed} == {
        job_id: msgspec.json.decode(ran[job_id]).get("asked", 0) for job_id in completed
    }
    assert (set(), []) == (set(seen.ids(JobCancelled)) - cancelled, seen.of(SettlementsAbandoned))
