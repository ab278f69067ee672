"""Named queues run one job at a time through all failures, and in order if nothing fails."""

import asyncio
import signal
import sys
from asyncio.subprocess import Process
from collections import defaultdict
from typing import Any

import anyio
import asyncpg
import pytest

from asyncq import Client, Limit, Snooze, Worker, task
from asyncq.domain.events import FetchFailed, JobCompleted, JobStarted
from asyncq.domain.job import Claim
from asyncq.engine.fetch import fetcher, inbox
from asyncq.store.claim import Fetched
from asyncq.store.failures import calling
from tests.engine.conftest import MakeWorker
from tests.engine.fetch.test_fetcher import fetch_ahead
from tests.engine.test_shutdown import ROOT
from tests.support.queue_ledger import create_ledger, ledger_task
from tests.support.seen import Seen
from tests.support.waiting import wait_until


async def start_process(dsn: str, schema: str) -> Process:
    """A worker in a process of its own."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.queue_ledger", dsn, schema, cwd=ROOT, stderr=asyncio.subprocess.DEVNULL
    )


async def kill_one_that_holds_a_queue(db: asyncpg.Connection, schema: str, processes: list[Process]) -> Process:
    """Kill a process in the middle of a job of a queue; returns it."""
    holds = f"""
        select count(*) from {schema}._all_jobs() as job
        join {schema}._workers as worker on worker.id = job.locked_by
        where job.queue is not null and worker.pid = $1"""
    with anyio.fail_after(50):
        while True:
            for process in processes:
                process.send_signal(signal.SIGSTOP)
                if await db.fetchval(holds, process.pid):
                    process.kill()
                    return process
                process.send_signal(signal.SIGCONT)


async def violations(db: asyncpg.Connection, schema: str) -> int:
    """How often two runs of a queue overlapped."""
    return await db.fetchval(f"select count(*) from {schema}.ledger_violations")


def ignore_queues(monkeypatch: pytest.MonkeyPatch, schema: str) -> None:
    """Break the fetch: it claims due jobs although their queues are busy."""

    async def fetch(line: Any, worker_id: int, token: int, limit: int, *_: Any, **__: Any) -> Fetched:
        async with line._free:
            connection = await line.connection()
            with calling(schema):
                rows = await connection.fetch(f"""
                    update {schema}._jobs set locked_by = {worker_id}, locked_at = now(), lock_token = {token}
                    where id = any(array(
                      select id from {schema}._all_jobs()
                      where locked_by is null and run_at <= now() and attempts < max_attempts
                      order by id limit {limit} for update skip locked))
                    returning id, task_id, queue, lock_token, attempts, max_attempts, interruptions, priority,
                      revision, 0, 0, 0, key, flags::text, payload::text, meta::text,
                      last_error""")
        return Fetched([Claim(*row) for row in rows])

    monkeypatch.setattr(fetcher, "fetch_jobs", fetch)


@pytest.mark.parametrize(("queues", "jobs"), [(4, 200), pytest.param(8, 2000, marks=pytest.mark.slow)])
@pytest.mark.leaves_something
async def test_never_two_jobs_of_a_queue_at_once_in_any_process_through_failures_stops_and_kills(
    dsn: str, client: Client, db: asyncpg.Connection, schema: str, queues: int, jobs: int
) -> None:
    """Queues guard work that must not run twice at once: accounts, files, foreign services. A ledger checks it."""

    async def ended(share: float) -> bool:
        return await db.fetchval(f"select count(*) from {schema}._all_jobs()") <= jobs * (1 - share)

    async def live_workers(count: int) -> bool:
        return count <= await db.fetchval(f"select count(*) from {schema}._workers where last_seen > now() - lease")

    async def works(pid: int) -> bool:
        return await db.fetchval(f"select exists (select from {schema}._workers where pid = $1)", pid)

    await create_ledger(db, schema)
    processes = [await start_process(dsn, schema) for _ in range(3)]
    try:
        await wait_until(lambda: live_workers(3), description="the processes to work", limit_s=50)
        enter = ledger_task(schema, trouble=0)
        await client.add_jobs(
            [enter.job(number % queues).with_options(queue=f"q{number % queues}") for number in range(jobs)]
        )
        await wait_until(lambda: ended(0.2), description="a fifth of the jobs to end", limit_s=50)
        killed = await kill_one_that_holds_a_queue(db, schema, processes)
        await wait_until(lambda: ended(0.5), description="half of the jobs to end", limit_s=50)
        stopped = next(process for process in processes if process is not killed)
        stopped.terminate()
        await stopped.wait()
        processes.append(await start_process(dsn, schema))
        await wait_until(lambda: works(processes[-1].pid), description="the new process to work")
        await wait_until(lambda: ended(1), description="all jobs to end", limit_s=50)
    finally:
        for process in processes:
            if process.returncode is None:
                process.terminate()
        codes = [await process.wait() for process in processes]
    runs = await db.fetchval(f"select count(distinct job_id) from {schema}.ledger")
    locked = await db.fetchval(f"select count(*) from {schema}._partition_counts() where jobs <> 0")

    assert (0, jobs, 0) == (await violations(db, schema), runs, locked)
    assert [-9, 0, 0, 0] == sorted(codes)


async def test_the_ledger_sees_two_jobs_of_a_queue_at_once(
    client: Client, make_worker: MakeWorker, db: asyncpg.Connection, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the index and with a fetch that ignores queues, the ledger of the test above must report overlaps."""
    await create_ledger(db, schema)
    await db.execute(f"drop index {schema}.jobs_one_running_per_queue")
    ignore_queues(monkeypatch, schema)
    enter = ledger_task(schema, trouble=0)
    await client.add_jobs([enter.job(1).with_options(queue="one")] * 20)
    async with make_worker(enter, concurrency=4).start():
        await wait_until(lambda: violations_are_there(db, schema), description="a violation")

    assert 0 < await violations(db, schema)


