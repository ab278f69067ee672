"""`ctx.progress`: others read it while the job runs; it costs one statement a second, and nothing without a report."""

import threading
from collections.abc import Sequence
from typing import Any

import anyio
import anyio.lowlevel
import asyncpg
import pytest

from asyncq import Client, JobContext, JobFilter, task
from asyncq.domain.events import JobCompleted, MaintenanceFailed, PartRecovered, TasksLeftBehind
from asyncq.domain.job import Claim
from asyncq.domain.progress import Progress, Report
from asyncq.engine.run import progress
from asyncq.store import claim
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen
from tests.support.waiting import LIMIT_S, wait_until


class Writes:
    """The written statements, each as job -> how much of it is done, None for a deleted row."""

    def __init__(self) -> None:
        self.statements: list[dict[int, float | None]] = []

    async def __call__(self, line: Any, reports: Sequence[tuple[Claim, int, Report | None]]) -> None:
        await write_progress(line, reports)
        self.statements.append({claim.id: report and report.done for claim, _, report in reports})

    async def wait_for(self, job_id: int, done: float | None) -> None:
        """Wait until this report of a job is written; None: until its row is deleted."""

        def is_written() -> bool:
            return any(job_id in each and each[job_id] == done for each in self.statements)

        await wait_until(is_written, description=f"{done} of job {job_id} to be written: {self.statements}")


write_progress = progress.write_progress


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Writes:
    """What workers write; they write each report at once."""
    made = Writes()
    monkeypatch.setattr(progress, "write_progress", made)
    monkeypatch.setattr(progress, "EVERY_S", 0.001)
    return made


async def stored(db: asyncpg.Connection, schema: str) -> int:
    """The number of rows."""
    return await db.fetchval(f"select count(*) from {schema}._progress")


async def read(client: Client, job_id: int) -> Progress | None:
    """The progress of a job, as others read it."""
    return (await client.get_job(job_id)).progress


async def test_others_read_the_progress_of_a_running_job(
    make_worker: MakeWorker, client: Client, writes: Writes, db: asyncpg.Connection, schema: str
) -> None:
    """From Python and SQL, and each new report; when the job has ended, no row stays, while the worker goes on."""
    more, end = anyio.Event(), anyio.Event()

    @task
    async def copy(ctx: JobContext) -> None:
        ctx.progress(1, 4, "first")
        await more.wait()
        ctx.progress(2.5)
        await end.wait()

    job = (await client.add_job(copy)).id
    async with make_worker(copy).start():
        await writes.wait_for(job, 1)
        first, listed = (
            await read(client, job),
            (await client.admin.find_jobs(JobFilter(state="active"), newest=False)).jobs,
        )
        more.set()
        await writes.wait_for(job, 2.5)
        [row] = await db.fetch(f"select job_id, done, total, note from {schema}.progress")
        end.set()
        await writes.wait_for(job, None)

        assert 0 == await stored(db, schema)
    assert first is not None
    assert (1, 4, "first", [first]) == (first.done, first.total, first.note, [each.progress for each in listed])
    assert (job, 2.5, None, None) == tuple(row)


