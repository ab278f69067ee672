"""Random jobs and workers: in the end each job has run, and no lock is held."""

import asyncio
import random
from collections import Counter, defaultdict

import asyncpg
import pytest

from asyncq import Client, ConstantRetry, Discard, JobContext, RetryAfter, Snooze, Worker, task
from asyncq.domain.events import (
    JobCompleted,
    JobDiscarded,
    JobInterrupted,
    JobLost,
    JobRetried,
    JobSnoozed,
    JobStarted,
    SettlementsAbandoned,
)
from tests.engine.conftest import MakeWorker
from tests.support.faults import terminate
from tests.support.seen import Seen
from tests.support.waiting import wait_until

QUEUES = [None, None, "a", "b"]
WAYS = ["complete", "complete", "complete", "fail", "retry", "snooze", "slow", "cancel itself", "discard"]


class Life:
    """Jobs that do what their payload says, for some attempts, and then complete."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.running: Counter[str] = Counter()
        self.most_at_once: Counter[str] = Counter()
        self.task = task(name="live", retry=ConstantRetry(0.01), max_attempts=50)(self._live)

    async def _live(self, ctx: JobContext, ways: list[str]) -> None:
        queue = ctx.job.queue or ""
        self.running[queue] += 1
        self.most_at_once[queue] = max(self.most_at_once[queue], self.running[queue])
        try:
            await self._do(ctx, ways)
        finally:
            self.running[queue] -= 1

    async def _do(self, ctx: JobContext, ways: list[str]) -> None:
        # An interruption is no attempt: the same way again then, until the worker lets it.
        match ways[ctx.attempt - 1] if ctx.attempt <= len(ways) else "complete":
            case "fail":
                raise OSError
            case "retry":
                raise RetryAfter(0.005)
            case "snooze" if self._chance.random() < 0.5:
                raise Snooze(0.005)
            case "slow":
                await asyncio.sleep(self._chance.uniform(0, 0.05))
            case "cancel itself":
                current = asyncio.current_task()
                assert current is not None
                current.cancel()
            case "discard":
                raise Discard("enough")
            case _:
                await asyncio.sleep(0)


class Running:
    """A worker that runs in a task of its own until it is stopped."""

    def __init__(self, worker: Worker, group: asyncio.TaskGroup) -> None:
        self._worker = worker
        self._asked = asyncio.Event()
        self.started = asyncio.Event()
        self._task = group.create_task(self._run())

    async def _run(self) -> None:
        async with self._worker.start():
            self.started.set()
            await self._asked.wait()

    async def stop(self) -> None:
        """Stop it, and wait for its end."""
        self._asked.set()
        await asyncio.wait({self._task})


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 40))])
async def test_each_job_runs_to_its_end_and_nothing_stays_locked_whatever_jobs_and_workers_do(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str, seed: int
) -> None:
    """Two workers come and go, connections end, jobs fail, snooze, hang and are cancelled."""
    chance = random.Random(seed)
    life = Life(chance)
    jobs: dict[int, list[str]] = {}

    def worker() -> Worker:
        return make_worker(
            life.task, concurrency=chance.choice([1, 3, 10]), grace=chance.choice([0, 0.01, 1]), poll=0.5
        )

    async def all_ended() -> bool:
        return not await db.fetchval(f"select count(*) from {schema}._all_jobs() where attempts < max_attempts")

    async with asyncio.TaskGroup() as group:
        workers = [Running(worker(), group) for _ in range(2)]
        for each in workers:
            await each.started.wait()
        for _ in range(40):
            ways = [chance.choice(WAYS) for _ in range(chance.randint(1, 3))]
            spec = life.task.job(ways).with_options(queue=chance.choice(QUEUES), priority=chance.randint(-1, 1))
            jobs[(await client.add_job(spec)).id] = ways
            match chance.randint(0, 11):
                case 0:
                    number = chance.randint(0, 1)
                    await workers[number].stop()
                    workers[number] = Running(worker(), group)
                    await workers[number].started.wait()
                case 1:
                    await terminate(db, schema, chance.choice(["fetch", "settle", "listen", "handlers", "heartbeat"]))
                case 2 | 3 | 4:
                    await asyncio.sleep(chance.uniform(0, 0.02))
                case _:
                    pass
        await wait_until(all_ended, description="all jobs to end", limit_s=50)
        for each in workers:
            await each.stop()

    discarded = {job_id for job_id, ways in jobs.items() if "discard" in ways}
    ends = Counter(seen.ids(JobCompleted)) + Counter(seen.ids(JobDiscarded))
    assert jobs.keys() == ends.keys()
    assert {1} == set(ends.values())
    assert discarded >= set(seen.ids(JobDiscarded))
    assert ([], []) == (seen.of(JobLost), seen.of(SettlementsAbandoned))
    assert {queue: 1 for queue in life.most_at_once if queue} == {q: n for q, n in life.most_at_once.items() if q}
    assert_attempts_add_up(seen)


def assert_attempts_add_up(seen: Seen) -> None:
    """Each attempt's number is one more than the number of failures before it.

    No failure is lost, nothing else counts.
    """
    failures: dict[int, int] = defaultdict(int)
    starts = ends = 0
    for event in seen.events:
        match event:
            case JobStarted():
                starts += 1
            case JobRetried() | JobDiscarded():
                ends += 1
                failures[event.job_id] += 1

                assert failures[event.job_id] == event.attempt
            case JobCompleted() | JobSnoozed() | JobInterrupted():
                ends += 1

                assert failures[event.job_id] + 1 == event.attempt
            case _:
                pass

    assert starts == ends
