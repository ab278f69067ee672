"""Jobs that wait for others, through workers and clients, with codecs, hand-offs, batches, awaited results."""

import asyncio

import asyncpg
import pytest

from asyncq import Client, InvalidJob, JobCancelledError, chain, task
from asyncq.domain.events import JobBlocked, JobCompleted, JobStarted, ResultIgnored
from tests.engine.conftest import MakeWorker
from tests.support.codecs import Backwards, sealed
from tests.support.seen import Seen
from tests.support.waiting import wait_until

LEFT = "select (select count(*) from {0}._waits) + (select count(*) from {0}._closings)"
PAYLOAD = "select payload #>> '{{}}' from {0}._jobs where id = $1"


@task
async def report(title: str) -> str:
    """The job that waits."""
    return title


class Held:
    """A task whose handlers run until they may end."""

    def __init__(self) -> None:
        self.began, self.may_end = asyncio.Event(), asyncio.Event()
        self.task = task(self.hold, name="hold")

    async def hold(self, number: int) -> None:
        """Run for so long."""
        self.began.set()
        await self.may_end.wait()


async def wait_until_pending(client: Client) -> None:
    """Wait until a job waits for another one."""

    async def is_one() -> bool:
        return (await client.admin.counts()).pending > 0

    await wait_until(is_one, description="a pending job")


async def test_a_waiter_with_a_codec_is_stored_encoded_and_runs_with_its_clear_payload(
    dsn: str, schema: str, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection
) -> None:
    """The look moves no payload, so the server needs no key."""
    found: list[str] = []

    @task
    async def note(name: str) -> None:
        found.append(name)

    async with Client(dsn, schema=schema, codec=Backwards("k1")) as client:
        async with db.transaction():
            first = await client.add_job(note, "Ada", connection=db)
            second = await client.add_job(note, "Bob", after=[first], if_failed="run", connection=db)
        stored = await db.fetchval(PAYLOAD.format(schema), second.id)
    await make_worker(note, codec=Backwards("k1")).run_once()

    assert (["Ada", "Bob"], sealed("k1", "note", '{"name":"Bob"}')) == (found, stored)
    assert [first.id, second.id] == seen.ids(JobCompleted)


async def test_what_blocks_a_waiter_is_said_without_an_encoded_error(
    dsn: str, schema: str, make_worker: MakeWorker, seen: Seen
) -> None:
    """The job that failed has its error in an envelope; the waiter's event and explanation have ids alone."""

    @task
    async def broken(name: str) -> None:
        raise ValueError("secret")

    async with Client(dsn, schema=schema, codec=Backwards("k1", errors=True)) as client:
        failing = await client.add_job(broken, "Ada", max_attempts=1)
        waiter = await client.add_job(report, "r", after=[failing])
        async with make_worker(broken, codec=Backwards("k1", errors=True)).start():
            event = await seen.wait_for(JobBlocked)
        explained = await client.admin.explain(waiter.id)

    assert (waiter.id, failing.id) == (event.waiter, event.failed)
    assert "secret" not in str(explained)


@pytest.mark.parametrize("count", [1, 150])
async def test_a_running_job_that_was_handed_over_or_is_in_a_batch_is_waited_for(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str, count: int
) -> None:
    """Its batch is split, while it runs."""
    held = Held()
    async with make_worker(held.task, report, concurrency=count).start():
        jobs = await client.add_jobs([held.task.job(number) for number in range(count)])
        await held.began.wait()
        waiter = await client.add_job(report, "r", after=[jobs[0], jobs[-1]])
        held.may_end.set()
        await seen.wait_for(JobCompleted, count + 1)

    assert waiter.id == seen.ids(JobCompleted)[-1]
    assert 1 == seen.ids(JobStarted).count(waiter.id)
    assert 0 == await db.fetchval(LEFT.format(schema))


async def test_a_client_gets_the_result_of_a_job_that_has_to_wait_first(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """It is not handed over to the idle worker before."""
    held = Held()
    async with make_worker(held.task, report).start(), asyncio.TaskGroup() as group:
        first = await client.add_job(held.task, 1)
        await held.began.wait()
        running = group.create_task(client.run(report.job("r").with_options(after=[first]), timeout=20))
        await wait_until_pending(client)
        held.may_end.set()

    assert "r" == running.result()


async def test_a_client_hears_that_the_job_was_cancelled_by_the_look(client: Client, make_worker: MakeWorker) -> None:
    """What it waited for was cancelled."""
    first = await client.add_job("unknown")

    async def run() -> None:
        with pytest.raises(JobCancelledError):
            await client.run(report.job("r").with_options(after=[first]), timeout=20)

    async with make_worker(report).start(), asyncio.TaskGroup() as group:
        group.create_task(run())
        await wait_until_pending(client)
        await client.admin.cancel_jobs([first.id])


async def test_a_result_that_is_passed_on_is_not_reported_as_ignored(
    dsn: str, schema: str, make_worker: MakeWorker, seen: Seen
) -> None:
    """That of the last job is: nobody reads it."""

    @task
    async def double(title: str) -> str:
        return title * 2

    async with Client(dsn, schema=schema) as client:
        last = await client.add_workflow(chain(double.job("a"), double, report))
    await make_worker(double, report).run_once()

    assert (3, [last.id]) == (len(seen.ids(JobCompleted)), seen.ids(ResultIgnored))


async def test_a_client_with_a_codec_passes_no_results_on(dsn: str, schema: str) -> None:
    """The server would make a payload of texts that it cannot decode."""
    async with Client(dsn, schema=schema, codec=Backwards("k1")) as client:
        with pytest.raises(InvalidJob, match="which a client with a codec cannot pass on"):
            await client.add_workflow(chain(report.job("a"), report))