async def test_a_report_in_between_waits_for_the_next_write(
    make_worker: MakeWorker, client: Client, writes: Writes, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    """The first report of a worker is written at once. A second later the last one is, if the job still runs."""
    monkeypatch.setattr(progress, "EVERY_S", 3600)

    @task
    async def count(ctx: JobContext) -> None:
        job = ctx.job.id
        ctx.progress(1)
        await writes.wait_for(job, 1)
        for number in range(2, 100):
            ctx.progress(number)
            await anyio.lowlevel.checkpoint()

    job = (await client.add_job(count)).id
    async with make_worker(count).start():
        await seen.wait_for(JobCompleted)

    assert [{job: 1}, {job: None}] == writes.statements
    assert [] == seen.of(TasksLeftBehind)


async def test_a_worker_writes_all_that_changed_in_one_statement(
    make_worker: MakeWorker, client: Client, writes: Writes
) -> None:
    """A job whose report has not changed is not written again."""
    go, end = anyio.Event(), anyio.Event()
    jobs: list[int] = []

    @task
    async def count(ctx: JobContext, reports: int) -> None:
        jobs.append(ctx.job.id)
        await go.wait()
        for number in range(reports):
            ctx.progress(number)
            await writes.wait_for(ctx.job.id, number)
        await end.wait()

    once = (await client.add_job(count, 1)).id
    thrice = (await client.add_job(count, 3)).id
    async with make_worker(count, concurrency=2).start():
        await wait_until(lambda: len(jobs) == 2, description="both to run")
        go.set()
        await writes.wait_for(thrice, 2)
        before = [*writes.statements]
        end.set()

    assert [{once: 0, thrice: 0}, {thrice: 1}, {thrice: 2}] == before


async def test_a_thread_can_report(make_worker: MakeWorker, client: Client, writes: Writes) -> None:
    """A plain function calls it as a coroutine does; so does a thread that the handler has started itself."""
    more, end = threading.Event(), threading.Event()

    @task
    def copy(ctx: JobContext) -> None:
        ctx.progress(1, 2, "in a thread")
        assert more.wait(LIMIT_S)
        own = threading.Thread(target=ctx.progress, args=(2, 2))
        own.start()
        own.join()
        assert end.wait(LIMIT_S)

    job = (await client.add_job(copy)).id
    async with make_worker(copy).start():
        await writes.wait_for(job, 1)
        found = await read(client, job)
        more.set()
        await writes.wait_for(job, 2)
        end.set()

    assert found is not None
    assert (1, 2, "in a thread") == (found.done, found.total, found.note)


async def test_a_job_that_reports_nothing_costs_nothing(
    make_worker: MakeWorker, client: Client, writes: Writes, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    """No statement is sent, and nothing waits. The report of a job that ends at once is not written either."""
    started: list[str] = []
    run = progress.ProgressWriter._run

    async def noted(writer: progress.ProgressWriter) -> None:
        started.append("run")
        await run(writer)

    monkeypatch.setattr(progress.ProgressWriter, "_run", noted)

    @task
    async def silent(ctx: JobContext) -> None:
        await anyio.lowlevel.checkpoint()

    @task
    async def short(ctx: JobContext) -> None:
        ctx.progress(1)

    await client.add_job(silent)
    async with make_worker(silent, short).start():
        await seen.wait_for(JobCompleted)
        before = [*started]
        await client.add_job(short)
        await wait_until(lambda: bool(started), description="the report to be looked at")

    assert ([], ["run"], []) == (before, started, writes.statements)


async def test_a_retry_begins_without_progress(make_worker: MakeWorker, client: Client, writes: Writes) -> None:
    """Its row belongs to the claim of the attempt before."""
    found: list[Progress | None] = []
    ended = anyio.Event()

    @task(retry=[0])
    async def flaky(ctx: JobContext) -> None:
        found.append(await read(client, ctx.job.id))
        if ctx.attempt == 1:
            ctx.progress(1)
            await writes.wait_for(ctx.job.id, 1)
            raise ValueError("once")
        ended.set()

    await client.add_job(flaky)
    async with make_worker(flaky).start():
        with anyio.fail_after(LIMIT_S):
            await ended.wait()

    assert [None, None] == found


@pytest.mark.parametrize("kind", ["batch", "transactional"])
async def test_progress_is_read_before_its_transaction_or_batch_ends(
    make_worker: MakeWorker, client: Client, writes: Writes, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It is written on a connection of the worker; a job in a batch has no row of its own."""
    monkeypatch.setattr(claim, "BATCH_FROM", 1)
    found: list[Progress | None] = []

    @task(transactional=kind == "transactional")
    async def copy(ctx: JobContext) -> None:
        ctx.progress(3)
        await writes.wait_for(ctx.job.id, 3)
        found.append(await read(client, ctx.job.id))

    job = (await client.add_job(copy)).id
    async with make_worker(copy).start():
        await writes.wait_for(job, None)

    assert [3] == [each and each.done for each in found]


async def test_a_report_that_cannot_be_written_is_written_later(
    make_worker: MakeWorker, client: Client, writes: Writes, db: asyncpg.Connection, schema: str, seen: Seen
) -> None:
    """The job does not notice; observers do."""
    end = anyio.Event()

    @task
    async def copy(ctx: JobContext) -> None:
        ctx.progress(1)
        await end.wait()

    job = (await client.add_job(copy)).id
    await db.execute(f"alter table {schema}._progress add constraint refused check (done < 0)")
    async with make_worker(copy).start():
        failed = await seen.wait_for(MaintenanceFailed)
        await db.execute(f"alter table {schema}._progress drop constraint refused")
        await writes.wait_for(job, 1)
        recovered = await seen.wait_for(PartRecovered)
        end.set()
        await seen.wait_for(JobCompleted)

    assert failed.error.startswith("the progress of jobs could not be written: ")
    assert "writing the progress of jobs" == recovered.part


async def test_a_report_after_the_end_of_its_run_is_ignored(
    make_worker: MakeWorker,
    client: Client,
    writes: Writes,
    db: asyncpg.Connection,
    schema: str,
    seen: Seen,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A thread that the handler left behind may go on for long, even after the worker."""
    contexts: list[JobContext] = []

    @task
    async def leave(ctx: JobContext) -> None:
        contexts.append(ctx)

    @task
    async def report(ctx: JobContext) -> None:
        ctx.progress(1)
        await writes.wait_for(ctx.job.id, 1)

    await client.add_job(leave)
    await client.add_job(leave)
    async with make_worker(leave, report).start():
        await seen.wait_for(JobCompleted, 2)
        contexts[0].progress(5)
        job = (await client.add_job(report)).id
        await writes.wait_for(job, None)
    contexts[1].progress(6)
    await anyio.lowlevel.checkpoint()

    assert ([{job: 1}, {job: None}], 0) == (writes.statements, await stored(db, schema))
    assert [] == [record for record in caplog.records if record.name == "asyncio"]
