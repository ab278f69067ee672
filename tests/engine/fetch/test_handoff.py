"""The slot of a hand-off: an idle worker runs the job of an add without a fetch. The poll is usually a minute."""

import asyncio
from typing import Any

import anyio
import asyncpg
import msgspec
import pytest

from asyncq import Client, JobContext, task
from asyncq.domain.events import (
    JobCancelled,
    JobCompleted,
    JobLost,
    JobsReturned,
    JobStarted,
    ListenConnected,
    WorkerLost,
    WorkerStopped,
    WorkerStopping,
)
from asyncq.engine.base import lease
from asyncq.engine.fetch import handoff
from asyncq.engine.fetch.handoff import Handoff
from asyncq.engine.liveness.membership import Membership
from asyncq.store.database import ReconnectingConnection
from tests.engine.conftest import MakeWorker
from tests.support.faults import terminate
from tests.support.handoffs import OPEN_SLOTS, SLOT, add_plain, leave_versions
from tests.support.seen import Seen
from tests.support.session import Session, session
from tests.support.waiting import wait_until


class Order(msgspec.Struct):
    """The payload of a job."""

    number: int
    note: str


@task
async def nothing() -> None:
    """The least job."""


@task
async def other() -> None:
    """A task of another worker."""


async def slot_opened(sql: Session, count: int = 1) -> None:
    """Wait until so many slots are open."""
    await wait_until(lambda: sql.value(f"select ({OPEN_SLOTS}) = $1", count), description=f"{count} slots")


class Asked:
    """Notes what a worker asks the server."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        real = ReconnectingConnection.fetch

        async def fetch(line: ReconnectingConnection, name: str, *args: Any) -> Any:
            self.names.append(name)
            return await real(line, name, *args)

        monkeypatch.setattr(ReconnectingConnection, "fetch", fetch)

    @property
    def looks(self) -> list[str]:
        """The fetches among them."""
        return [name for name in self.names if name.startswith("fetch")]


async def test_an_added_job_starts_without_a_fetch(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This repeats: the slot is opened again once the worker is idle."""
    async with session(dsn, schema) as sql, make_worker(nothing, poll=60).start():
        await slot_opened(sql)
        asked = Asked(monkeypatch)
        ids: list[int] = []
        for _ in range(3):
            ids.append((await client.add_job(nothing)).id)
            await seen.wait_for(JobCompleted, len(ids))
            await slot_opened(sql)

    assert (ids, []) == (seen.ids(JobCompleted), asked.looks)