async def violations_are_there(db: asyncpg.Connection, schema: str) -> bool:
    """Whether the ledger has recorded one."""
    return await violations(db, schema) > 0


async def test_the_index_is_a_second_fence(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even a faulty fetch cannot store two running jobs of one queue: it raises an error."""
    await create_ledger(db, schema)
    enter = ledger_task(schema, trouble=0)
    await client.add_jobs([enter.job(1).with_options(queue="one")] * 20)
    with monkeypatch.context() as patch:
        ignore_queues(patch, schema)
        async with make_worker(enter, concurrency=4).start():
            failed = await seen.wait_for(FetchFailed)

    assert "jobs_one_running_per_queue" in failed.error
    assert 0 == await violations(db, schema)


async def test_a_queue_runs_in_order_when_nothing_fails(client: Client, make_worker: MakeWorker) -> None:
    """First in, first out for each queue, with any number of slots and workers."""
    order: dict[int, list[int]] = defaultdict(list)

    @task
    async def note(queue: int, number: int) -> None:
        await asyncio.sleep(0)
        order[queue].append(number)

    await client.add_jobs(
        [note.job(queue, number).with_options(queue=f"q{queue}") for number in range(15) for queue in range(4)]
    )
    first, second = make_worker(note), make_worker(note, concurrency=2)
    async with first.start(), second.start():
        await wait_until(lambda: sum(map(len, order.values())) == 60, description="all jobs to run")

    assert {queue: list(range(15)) for queue in range(4)} == order


async def test_a_queue_continues_at_once_when_a_job_ends_in_any_way(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The next job of the queue is runnable in that moment: it must not wait for the poll, here a minute."""

    @task(queue="line")
    async def fail() -> None:
        raise OSError

    @task(queue="line")
    async def snooze() -> None:
        raise Snooze(3600)

    @task(queue="line", max_attempts=1)
    async def die() -> None:
        raise OSError

    @task(queue="line")
    async def complete() -> None:
        pass

    async with make_worker(fail, snooze, die, complete).start():
        await client.add_jobs([each.job() for each in (fail, snooze, die, complete, complete)])
        await seen.wait_for(JobCompleted, 2)

    assert 5 == len(seen.of(JobStarted))


@pytest.mark.parametrize("queue", ["line", None], ids=["a queue", "a limit"])
async def test_a_partition_of_a_busy_worker_continues_in_an_idle_one(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    monkeypatch: pytest.MonkeyPatch,
    queue: str | None,
) -> None:
    """A worker that ends its job without a free slot notifies the others. They would otherwise sleep for a minute."""
    first, leave = asyncio.Event(), asyncio.Event()

    @task
    async def block() -> None:
        await leave.wait()

    @task(concurrency=None if queue else Limit(1, by="number"))
    async def wait(number: int = 0) -> None:
        await first.wait()

    await make_worker(wait).run_once()
    monkeypatch.setattr(inbox, "STALE_S", 3600)
    line = [await client.add_job(wait, queue=queue, priority=priority) for priority in (-5, 5)]
    await client.add_job(block, queue="other")
    busy, idle = make_worker(wait, block, concurrency=1), make_worker(wait)
    with monkeypatch.context() as patch:
        fetch_ahead(patch, 10)
        async with busy.start():
            await seen.wait_for(JobStarted)
            async with idle.start():
                await wait_until(lambda: is_idle(idle), description="the other worker to be idle")
                first.set()
                await seen.wait_for(JobCompleted, 2)
                leave.set()

    assert [added.id for added in line] == seen.ids(JobCompleted)[:2]


async def test_a_queue_continues_in_a_worker_of_another_kind(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """A worker that frees a queue may not know the next job's task.

    Workers that know it would otherwise not wake up.
    """
    leave = asyncio.Event()

    @task(queue="line")
    async def wait() -> None:
        await leave.wait()

    @task(queue="line")
    async def other() -> None:
        pass

    async with make_worker(wait).start() as one, make_worker(other).start() as another:
        await client.add_job(wait)
        await seen.wait_for(JobStarted)
        await client.add_job(other)
        await wait_until(lambda: rests_among_others(one) and rests_among_others(another), description="both to rest")
        leave.set()
        await seen.wait_for(JobCompleted, 2)

    assert ["wait", "other"] == [event.task for event in seen.of(JobCompleted)]


def rests_among_others(worker: Worker) -> bool:
    """Whether a worker sleeps, and knows that there are workers of several kinds."""
    if not is_idle(worker):
        return False
    on_call = worker._running.parts.on_call
    return bool(on_call.is_mixed and on_call._is_covered)


def is_idle(worker: Worker) -> bool:
    """Whether a worker has found nothing and waits."""
    return worker._running is not None and worker._running.parts.schedule.is_idle


async def test_other_queues_and_plain_jobs_do_not_wait_behind_a_busy_queue(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """A deep backlog of one slow queue must not fill the window of the fetch."""
    leave = asyncio.Event()

    @task
    async def block() -> None:
        await leave.wait()

    @task
    async def nothing() -> None:
        pass

    await client.add_jobs([block.job().with_options(queue="busy", priority=-5)] * 500)
    await client.add_jobs([nothing.job().with_options(queue=f"q{number}") for number in range(20)])
    await client.add_jobs([nothing.job()] * 20)
    async with make_worker(block, nothing, concurrency=3).start():
        await seen.wait_for(JobCompleted, 40)
        leave.set()

    assert {"nothing"} == {event.task for event in seen.of(JobCompleted)[:40]}
