"""Successions: jobs of a queue follow each other without a fetch between them, for a while."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from asyncq import Client, JobContext, JobState, StoreUnavailable, Worker, task
from asyncq.domain.events import (
    JobCompleted,
    JobLost,
    JobsFetched,
    JobsReturned,
    JobStarted,
    SettleFailed,
)
from asyncq.domain.job import Claim
from asyncq.engine.canceller import Canceller
from asyncq.engine.fetch import cursor, fetcher, schedule
from asyncq.engine.settle import claim_next
from asyncq.store.database import ReconnectingConnection
from tests.engine.conftest import MakeWorker
from tests.support.faults import link_to
from tests.support.seen import Seen
from tests.support.waiting import wait_until

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)  # no check for due jobs finds it


@task(queue="line")
async def nothing(number: int = 0) -> None:
    """The least job."""


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """No fetch is too long ago."""
    monkeypatch.setattr(schedule, "TURN_S", 3600)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Since the last fetch, only jobs that became due meanwhile count, however long ago that was."""
    monkeypatch.setattr(schedule, "LONGEST_TURN_S", 3600)


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fetch is complete, however slow the machine is: none follows to look at what it left out."""
    monkeypatch.setattr(cursor, "CHEAP_S", 60.0)


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch, cheap: None, seen: Seen) -> None:
    """Nothing is fetched ahead once a job runs, so that no fetch interferes by chance; each fetch is complete."""

    def wanted(waiting: int, buffered: int, *_: float) -> int:
        return waiting + 1 if waiting > buffered or not seen.of(JobStarted) else 0

    monkeypatch.setattr(schedule, "wanted_now", wanted)


def intercept(monkeypatch: pytest.MonkeyPatch, after: Callable[[list[Claim]], Awaitable[object]]) -> None:
    """Let something happen after each succession in the database, before the worker sees its answer."""
    real = claim_next.claim_next

    async def claim_and_go_on(*args: Any) -> Any:
        written, claims = await real(*args)
        await after(claims)
        return written, claims

    monkeypatch.setattr(claim_next, "claim_next", claim_and_go_on)


@pytest.mark.usefixtures("endless", "patient", "cheap")
@pytest.mark.parametrize("concurrency", [1, 4])
async def test_the_jobs_of_a_queue_follow_each_other_in_order_without_a_fetch(
    client: Client, make_worker: MakeWorker, seen: Seen, concurrency: int
) -> None:
    """One statement for each: the end of one is the claim of the next."""
    added = await client.add_jobs([nothing.job(number) for number in range(100)])
    async with make_worker(nothing, concurrency=concurrency).start():
        await seen.wait_for(JobCompleted, 100)

    assert [job.id for job in added] == seen.ids(JobStarted)
    assert sum(event.count for event in seen.of(JobsFetched)) <= 10


@pytest.mark.usefixtures("endless", "patient", "cheap")
async def test_a_worker_that_runs_once_fetches_no_more_than_others(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The worker fetches jobs that were added meanwhile when a queue has no next job."""

    @task(queue="line")
    async def add(number: int) -> None:
        if number == 50:
            await client.add_job(nothing, -1, queue="other")

    await client.add_jobs([add.job(number) for number in range(100)])
    await make_worker(add, nothing).run_once()

    assert 101 == len(seen.of(JobCompleted))
    assert sum(event.count for event in seen.of(JobsFetched)) <= 10


@pytest.mark.usefixtures("patient", "steady")
@pytest.mark.parametrize("concurrency", [1, 2])
async def test_queues_continue_without_a_fetch_while_nobody_waits(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch, concurrency: int
) -> None:
    """It is asked now and then whether anything has become due; a slot that waits for a follower is not free."""
    monkeypatch.setattr(schedule, "TURN_S", 0.1)
    asked, real = Counter[str](), ReconnectingConnection.fetch

    async def fetch(line: ReconnectingConnection, name: str, *args: Any) -> Any:
        asked[name] += 1
        return await real(line, name, *args)

    monkeypatch.setattr(ReconnectingConnection, "fetch", fetch)

    @task(queue="line")
    async def short() -> None:
        await asyncio.sleep(0.01)

    await client.add_jobs([short.job().with_options(run_at=LONG_AGO)] * 100)
    async with make_worker(short, concurrency=concurrency).start():
        await seen.wait_for(JobCompleted, 100)

    assert asked["settle_completed"] <= 3
    # A round of a fetch is three statements; each of those ends may begin one. A fetch a turn would be 30 and more.
    assert asked["fetch_jobs"] + asked["fetch_partitions"] <= 20


