"""`ctx.step` and `ctx.tx_step`: stored once while the claim exists, whatever ends the run around them."""

import asyncio
from typing import Any

import anyio
import anyio.lowlevel
import asyncpg
import pytest

from asyncq import ClaimLost, Client, Collect, JobContext, JobsContext, Snooze, TaskError, task
from asyncq.domain.events import JobCompleted, JobLost, JobRetried, StepDone
from asyncq.domain.job import Job
from asyncq.store import claim
from tests.engine.conftest import MakeWorker
from tests.support.codecs import Backwards
from tests.support.effects import Effects
from tests.support.seen import Seen
from tests.support.waiting import LIMIT_S

FORMS = pytest.mark.parametrize("form", ["rows", "batched"])


@pytest.fixture(autouse=True)
def packs(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """One job is a batch, in the tests of this form."""
    if "batched" in request.node.name:
        monkeypatch.setattr(claim, "BATCH_FROM", 1)


async def names(db: asyncpg.Connection, schema: str) -> list[str]:
    """The stored steps."""
    return [row[0] for row in await db.fetch(f"select name from {schema}._steps order by done_at, name")]


async def rescue(db: asyncpg.Connection, schema: str) -> None:
    """Return all claims, as if their workers had died before a beat named the jobs."""
    await db.execute(f"""
        update {schema}._workers set started_claims = '{{}}', died_at = clock_timestamp();
        select from {schema}._rescue_jobs(true)""")


@FORMS
async def test_a_step_is_not_called_again_after_a_failure(
    client: Client, make_worker: MakeWorker, db: asyncpg.Connection, schema: str, seen: Seen, form: str
) -> None:
    """Steps that run together are stored each; the one that raised is called again."""
    called: list[int] = []

    async def work(number: int) -> int:
        called.append(number)
        if number == 2 and called.count(2) == 1:
            raise ValueError("once")
        return number * 10

    found: list[Any] = []

    @task(retry=[0])
    async def handle(ctx: JobContext) -> None:
        some = [ctx.step(f"step {number}", work, number) for number in range(3)]
        found.append(await asyncio.gather(*some, return_exceptions=True))
        for each in found[-1]:
            if isinstance(each, Exception):
                raise each

    await client.add_job(handle)
    async with make_worker(handle).start():
        await seen.wait_for(JobCompleted)

    assert [0, 1, 2, 2] == sorted(called)
    assert [0, 10, 20] == found[1]
    assert ["step 0", "step 1", "step 2"] == sorted(event.name for event in seen.of(StepDone))


@FORMS
async def test_a_worker_that_dies_after_the_commit_of_a_step_leaves_it_to_the_next_run(
    client: Client, make_worker: MakeWorker, db: asyncpg.Connection, schema: str, seen: Seen, form: str
) -> None:
    """No beat had named the job, so the rescue counts neither an attempt nor an interruption."""
    called: list[str] = []
    runs: list[Job] = []

    async def work() -> str:
        called.append("work")
        return "done"

    @task
    async def handle(ctx: JobContext) -> None:
        runs.append(ctx.job)
        await ctx.step("work", work)
        if len(runs) == 1:
            await rescue(db, schema)
            await anyio.sleep_forever()

    await client.add_job(handle)
    async with make_worker(handle, grace=0).start():
        with anyio.fail_after(LIMIT_S):
            await seen.wait_for(StepDone)
            async with make_worker(handle).start():
                await seen.wait_for(JobCompleted)

    assert ["work"] == called
    assert [(0, 0), (0, 0)] == [(job.attempts, job.interruptions) for job in runs]


@FORMS
@pytest.mark.parametrize("kind", ["step", "tx_step"])
async def test_a_step_of_a_lost_claim_is_refused(
    client: Client,
    make_worker: MakeWorker,
    db: asyncpg.Connection,
    schema: str,
    seen: Seen,
    effects: Effects,
    kind: str,
    form: str,
) -> None:
    """The rescue came while its function ran. What a tx_step wrote is rolled back, and the run ends as lost.

    The next run calls it again.
    """
    refused: list[BaseException] = []

    @task
    async def handle(ctx: JobContext) -> None:
        async def work(*connections: Any) -> None:
            for connection in connections:
                await connection.execute(effects.insert, ctx.job.id)
            if not refused:
                await rescue(db, schema)

        try:
            await getattr(ctx, kind)("work", work)
        except ClaimLost as error:
            refused.append(error)
            raise

    await client.add_job(handle)
    async with make_worker(handle, concurrency=1).start():
        await seen.wait_for(JobLost)
        await seen.wait_for(JobCompleted)

    assert (1, ["work"]) == (len(refused), [event.name for event in seen.of(StepDone)])
    assert (["work"], 1 if kind == "tx_step" else 0) == (await names(db, schema), len(await effects.kept()))


@pytest.mark.parametrize("kind", ["step", "tx_step"])
async def test_a_step_whose_function_has_returned_is_stored_although_the_run_is_cancelled(
    client: Client,
    make_worker: MakeWorker,
    db: asyncpg.Connection,
    schema: str,
    seen: Seen,
    dsn: str,
    effects: Effects,
    kind: str,
) -> None:
    """The write of the step waits for a lock while the cancellation comes; then it goes on."""
    returned = anyio.Event()
    ends: list[type[BaseException]] = []
    runner: list[asyncio.Task[Any]] = []

    async def work(*connections: Any) -> None:
        for connection in connections:
            await connection.execute(effects.insert, 1)
        returned.set()

    @task
    async def handle(ctx: JobContext) -> None:
        runner.extend([each] if (each := asyncio.current_task()) else [])
        try:
            await getattr(ctx, kind)("work", work)
        except BaseException as error:
            ends.append(type(error))
            raise

    other = await asyncpg.connect(dsn)
    try:
        holding = other.transaction()
        await holding.start()
        await other.execute(f"lock table {schema}._steps in exclusive mode")
        await client.add_job(handle)
        async with make_worker(handle).start():
            await returned.wait()
            for _ in range(5):
                runner[0].cancel()
                await asyncio.sleep(0)
            await holding.rollback()
            await seen.wait_for(JobRetried)
            stored, kept = await names(db, schema), await effects.kept()
    finally:
        await other.close()

    assert ([asyncio.CancelledError], ["work"], [1] if kind == "tx_step" else []) == (ends, stored, kept)


async def test_a_tx_step_that_raises_leaves_nothing(
    client: Client, make_worker: MakeWorker, db: asyncpg.Connection, schema: str, effects: Effects
) -> None:
    """It can be called again in the same run: it is not done."""
    called: list[int] = []

    async def work(connection: Any, number: int) -> int:
        await connection.execute(effects.insert, number)
        called.append(number)
        if len(called) == 1:
            raise ValueError("once")
        return number

    @task
    async def handle(ctx: JobContext) -> None:
        with pytest.raises(ValueError, match="once"):
            await ctx.tx_step("work", work, 1)
        assert [] == await names(db, schema)
        assert 2 == await ctx.tx_step("work", work, 2)

    await client.add_job(handle)
    await make_worker(handle).run_once()

    assert [2] == await effects.kept()


async def test_a_new_payload_forgets_the_steps(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """A keyed add changed the job while it waited for its retry, then while it ran."""
    called: list[int] = []
    again: list[int] = [3]

    async def work(number: int) -> int:
        called.append(number)
        return number

    @task(retry=[3600])
    async def handle(number: int, ctx: JobContext) -> None:
        assert number == await ctx.step("work", work, number)
        if number == 1:
            raise ValueError("try later")
        if again:
            await client.add_job(handle, again.pop(), job_key="k")

    await client.add_job(handle, 1, job_key="k")
    async with make_worker(handle).start():
        await seen.wait_for(JobRetried)
        await client.add_job(handle, 2, job_key="k")
        await seen.wait_for(JobCompleted, 2)

    assert [1, 2, 3] == called


async def test_a_snoozed_job_and_one_that_is_retried_by_hand_keep_their_steps(
    client: Client, make_worker: MakeWorker
) -> None:
    """Neither has an attempt or an interruption."""
    called: list[str] = []
    ends: list[Exception | None] = [Snooze(0), ValueError("for good"), None]

    async def work() -> None:
        called.append("work")

    @task(max_attempts=1)
    async def handle(ctx: JobContext) -> None:
        await ctx.step("work", work)
        if (end := ends.pop(0)) is not None:
            raise end

    job = (await client.add_job(handle)).id
    worker = make_worker(handle)
    await worker.run_once()
    await client.admin.retry_jobs([job])
    await make_worker(handle).run_once()

    assert (["work"], []) == (called, ends)


async def test_steps_are_encoded(
    dsn: str, schema: str, make_worker: MakeWorker, db: asyncpg.Connection, seen: Seen
) -> None:
    """A later run reads them."""
    found: list[Any] = []

    async def work() -> dict[str, str]:
        return {"secret": "s3cr3t"}

    @task(retry=[0])
    async def handle(ctx: JobContext) -> None:
        found.append(await ctx.step("work", work))
        if ctx.attempt == 1:
            raise ValueError("again")

    async with Client(dsn, schema=schema, codec=Backwards("k")) as client:
        await client.add_job(handle)
        worker = make_worker(handle, codec=Backwards("k"))
        async with worker.start():
            await seen.wait_for(JobCompleted)
    texts = [row[0] for row in await db.fetch(f"select result::text from {schema}._steps")]

    assert [{"secret": "s3cr3t"}] * 2 == found
    assert all(text.startswith('"asyncq:1:k:') for text in texts)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("", None, "the name of a step must be a str of 1 to 200 characters"),
        ("a" * 201, None, "the name of a step must be a str of 1 to 200 characters"),
        ("a\0", None, "the name of a step must have printable characters only"),
        ("a", object(), "what step 'a' returned cannot be stored"),
        ("a", "x" * 1024 * 1024, "what step 'a' returned cannot be stored"),
        ("a", float("nan"), "what step 'a' returned cannot be stored"),
        ("a", "asyncq:1:k:", "what step 'a' returned cannot be stored"),
    ],
)
async def test_what_cannot_be_a_step(
    client: Client, make_worker: MakeWorker, db: asyncpg.Connection, schema: str, name: str, value: Any, said: str
) -> None:
    """A TaskError says why."""
    errors: list[str] = []

    @task
    async def handle(ctx: JobContext) -> None:
        try:
            await ctx.step(name, lambda: value)
        except TaskError as error:
            errors.append(str(error))

    await client.add_job(handle)
    await make_worker(handle).run_once()

    assert 1 == len(errors)
    assert errors[0].startswith(said)