async def test_the_handler_gets_the_added_payload(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """It gets the same arguments as after a fetch."""
    given: list[Any] = []

    @task
    async def ship(order: Order, ctx: JobContext) -> None:
        given.append((order, ctx.job.id, ctx.attempt, ctx.job.priority, ctx.job.max_attempts, ctx.job.meta))

    async with session(dsn, schema) as sql, make_worker(ship, poll=60).start():
        await slot_opened(sql)
        added = await client.add_job(ship, Order(7, 'a "ü"'), priority=3, max_attempts=2, meta={"trace": "x"})
        await seen.wait_for(JobCompleted)

    assert [(Order(7, 'a "ü"'), added.id, 1, 3, 2, {"trace": "x"})] == given


async def test_jobs_that_are_added_at_once_all_run_once(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """One of them uses the slot."""
    async with session(dsn, schema) as sql, make_worker(nothing, poll=60).start():
        await slot_opened(sql)
        added = await asyncio.gather(*(client.add_job(nothing) for _ in range(30)))
        await seen.wait_for(JobCompleted, len(added))
        await anyio.sleep(0.1)

    assert sorted(job.id for job in added) == sorted(seen.ids(JobStarted))


async def test_a_job_goes_to_a_worker_that_knows_its_task(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker
) -> None:
    """Workers of several kinds have a slot each."""
    one, two = Seen(), Seen()
    async with (
        session(dsn, schema) as sql,
        make_worker(nothing, poll=60, observers=[one]).start(),
        make_worker(other, poll=60, observers=[two]).start(),
    ):
        await slot_opened(sql, 2)
        added = [(await client.add_job(kind)).id for kind in (other, nothing)]
        await one.wait_for(JobCompleted)
        await two.wait_for(JobCompleted)

    assert ([added[1]], [added[0]]) == (one.ids(JobCompleted), two.ids(JobCompleted))


async def test_a_worker_that_is_busy_opens_no_slot(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """A busy worker fetches instead: its slots are shared fairly, and a handler that blocks the loop delays no job."""
    leave = asyncio.Event()

    @task
    async def hold() -> None:
        await leave.wait()

    async with session(dsn, schema) as sql, make_worker(hold, poll=60, concurrency=2).start():
        await slot_opened(sql)
        await client.add_job(hold)
        await seen.wait_for(JobStarted)
        await anyio.sleep(0.1)
        _, taken = await sql.row(SLOT)
        await client.add_job(hold)
        await seen.wait_for(JobStarted, 2)
        leave.set()
        await slot_opened(sql)

    assert taken


async def test_a_job_that_was_claimed_while_the_listen_connection_broke_is_returned(
    dsn: str, schema: str, db: asyncpg.Connection, make_worker: MakeWorker, seen: Seen
) -> None:
    """The worker asks what was claimed for it, and waits for the add."""
    async with session(dsn, schema) as sql, session(dsn, schema) as adder, make_worker(nothing, poll=60).start():
        await slot_opened(sql)
        async with adder.connection.transaction():
            job = await add_plain(adder, nothing.name)
            await terminate(db, schema, "listen")
            await seen.wait_for(ListenConnected, 2)
        await seen.wait_for(JobCompleted, limit_s=5)
        await slot_opened(sql)

    assert ([job], [job]) == (seen.ids(JobCompleted), [*seen.of(JobsReturned)[0].job_ids])


async def test_a_lost_notification_costs_a_poll(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link may be half open."""
    monkeypatch.setattr(Handoff, "heard", lambda slot, text: None)
    async with session(dsn, schema) as sql, make_worker(nothing, poll=0.3).start():
        await slot_opened(sql)
        added = await client.add_job(nothing)
        await seen.wait_for(JobCompleted, limit_s=5)

    assert [added.id] == seen.ids(JobStarted)


async def test_a_job_whose_notification_is_late_is_returned_and_runs_once(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rescue may have returned it meanwhile. If none has, a fetch finds it without waiting for the poll."""
    monkeypatch.setattr(lease, "HALF_GRACE_S", -1.0)
    async with session(dsn, schema) as sql, make_worker(nothing, poll=60).start():
        await slot_opened(sql)
        added = await client.add_job(nothing)
        await seen.wait_for(JobCompleted, limit_s=5)

    assert [(added.id,)] == [event.job_ids for event in seen.of(JobsReturned)]
    assert ([added.id], [1]) == (seen.ids(JobStarted), [event.attempt for event in seen.of(JobStarted)])


async def test_a_message_of_another_slot_is_no_job(dsn: str, schema: str, make_worker: MakeWorker, seen: Seen) -> None:
    """The slot was closed meanwhile, and its job is returned: a run here would be the second one."""
    async with session(dsn, schema) as sql, make_worker(nothing, poll=60).start():
        await slot_opened(sql)
        said = """
            select pg_notify(channel,
              json_build_array(token + further, 1, task_ids[1], 25, 0, 0, '{}'::json, null,
                (extract(epoch from clock_timestamp()) * 1000000)::bigint)::text)
            from asyncq._handoff_slots, unnest(array[1, 0]) as further order by further desc"""
        await sql.rows(said)
        await seen.wait_for(JobStarted)
        await anyio.sleep(0.1)
        await wait_until(lambda: seen.of(JobLost), description="the claim of the second message to be refused")

    assert 1 == len(seen.of(JobStarted))


async def test_a_worker_that_stops_while_its_slot_is_being_taken_returns_the_job(
    dsn: str, schema: str, make_worker: MakeWorker, seen: Seen
) -> None:
    """It waits a while for the add. The job did not run, so no attempt is counted."""
    async with session(dsn, schema) as sql, session(dsn, schema) as adder:
        async with asyncio.TaskGroup() as group:

            async def work() -> None:
                async with make_worker(nothing, poll=60).start():
                    await slot_opened(sql)
                    await adder.execute("begin")
                    await add_plain(adder, nothing.name)

            group.create_task(work())
            await seen.wait_for(WorkerStopping)
            await anyio.sleep(0.3)
            assert not seen.of(WorkerStopped)
            await adder.execute("commit")
        left = tuple(await sql.row("select locked_by, attempts from asyncq._all_jobs()"))
        workers = await sql.value("select count(*) from asyncq._workers")
        await make_worker(nothing).run_once()

    assert ((None, 0), 0, 1) == (left, workers, len(seen.ids(JobCompleted)))


async def test_a_job_that_is_cancelled_in_flight_never_starts(
    dsn: str, schema: str, make_worker: MakeWorker, seen: Seen
) -> None:
    """Both notifications arrive with the same commit."""
    async with session(dsn, schema) as sql, session(dsn, schema) as adder, make_worker(nothing, poll=60).start():
        await slot_opened(sql)
        async with adder.connection.transaction():
            job = await add_plain(adder, nothing.name)
            await adder.rows("select from asyncq.cancel_jobs(array[$1::bigint])", job)
        await seen.wait_for(JobCancelled)

    assert ([job], []) == (seen.ids(JobCancelled), seen.ids(JobCompleted))


@pytest.mark.parametrize("is_stirred", [True, False])
async def test_a_worker_that_was_declared_dead_opens_a_slot_under_its_new_id(
    dsn: str,
    schema: str,
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    monkeypatch: pytest.MonkeyPatch,
    is_stirred: bool,
) -> None:
    """The old slot ended with its row; also where nothing stirs the fetcher between its two ids."""
    if not is_stirred:
        monkeypatch.setattr(Membership, "regained", lambda _: None)
    async with session(dsn, schema) as sql, make_worker(nothing, poll=60, lease=1).start():
        await slot_opened(sql)
        (old,) = await sql.values("delete from asyncq._workers returning id")
        await seen.wait_for(WorkerLost)
        await slot_opened(sql)
        (new,) = await sql.values("select worker_id from asyncq._handoff_slots")
        added = await client.add_job(nothing)
        await seen.wait_for(JobCompleted)

    assert old != new
    assert [added.id] == seen.ids(JobCompleted)


@pytest.mark.parametrize("is_forced", [False, True])
async def test_a_worker_leaves_no_empty_batch_behind(
    dsn: str, schema: str, make_worker: MakeWorker, seen: Seen, *, is_forced: bool
) -> None:
    """Only a thorough rescue would find it."""
    async with session(dsn, schema) as sql:
        async with make_worker(nothing, poll=60).start():
            await slot_opened(sql)
            if is_forced:
                await sql.rows("select from asyncq.force_unlock_workers(array(select id::text from asyncq._workers))")
                await seen.wait_for(WorkerLost)
                await slot_opened(sql)

        assert [] == await sql.rows("select from asyncq._batches")


async def test_a_worker_that_only_polls_opens_no_slot(dsn: str, schema: str, make_worker: MakeWorker) -> None:
    """It could not receive the notification."""
    async with session(dsn, schema) as sql, make_worker(nothing, listen=False, poll=0.05).start():
        await anyio.sleep(0.3)

        assert [None] == await sql.values("select token from asyncq._handoff_slots")


async def test_no_worker_opens_a_slot_while_adds_would_walk_over_many_versions_of_slots(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs are fetched then, as if no slot were open; and after a vacuum all is as before."""
    monkeypatch.setattr(handoff, "WITHHELD_S", 0.2)
    async with session(dsn, schema) as sql, make_worker(nothing).start():
        await slot_opened(sql)
        await leave_versions(sql)
        for count in (1, 2):
            await client.add_job(nothing)
            await seen.wait_for(JobCompleted, count)
            await wait_until(
                lambda: sql.value("select not asyncq._has_open_slot()"), description="slots to be withheld"
            )
        await anyio.sleep(0.5)
        assert not await sql.value("select asyncq._has_open_slot()")
        await sql.execute("vacuum asyncq._handoff_slots")
        await client.add_job(nothing)
        await slot_opened(sql)
        await client.add_job(nothing)
        await seen.wait_for(JobCompleted, 4)