async def test_a_question_that_fails_is_no_failure_of_the_settlement(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its failure must not make the settlement's outcome doubtful."""

    async def fail(*_: Any) -> None:
        raise StoreUnavailable("no answer", outcome="unknown")

    monkeypatch.setattr(schedule.Schedule, "peek", fail)
    await client.add_jobs([nothing.job()] * 5)
    async with make_worker(nothing).start():
        await seen.wait_for(JobCompleted, 5)

    assert [] == seen.of(SettleFailed)


@pytest.mark.usefixtures("steady")
async def test_an_end_that_cannot_be_written_blocks_its_slot_for_nobody(dsn: str, schema: str, seen: Seen) -> None:
    """A next job may be claimed with its answer, but not for ever."""
    entered, leave = asyncio.Event(), asyncio.Event()

    @task(queue="line")
    async def wait() -> None:
        entered.set()
        await leave.wait()

    @task
    async def plain() -> None:
        pass

    options: dict[str, Any] = {"schema": schema, "observers": [seen], "poll": 60, "concurrency": 1}
    async with link_to(dsn) as link, Client(dsn, schema=schema) as client:
        await client.add_job(wait)
        async with Worker(link.dsn, [wait, plain], **options).start():
            await entered.wait()
            added = await client.add_job(plain)
            link.freeze("settle")
            leave.set()
            await wait_until(lambda: added.id in seen.ids(JobStarted), description="the other job", limit_s=3)
            link.mend()


@pytest.mark.usefixtures("steady")
async def test_a_job_that_no_check_for_due_jobs_finds_waits_for_a_while_only(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The job is due since long: its transaction lasted, or another worker returned it."""

    @task(queue="line")
    async def short() -> None:
        await asyncio.sleep(0.002)

    await client.add_jobs([short.job().with_options(run_at=LONG_AGO)] * 600)
    async with make_worker(short, nothing, concurrency=1).start():
        await seen.wait_for(JobStarted, 20)
        late = await client.add_job(nothing, queue="other", priority=-1, run_at=LONG_AGO)
        await wait_until(lambda: late.id in seen.ids(JobStarted), description="it to start")
        before = len(seen.of(JobStarted))

    assert before < 500


@pytest.mark.usefixtures("patient", "steady")
async def test_an_urgent_job_does_not_wait_for_the_end_of_the_queue(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The only slot continues the queue for as long as a fetch looks ahead; then the order decides."""

    @task(queue="line")
    async def short() -> None:
        await asyncio.sleep(0.002)

    @task
    async def urgent() -> None:
        pass

    await client.add_jobs([short.job().with_options(run_at=LONG_AGO)] * 300)
    async with make_worker(short, urgent, concurrency=1).start():
        await seen.wait_for(JobStarted, 3)
        await client.add_job(urgent, priority=-1)
        await wait_until(lambda: "urgent" in {event.task for event in seen.of(JobStarted)}, description="it to start")
        before = len(seen.of(JobStarted))

    assert before < 200


@pytest.mark.usefixtures("patient", "steady")
async def test_other_queues_have_their_turn(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """A deep queue does not use the only slot until it is empty."""
    await client.add_jobs([nothing.job(number).with_options(run_at=LONG_AGO) for number in range(500)])
    other = await client.add_job(nothing, queue="other", priority=-1)
    async with make_worker(nothing, concurrency=1).start():
        await seen.wait_for(JobCompleted, 2)
        late = await client.add_job(nothing, queue="late", priority=-1)
        await wait_until(lambda: late.id in seen.ids(JobCompleted), description="the other queue's job")
        before = len(seen.of(JobStarted))

    assert other.id == seen.ids(JobStarted)[0]
    assert before < 400


@pytest.mark.usefixtures("endless", "patient", "steady")
async def test_claims_whose_answer_was_lost_are_returned(dsn: str, schema: str, client: Client, seen: Seen) -> None:
    """A job has ended and the next one is claimed, unknown to the worker. It is returned, and runs."""
    entered, leave = asyncio.Event(), asyncio.Event()

    @task(queue="line")
    async def wait() -> None:
        entered.set()
        await leave.wait()

    async with (
        link_to(dsn) as link,
        Worker(link.dsn, [wait], schema=schema, observers=[seen], poll=60).start() as worker,
    ):
        first, second, third = await client.add_jobs([wait.job()] * 3)
        await entered.wait()
        # A fetch that is due comes before the next jobs of queues.
        await wait_until(lambda: worker._running.parts.schedule.room > 0, description="no fetch to be due")
        link.cut_at_statement("settle", "after", "claim_next(")
        leave.set()
        await seen.wait_for(JobCompleted, 3)

    assert {"after": 1} == link.cuts
    assert [first.id, second.id, third.id] == seen.ids(JobCompleted)
    assert (1, []) == (len(seen.of(SettleFailed)), seen.of(JobLost))
    # A notification that comes late lets a fetch take the second job. Then the claim of the third is lost.
    (returned,) = seen.of(JobsReturned)
    assert returned.job_ids in {(second.id,), (third.id,)}


@pytest.mark.usefixtures("endless", "patient")
async def test_a_next_job_that_is_cancelled_in_flight_never_starts(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The notification overtakes the claim, as with a fetch."""
    heard: list[int] = []
    real = Canceller.cancel

    def hear(self: Canceller, worker_id: int, jobs: Iterable[tuple[int, int]]) -> None:
        heard.append(worker_id)
        real(self, worker_id, jobs)

    followers: list[int] = []

    async def cancel(claims: list[Claim]) -> None:
        if claims and not followers:
            followers.append(claims[0].id)
            await db.execute(f"select from {schema}.cancel_jobs($1)", followers)
            await wait_until(lambda: bool(heard), description="the message")

    monkeypatch.setattr(Canceller, "cancel", hear)
    intercept(monkeypatch, cancel)
    added = await client.add_jobs([nothing.job(number) for number in range(3)])
    async with make_worker(nothing).start():
        await seen.wait_for(JobCompleted, 2)

    assert [job.id for job in added if job.id not in followers] == seen.ids(JobStarted)
    assert [(tuple(followers), "they were cancelled")] == [
        (event.job_ids, event.reason) for event in seen.of(JobsReturned)
    ]


@pytest.mark.usefixtures("endless", "patient")
async def test_next_jobs_that_arrive_while_the_worker_stops_are_returned(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They never started, and lose no attempt."""
    await client.add_jobs([nothing.job(number) for number in range(50)])
    followers: list[int] = []
    asked, stopping = asyncio.Event(), asyncio.Event()

    async def wait(claims: list[Claim]) -> None:
        if claims and not asked.is_set():
            followers.append(claims[0].id)
            asked.set()
            await stopping.wait()

    intercept(monkeypatch, wait)
    real = fetcher.Fetcher.stop

    def stop(self: fetcher.Fetcher) -> None:
        real(self)
        stopping.set()

    monkeypatch.setattr(fetcher.Fetcher, "stop", stop)
    async with make_worker(nothing).start():
        await asked.wait()
    job = await client.get_job(followers[0])

    assert followers == [id_ for event in seen.of(JobsReturned) for id_ in event.job_ids]
    assert followers[0] not in seen.ids(JobStarted)
    assert (JobState.AVAILABLE, 0) == (job.state, job.attempts)


@pytest.mark.usefixtures("endless", "patient")
async def test_a_failure_frees_the_queue_and_the_next_one_runs(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Only a job that ended well claims the next one. Other ends are written as usual."""

    @task(queue="line")
    async def fail_once(ctx: JobContext) -> None:
        if not ctx.attempt > 1:
            raise OSError

    await client.add_jobs([nothing.job(), fail_once.job(), nothing.job()])
    async with make_worker(nothing, fail_once).start():
        await seen.wait_for(JobCompleted, 2)

    assert 3 == len(seen.of(JobStarted))
