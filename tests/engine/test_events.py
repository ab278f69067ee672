"""One scenario for each event: no event may be documented that is never emitted."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import msgspec
import pytest

from asyncq import (
    Client,
    Collect,
    CronItem,
    JobContext,
    JobSpec,
    ResultUnavailable,
    Snooze,
    StoreUnavailable,
    TimeDigest,
    Worker,
    observer,
    task,
    testing,
)
from asyncq.domain import events
from asyncq.domain.events import Event, JobEvent
from asyncq.engine import supervisor
from asyncq.engine.cron import slot_adder
from asyncq.engine.fetch import fetcher
from asyncq.engine.maintenance import history_size, pruner, rounds
from asyncq.engine.run import stuck, transactions
from asyncq.engine.settle import completer
from asyncq.testing import MovableClock
from tests.engine.conftest import MakeWorker
from tests.engine.fetch.test_fetcher import fetch_ahead
from tests.engine.maintenance.test_rounds import claim_as_a_dead_worker
from tests.support.faults import link_to, terminate
from tests.support.lacking import database_of_its_own
from tests.support.pooler import pooled
from tests.support.seen import Seen


class Scene(msgspec.Struct):
    """The fixtures that a scenario uses."""

    dsn: str
    schema: str
    db: asyncpg.Connection
    client: Client
    make_worker: MakeWorker
    seen: Seen
    patch: pytest.MonkeyPatch

    async def run(self, handler: Callable[..., Any], *, until: type[Event] | None = None, **options: Any) -> None:
        """Add a job with this handler, run it, wait for an event, stop."""
        job = handler if hasattr(handler, "job") else task(handler)
        async with self.make_worker(job, **options).start():
            await self.client.add_job(job)
            if until is not None:
                await self.seen.wait_for(until)


Scenario = Callable[[Scene], Awaitable[Any]]

SCENARIOS: dict[Scenario, tuple[type[Event], ...]] = {}


def provokes(*kinds: type[Event]) -> Callable[[Scenario], None]:
    """Note that a scenario provokes these events."""

    def note(scenario: Scenario) -> None:
        SCENARIOS[scenario] = kinds

    return note


async def nothing() -> None:
    """The least job."""


async def hang() -> None:
    """Runs until it is cancelled."""
    await asyncio.Event().wait()


async def away(*args: Any, **options: Any) -> Any:
    """The database cannot be reached."""
    raise StoreUnavailable("away")


@provokes(
    events.WorkerStarted,
    events.WorkerStopping,
    events.WorkerStopped,
    events.ListenConnected,
    events.JobsFetched,
    events.JobStarted,
    events.JobCompleted,
)
async def _(scene: Scene) -> None:
    await scene.client.add_job("nothing")  # before it starts: a job that an idle worker is handed is not fetched
    async with scene.make_worker(task(nothing)).start():
        await scene.seen.wait_for(events.JobCompleted)


@provokes(events.GraceExceeded, events.JobInterrupted)
async def _(scene: Scene) -> None:
    await scene.run(hang, until=events.JobStarted, grace=0)


@provokes(events.JobTimedOut)
async def _(scene: Scene) -> None:
    await scene.client.add_job("hang", timeout="1 ms")
    await scene.make_worker(task(hang)).run_once()


@provokes(events.ItemsFailed, events.JobRetried)
async def _(scene: Scene) -> None:
    @task(items=True)
    async def send(users: list[int]) -> list[Exception | None]:
        return [None, ValueError("no such user")]

    await scene.client.add_job(send, [1, 2])
    await scene.make_worker(send).run_once()


@provokes(events.JobsCollected)
async def _(scene: Scene) -> None:
    @task(collect=Collect(max=2, within="1 h"))
    async def send(users: list[int]) -> None: ...

    await scene.client.add_jobs([send.job(1), send.job(2)])
    await scene.make_worker(send).run_once()


@provokes(events.JobExpired)
async def _(scene: Scene) -> None:
    async def expire_jobs(*_: Any) -> list[int]:
        return []

    scene.patch.setattr(pruner, "expire_jobs", expire_jobs)
    await scene.client.add_job("nothing", expires=0.000001)
    await scene.make_worker(task(nothing)).run_once()


@provokes(events.JobsExpired)
async def _(scene: Scene) -> None:
    await scene.client.add_job("unknown", expires=0.000001)
    await scene.make_worker(task(nothing)).run_once()


@provokes(events.JobsReleased)
async def _(scene: Scene) -> None:
    first = await scene.client.add_job("unknown")
    await scene.client.add_job("nothing", after=[first])
    await scene.client.admin.complete_jobs([first.id])
    await scene.make_worker(task(nothing)).run_once()


@provokes(events.JobBlocked)
async def _(scene: Scene) -> None:
    first = await scene.client.add_job("unknown")
    await scene.client.add_job("nothing", after=[first])
    await scene.client.admin.discard_jobs([first.id])
    await scene.make_worker(task(nothing)).run_once()


@provokes(events.InputsRefused)
async def _(scene: Scene) -> None:
    first = await scene.client.add_job("unknown")
    await scene.client.add_job(JobSpec(task="nothing", after=(first.id,), takes="result"))
    await scene.db.execute(
        f"insert into {scene.schema}._inputs select waiter, 1, 16777216, '0' from {scene.schema}._waits"
    )
    await scene.client.admin.complete_jobs([first.id])
    await scene.make_worker(task(nothing)).run_once()


@provokes(events.WorkerLost)
async def _(scene: Scene) -> None:
    async with scene.make_worker(lease=1).start():
        await scene.db.execute(f"delete from {scene.schema}._workers")
        await scene.seen.wait_for(events.WorkerLost)


@provokes(events.LeaseInDoubt)
async def _(scene: Scene) -> None:
    async with (
        link_to(scene.dsn) as link,
        Worker(link.dsn, [task(nothing)], schema=scene.schema, observers=[scene.seen]).start(),
    ):
        for role in ("heartbeat", "fetch", "listen"):
            link.refuse(role)
        await scene.seen.wait_for(events.LeaseInDoubt)
        link.mend()


@provokes(events.LoopBlocked)
async def _(scene: Scene) -> None:
    async def block() -> None:
        time.sleep(0.3)  # noqa: ASYNC251 - this is the point

    await scene.run(block, until=events.LoopBlocked, blocked_after=0.1)


@provokes(events.HandlerStuck, events.TooManyStuck)
async def _(scene: Scene) -> None:
    scene.patch.setattr(stuck, "STUCK_S", 0.1)
    leave = asyncio.Event()

    @task
    async def ignore() -> None:
        while not leave.is_set():
            try:
                await leave.wait()
            except asyncio.CancelledError:
                continue

    async with scene.make_worker(ignore, concurrency=1).start():
        added = await scene.client.add_job(ignore)
        await scene.seen.wait_for(events.JobStarted)
        await scene.client.admin.cancel_jobs([added.id])
        await scene.seen.wait_for(events.TooManyStuck)
        leave.set()


@provokes(events.WorkerCrashed)
async def _(scene: Scene) -> None:
    scene.patch.setattr(fetcher, "next_due_s", lambda *args: None)
    with pytest.raises(TypeError):
        await scene.make_worker().run()
    await scene.db.execute(f"delete from {scene.schema}._workers")


@provokes(events.HeartbeatFailed, events.PartRecovered)
async def _(scene: Scene) -> None:
    async with scene.make_worker(lease=1).start():
        while not scene.seen.of(events.HeartbeatFailed):
            await terminate(scene.db, scene.schema, "heartbeat")
            await asyncio.sleep(0.01)
        await scene.seen.wait_for(events.PartRecovered)


@provokes(events.JobsRescued)
async def _(scene: Scene) -> None:
    await scene.client.add_job("gone")
    await claim_as_a_dead_worker(scene.db, scene.schema, seconds_ago=60)
    await scene.make_worker().run_once()


@provokes(events.JobsPruned)
async def _(scene: Scene) -> None:
    added = await scene.client.add_job("gone")
    await scene.db.execute(f"""
        update {scene.schema}._jobs set attempts = max_attempts, updated_at = now() - interval '31 days'
        where id = {added.id}""")
    await scene.make_worker().run_once()


@provokes(events.HistorySize)
async def _(scene: Scene) -> None:
    scene.patch.setattr(history_size, "FIRST_WITHIN_S", 0.0)
    await scene.client.add_job("nothing", keep="1 hour")
    async with scene.make_worker(task(nothing)).start():
        await scene.seen.wait_for(events.JobCompleted)
    async with scene.make_worker(task(nothing)).start():
        await scene.seen.wait_for(events.HistorySize)


@provokes(events.MaintenanceFailed)
async def _(scene: Scene) -> None:
    with scene.patch.context() as patch:
        patch.setattr(rounds, "rescue_jobs", away)
        async with scene.make_worker().start():
            await scene.seen.wait_for(events.MaintenanceFailed)


@provokes(events.TasksLeftBehind)
async def _(scene: Scene) -> None:
    left: list[Any] = []

    async def leave_one() -> None:
        left.append(asyncio.get_running_loop().create_task(hang()))

    await scene.run(leave_one, until=events.JobCompleted)


@provokes(events.PartitionCorrected)
async def _(scene: Scene) -> None:
    await scene.db.execute(f"insert into {scene.schema}._partitions (id, running) values (1, 1)")
    await scene.make_worker().run_once()


@provokes(events.ProbesStarted)
async def _(scene: Scene) -> None:
    await scene.make_worker(http="127.0.0.1:0").run_once()


@provokes(events.LimitChanged)
async def _(scene: Scene) -> None:
    for concurrency in (3, 5):
        await scene.make_worker(task(nothing, concurrency=concurrency)).run_once()


@provokes(events.Paused, events.Resumed)
async def _(scene: Scene) -> None:
    async with scene.make_worker().start():
        await scene.client.admin.pause(task="nothing")
        await scene.seen.wait_for(events.Paused)
        await scene.client.admin.resume(task="nothing")
        await scene.seen.wait_for(events.Resumed)


@provokes(events.PartitionBackedOff)
async def _(scene: Scene) -> None:
    async def wait(ctx: JobContext) -> None:
        await ctx.back_off(60)

    await scene.run(task(wait, queue="q"), until=events.PartitionBackedOff)


@provokes(events.UnknownTasks)
async def _(scene: Scene) -> None:
    await scene.client.add_job("strange")
    await scene.make_worker().run_once()


@provokes(events.ListenLost)
async def _(scene: Scene) -> None:
    async with scene.make_worker().start():
        await terminate(scene.db, scene.schema, "listen")
        await scene.seen.wait_for(events.ListenLost)


@provokes(events.PollingOnly)
async def _(scene: Scene) -> None:
    async with Worker(pooled(scene.dsn), [task(nothing)], schema=scene.schema, observers=[scene.seen]).start():
        await scene.seen.wait_for(events.PollingOnly)


@provokes(events.LeaseOnly)
async def _(scene: Scene) -> None:
    lock = "pg_catalog.pg_try_advisory_lock(int, int)"
    locks = f"create or replace function {lock} returns boolean language sql as 'select true'"
    async with database_of_its_own(scene.dsn, f"leases_{scene.schema}", locks) as where:
        await Client(where).migrate()
        await Worker(where, [task(nothing)], observers=[scene.seen]).run_once()


@provokes(events.FetchFailed)
async def _(scene: Scene) -> None:
    with scene.patch.context() as patch:
        patch.setattr(fetcher, "fetch_jobs", away)
        async with scene.make_worker().start():
            await scene.seen.wait_for(events.FetchFailed)


@provokes(events.JobsReturned)
async def _(scene: Scene) -> None:
    fetch_ahead(scene.patch, 10)
    job = task(hang)
    await scene.client.add_jobs([job.job()] * 3)
    async with scene.make_worker(job, concurrency=1, grace=0).start():
        await scene.seen.wait_for(events.JobStarted)


@provokes(events.SettleFailed, events.SettlementsAbandoned)
async def _(scene: Scene) -> None:
    scene.patch.setattr(supervisor, "FLUSH_S", 0.1)
    scene.patch.setattr(completer.store, "complete", away)
    await scene.run(nothing, until=events.SettleFailed)
    for table in ("_jobs", "_batches", "_workers"):
        await scene.db.execute(f"delete from {scene.schema}.{table}")


async def with_clock(scene: Scene, crontab: Any, *kinds: type[Event], by: timedelta) -> None:
    """Run a worker with recurring items, move its clock, and wait for events."""
    async with MovableClock(scene.dsn, scene.schema) as clock:
        await clock.set(datetime(2024, 5, 1, 12, 0, 30, tzinfo=UTC))
        worker = testing.make_worker(scene.dsn, [], schema=scene.schema, crontab=crontab, observers=[scene.seen])
        async with worker.start():
            await clock.move(by)
            for kind in kinds:
                await scene.seen.wait_for(kind)


@provokes(events.CronStarted, events.CronAdded, events.UnknownCronTasks)
async def _(scene: Scene) -> None:
    await with_clock(scene, "* * * * * gone", events.CronAdded, by=timedelta(minutes=1))


@provokes(events.CronBackfilled, events.CronClockJumped)
async def _(scene: Scene) -> None:
    await with_clock(scene, "0 * * * * gone ?fill=1d", events.CronBackfilled, by=timedelta(hours=3))


@provokes(events.CronItemFailed)
async def _(scene: Scene) -> None:
    def fail(minute: TimeDigest) -> bool:
        raise ValueError

    await with_clock(scene, CronItem("gone", fail), events.CronItemFailed, by=timedelta(minutes=1))


@provokes(events.CronItemsChanged)
async def _(scene: Scene) -> None:
    async with scene.make_worker(task(nothing)).start():
        await scene.client.cron.add(CronItem("nothing", "@daily"))
        await scene.seen.wait_for(events.CronItemsChanged)


@provokes(events.CronItemRefused)
async def _(scene: Scene) -> None:
    async with scene.make_worker(task(nothing)).start():
        await scene.db.execute(f"select from {scene.schema}.add_cron_item('bad', 'nothing', '99 * * * *')")
        await scene.seen.wait_for(events.CronItemRefused)


@provokes(events.CronItemShadowed)
async def _(scene: Scene) -> None:
    await scene.client.cron.add(CronItem("gone", "@daily"))
    async with scene.make_worker(task(nothing), crontab="0 0 * * * gone").start():
        await scene.seen.wait_for(events.CronItemShadowed)


@provokes(events.CronFailed)
async def _(scene: Scene) -> None:
    scene.patch.setattr(slot_adder.store, "add_slots", away)
    await with_clock(scene, "* * * * * gone", events.CronFailed, by=timedelta(minutes=1))


@provokes(events.ObserverFailed)
async def _(scene: Scene) -> None:
    def fail(event: Event) -> None:
        raise ValueError("an observer's own")

    await scene.run(nothing, until=events.ObserverFailed, observers=[observer(events.JobCompleted)(fail)])


async def fail() -> None:
    """Fails."""
    raise OSError


@provokes(events.JobRetried)
async def _(scene: Scene) -> None:
    await scene.run(fail, until=events.JobRetried)


@provokes(events.JobDiscarded)
async def _(scene: Scene) -> None:
    await scene.run(task(max_attempts=1)(fail), until=events.JobDiscarded)


@provokes(events.JobSnoozed)
async def _(scene: Scene) -> None:
    async def snooze() -> None:
        raise Snooze(3600)

    await scene.run(snooze, until=events.JobSnoozed)


@provokes(events.JobCancelled)
async def _(scene: Scene) -> None:
    job = task(hang)
    async with scene.make_worker(job).start():
        added = await scene.client.add_job(job)
        await scene.seen.wait_for(events.JobStarted)
        await scene.db.execute(f"select from {scene.schema}.cancel_jobs(array[{added.id}])")
        await scene.seen.wait_for(events.JobCancelled)


@provokes(events.JobLost)
async def _(scene: Scene) -> None:
    leave = asyncio.Event()

    @task
    async def wait() -> None:
        await leave.wait()

    async with scene.make_worker(wait).start():
        await scene.client.add_job(wait, job_key="has a row")
        await scene.seen.wait_for(events.JobStarted)
        await scene.db.execute(f"delete from {scene.schema}._jobs")
        leave.set()
        await scene.seen.wait_for(events.JobLost)


@provokes(events.StepDone)
async def _(scene: Scene) -> None:
    async def handle(ctx: JobContext) -> None:
        await ctx.step("work", lambda: 1)

    await scene.run(handle, until=events.StepDone)


@provokes(events.ResultIgnored)
async def _(scene: Scene) -> None:
    async def answer() -> int:
        return 42

    await scene.run(answer, until=events.ResultIgnored)


@provokes(events.ResultRefused)
async def _(scene: Scene) -> None:
    @task
    async def answer() -> object:
        return object()

    async with scene.make_worker(answer).start():
        with pytest.raises(ResultUnavailable):
            await scene.client.run(answer.job(), timeout=20)


@provokes(events.TransactionsEnded)
async def _(scene: Scene) -> None:
    """Simulate a dead worker that left a transaction open."""
    added = await scene.client.add_job("left")
    worker = await claim_as_a_dead_worker(scene.db, scene.schema, seconds_ago=60)
    left = await asyncpg.connect(scene.dsn)
    await left.execute("begin")
    await left.fetch(f"select {scene.schema}._lock_claim($1, $2, 1)", worker, added.id)
    async with scene.make_worker().start():
        await scene.seen.wait_for(events.JobsRescued)
    left.terminate()


@provokes(events.TransactionAborted)
async def _(scene: Scene) -> None:
    @task(transactional=True)
    async def conflict(ctx: JobContext) -> None:
        if not ctx.job.interruptions:
            raise asyncpg.SerializationError("again")

    await scene.run(conflict, until=events.JobCompleted)


@provokes(events.CommitUncertain, events.ErrorIgnored)
async def _(scene: Scene) -> None:
    own = await asyncpg.connect(scene.dsn)

    @task
    async def complete(ctx: JobContext) -> None:
        await own.execute("begin")
        await ctx.complete(connection=own)
        raise ValueError("too late")

    async with scene.make_worker(complete).start():
        await scene.client.add_job(complete)
        await scene.seen.wait_for(events.CommitUncertain)
        await own.execute("commit")
    await own.close(timeout=5)


@provokes(events.TransactionOpen)
async def _(scene: Scene) -> None:
    scene.patch.setattr(transactions, "TELL_AFTER_S", 0.01)

    @task(transactional=True)
    async def linger(ctx: JobContext) -> None:
        await scene.seen.wait_for(events.TransactionOpen)

    await scene.run(linger, until=events.JobCompleted)


@provokes(events.ResourceFailed)
async def _(scene: Scene) -> None:
    @contextlib.asynccontextmanager
    async def lifespan(_: Worker) -> AsyncGenerator[None]:
        yield
        raise OSError("it hung up")

    await scene.make_worker(lifespan=lifespan).run_once()


def all_events() -> set[type[Event]]:
    """The events that the module defines, without the bases."""
    defined = {item for item in vars(events).values() if isinstance(item, type) and issubclass(item, Event)}
    return defined - {Event, JobEvent}


async def test_every_event_has_a_scenario() -> None:
    """A new event needs a scenario."""
    assert all_events() == {kind for kinds in SCENARIOS.values() for kind in kinds}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: SCENARIOS[scenario][0].__name__)
async def test_the_events_fire(
    scenario: Scenario,
    dsn: str,
    schema: str,
    db: asyncpg.Connection,
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their scenario makes a real worker emit them."""
    await scenario(Scene(dsn, schema, db, client, make_worker, seen, monkeypatch))

    assert [] == [kind.__name__ for kind in SCENARIOS[scenario] if not seen.of(kind)]


async def test_events_of_single_jobs_are_not_built_without_an_observer(dsn: str, schema: str, client: Client) -> None:
    """They would cost more than the rest of a small job."""
    built: list[Event] = []

    @observer(events.WorkerStopped)
    def only_the_end(event: Event) -> None:
        built.append(event)

    job = task(nothing)
    await client.add_job(job)
    worker = Worker(dsn, [job], schema=schema, observers=[only_the_end])
    await worker.run_once()
    wanted = [kind for kind in (events.JobStarted, events.JobCompleted) if worker._observers.wanted(kind)]

    assert ([events.WorkerStopped], []) == ([type(event) for event in built], wanted)