async def test_a_job_has_a_thousand_steps(
    client: Client, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of earlier runs count."""
    monkeypatch.setattr("asyncq.engine.run.steps.MOST_STEPS", 3)

    @task(retry=[0])
    async def handle(ctx: JobContext) -> None:
        for number in range(2):
            await ctx.step(f"{ctx.attempt} {number}", lambda: None)
        raise ValueError("again")

    job = (await client.add_job(handle, max_attempts=2)).id
    await make_worker(handle).run_once()
    found = await client.get_job(job)

    assert (found.last_error or "").startswith("TaskError: a job has at most 3 steps")


@pytest.mark.parametrize("kind", ["step", "tx_step"])
async def test_a_call_for_collected_jobs_has_no_steps(client: Client, make_worker: MakeWorker, kind: str) -> None:
    """A step belongs to one job."""
    errors: list[str] = []

    @task(collect=Collect(max=2, within=0.01))
    async def handle(numbers: list[int], ctx: JobsContext) -> None:
        try:
            getattr(ctx, kind)("work", lambda: None)
        except TaskError as error:
            errors.append(str(error))

    await client.add_jobs([handle.job(1), handle.job(2)])
    await make_worker(handle).run_once()

    assert ["and a step belongs to one job: leave out collect="] == [error.partition("jobs, ")[2] for error in errors]


async def test_a_step_after_complete_is_refused(client: Client, make_worker: MakeWorker) -> None:
    """The transaction that completes the job may lock its row, for which the step would wait."""
    errors: list[str] = []

    @task
    async def handle(ctx: JobContext) -> None:
        async with ctx.connection() as own, own.transaction():
            await ctx.complete(connection=own)
            try:
                await ctx.step("work", lambda: None)
            except TaskError as error:
                errors.append(str(error))

    await client.add_job(handle)
    await make_worker(handle).run_once()

    assert ["ctx.step was called after ctx.complete, which ends the job"] == errors


async def test_a_rerun_forgets_the_steps(client: Client, make_worker: MakeWorker) -> None:
    """It has another payload, which was remembered while the job ran."""
    called: list[int] = []

    async def work(number: int) -> int:
        called.append(number)
        return number

    @task(singleton=True)
    async def handle(number: int, ctx: JobContext) -> None:
        assert number == await ctx.step("work", work, number)
        if number == 1:
            await client.add_job(handle, 2, rerun=True)

    await client.add_job(handle, 1)
    await make_worker(handle).run_once()

    assert [1, 2] == called
