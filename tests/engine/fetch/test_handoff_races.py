"""Faults and races around slots: the job of an add runs once, and soon."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import anyio
import asyncpg
import pytest

from asyncq import Client, StoreUnavailable, Worker, task
from asyncq.domain.events import JobCompleted, JobsReturned, JobStarted, WorkerLost
from asyncq.domain.job import Claim
from asyncq.engine.base.groups import WorkerTasks
from asyncq.engine.base.observers import Observers
from asyncq.engine.fetch import cursor, handoff, oncall, unconfirmed
from asyncq.engine.fetch.fetcher import Fetcher
from asyncq.engine.fetch.oncall import OnCall
from asyncq.engine.fetch.unconfirmed import UnconfirmedFetches
from asyncq.store.arrays import array_text
from asyncq.store.database import Database, ReconnectingConnection
from asyncq.store.listen import Listening
from tests.engine.conftest import MakeWorker
from tests.support.faults import link_to, terminate
from tests.support.handoffs import OPEN_SLOTS, add_plain
from tests.support.seen import Seen
from tests.support.session import Session, session
from tests.support.waiting import wait_until

SOON_S = 5.0


@task
async def nothing() -> None:
    """The least job."""


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """No scan counts as expensive: on a busy machine a worker would open no slot."""
    monkeypatch.setattr(cursor, "CHEAP_S", 60.0)


@pytest.fixture
async def sql(dsn: str, schema: str) -> AsyncIterator[Session]:
    """A session that commits each statement."""
    async with session(dsn, schema) as opened:
        yield opened


async def slot_is_open(sql: Session) -> None:
    """Wait until a slot is open."""
    await wait_until(lambda: sql.value(f"select ({OPEN_SLOTS}) > 0"), description="a slot")


async def add(sql: Session) -> int:
    """Add a job as a client does that commits at once."""
    job_id = await add_plain(sql, "nothing")
    assert job_id is not None
    return job_id


@pytest.mark.parametrize("when", ["sent", "after"])
async def test_a_job_runs_whose_slot_was_closed_by_a_statement_without_an_answer(
    dsn: str, schema: str, sql: Session, seen: Seen, when: Any
) -> None:
    """The slot is closed when the worker asks again, so it cannot see that a job was claimed by it."""
    async with (
        link_to(dsn) as link,
        Worker(link.dsn, [nothing], schema=schema, observers=[seen], poll=60).start(),
    ):
        await slot_is_open(sql)
        link.hold("listen", "answers")
        job_id = await add(sql)
        link.cut_at_statement("fetch", when, "set token = null")
        link.lose("listen")
        await seen.wait_for(JobCompleted, limit_s=SOON_S)
        assert 1 == link.cuts[when]

    assert [job_id] == seen.ids(JobCompleted)


async def test_a_worker_that_stops_leaves_no_claim_although_the_answer_to_the_close_of_its_slot_was_lost(
    dsn: str, schema: str, sql: Session, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row is deleted, and then nobody would find the claim for minutes."""
    monkeypatch.setattr(oncall, "DEADLINE_S", 0.3)  # for the answer to the end of its turn, which is lost too
    async with link_to(dsn) as link:
        async with Worker(link.dsn, [nothing], schema=schema, observers=[seen], poll=60).start():
            await slot_is_open(sql)
            link.hold("listen", "answers")
            await add(sql)
            link.cut_at_statement("fetch", "after", "set token = null")
        assert 1 == link.cuts["after"]
        link.mend()

    assert [None] == await sql.values("select locked_by from asyncq._all_jobs()")


async def test_an_add_that_is_stuck_in_its_transaction_does_not_delay_a_workers_jobs(
    dsn: str, schema: str, sql: Session, db: asyncpg.Connection, seen: Seen, make_worker: MakeWorker
) -> None:
    """Behind a pooler an add is a transaction, and its process may be paused in it. The slot is closed later."""
    async with make_worker(nothing).start(), session(dsn, schema) as adder:
        await slot_is_open(sql)
        async with adder.connection.transaction():
            stuck = await add(adder)
            await terminate(db, schema, "listen")
            await anyio.sleep(0.3)
            added = [(await sql.rows("select id from asyncq.add_job('nothing')"))[0][0] for _ in range(3)]
            await seen.wait_for(JobCompleted, 3, limit_s=2)
            assert added == sorted(seen.ids(JobCompleted))
        await seen.wait_for(JobCompleted, 4, limit_s=SOON_S)

    assert [*added, stuck] == seen.ids(JobCompleted)


async def test_a_slot_that_opened_late_is_detected(
    dsn: str, schema: str, sql: Session, client: Client, seen: Seen, make_worker: MakeWorker, monkeypatch: Any
) -> None:
    """Its statement was delayed until the worker gave it up. An add used the slot before the old connection ended."""
    given: list[tuple[Any, ...]] = []
    has_come = asyncio.Event()
    real = Listening.open_slot

    async def open_slot(*args: Any) -> bool:
        given.append(args)
        if len(given) == 1:
            raise StoreUnavailable("no answer", outcome="unknown")
        await has_come.wait()
        return await real(*args)

    async def probe(*_: Any) -> None:
        """Leave the lock of the worker to its old connection, which the server believes to live."""

    monkeypatch.setattr(Listening, "open_slot", open_slot)
    monkeypatch.setattr(Listening, "probe", probe)
    async with make_worker(nothing).start(), session(dsn, schema) as late:
        await wait_until(lambda: len(given) == 2, description="the worker to go on")
        ear, worker_id, token, heard, *tasks = given[0]
        await late.run("open_slot", worker_id, token, heard, *map(array_text, tasks), ear.secret_channel, True)  # noqa: FBT003
        added = await client.add_job(nothing)
        assert [token] == await sql.values("select lock_token from asyncq._all_jobs()")
        has_come.set()
        await seen.wait_for(JobCompleted, limit_s=SOON_S)

    assert [added.id] == seen.ids(JobCompleted)


async def test_a_job_that_was_handed_to_a_worker_that_has_become_busy_is_returned_at_once(
    sql: Session, client: Client, seen: Seen, make_worker: MakeWorker, db: asyncpg.Connection
) -> None:
    """Its slot was open when other jobs arrived. A claim without a free slot is soon returned for others."""
    release = asyncio.Event()

    @task
    async def wait() -> None:
        await release.wait()

    async with make_worker(wait, nothing, concurrency=1).start():
        await slot_is_open(sql)
        await client.add_job(wait, connection=db, autocommit=True)
        await seen.wait_for(JobStarted)
        added = await client.add_job(nothing)
        await seen.wait_for(JobsReturned, limit_s=SOON_S)
        release.set()
        await seen.wait_for(JobCompleted, 2)

    assert [(added.id,)] == [event.job_ids for event in seen.of(JobsReturned)]


async def test_a_busy_worker_does_not_keep_its_slot_open(
    dsn: str, schema: str, sql: Session, client: Client, db: asyncpg.Connection
) -> None:
    """It fetches nothing while all slots are taken. On a half-open connection nobody would find the job."""
    busy, idle, release = Seen(), Seen(), asyncio.Event()

    @task
    async def wait() -> None:
        await release.wait()

    async with (
        link_to(dsn) as link,
        Worker(link.dsn, [wait, nothing], schema=schema, observers=[busy], poll=0.2, concurrency=1).start(),
    ):
        await slot_is_open(sql)
        await client.add_job(wait, connection=db, autocommit=True)
        await busy.wait_for(JobStarted)
        link.hold_open("listen")
        await client.add_job(nothing)
        options: dict[str, Any] = {"schema": schema, "observers": [idle], "poll": 0.2, "listen": False}
        async with Worker(dsn, [nothing], **options).start():
            await idle.wait_for(JobCompleted, limit_s=3)
        release.set()
        await busy.wait_for(JobCompleted)
        link.mend()


async def test_claims_that_are_lost_while_a_busy_worker_leaves_its_turn_on_call_are_returned(
    make_worker: MakeWorker, client: Client, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must fetch once more for that, and not fall asleep."""
    release, met = asyncio.Event(), list[Fetcher]()
    real_run, real_give_back, given_back = Fetcher.run, UnconfirmedFetches.give_back, asyncio.Event()
    armed = False

    @task
    async def wait() -> None:
        await release.wait()

    async def run(fetcher: Fetcher, *args: Any) -> None:
        met.append(fetcher)
        await real_run(fetcher, *args)

    async def give_back(lost: UnconfirmedFetches) -> None:
        await real_give_back(lost)
        given_back.set()

    def lose() -> None:
        met[0]._unconfirmed.note(1, 1)
        met[0]._schedule.wake()

    def is_in_charge(_: OnCall) -> bool:
        nonlocal armed
        if armed:
            armed = False
            asyncio.get_running_loop().call_soon(lose)
            return True
        return False

    monkeypatch.setattr(Fetcher, "run", run)
    monkeypatch.setattr(UnconfirmedFetches, "give_back", give_back)
    monkeypatch.setattr(OnCall, "is_in_charge", property(is_in_charge))
    async with make_worker(wait, concurrency=1).start():
        await client.add_job(wait)
        await seen.wait_for(JobStarted)
        await anyio.sleep(0.1)
        armed = met[0]._schedule.follows = True
        met[0]._schedule.wake_in(60)
        async with asyncio.timeout(SOON_S):
            await given_back.wait()
        release.set()


async def test_a_claim_that_is_lost_while_others_are_returned_does_not_wait(
    dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken link loses a slot and the answer to a fetch at the same time."""
    line = ReconnectingConnection(Database(dsn, schema), "test")
    lost = UnconfirmedFetches(line, Observers([]))

    async def return_lost(_: ReconnectingConnection, worker_id: int, tokens: list[int]) -> list[int]:
        if tokens == [1]:
            await anyio.sleep(0.01)
            lost.note(worker_id, 2)
        return []

    monkeypatch.setattr(unconfirmed, "return_lost", return_lost)
    lost.note(7, 1)
    await lost.give_back()
    another = lost.is_time
    await lost.give_back()
    await line.close()

    assert (True, False) == (another, lost.is_time)


@pytest.mark.parametrize("mark", ['"', "\\", "\n", "ü", "\x01", "x"])
async def test_a_job_that_does_not_fit_into_a_notification_is_added_all_the_same(
    sql: Session, client: Client, seen: Seen, make_worker: MakeWorker, mark: str
) -> None:
    """The job is sent as escaped text, in which each quotation mark takes two bytes."""
    async with make_worker(nothing).start():
        for count, length in enumerate((500, 1100, 2000, 3400, 6900), start=1):
            await slot_is_open(sql)
            await client.add_job(nothing, meta={"m": mark * length})
            await seen.wait_for(JobCompleted, count, limit_s=SOON_S)


class Stand:
    """A slot that was taken, and a withdrawal whose answer the test gives."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.received: list[int] = []
        self.is_known = True
        self.answer: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        line: Any = self
        identity: Any = self
        ear: Any = self
        self.worker_id, self.tasks, self.unbatched = 7, {3: nothing}, list[int]()
        self.lost = UnconfirmedFetches(line, Observers([]))
        self.group = WorkerTasks()
        inbox: Any = SimpleNamespace(expect=lambda *_: None, answered=lambda _: None, take_over=self._take_over)
        schedule: Any = SimpleNamespace(has_nothing_to_do=True, wake=lambda: None)
        self.handoff = handoff.Handoff(
            line,
            identity,
            Observers([]),
            unconfirmed=self.lost,
            inbox=inbox,
            schedule=schedule,
            start_soon=self.group.start_soon,
        )
        self.handoff.connected(ear)

        async def close_slot(*_: Any) -> tuple[bool, int | None]:
            return self.is_known, await self.answer

        monkeypatch.setattr(handoff, "close_slot", close_slot)

    def _take_over(self, _: int, claim: Claim, _made_at: float) -> None:
        self.received.append(claim.token)

    def next_token(self) -> int:
        """The only one."""
        return 1

    async def ready(self) -> None:
        """Stand in for a line, which is always connected here."""

    async def open_slot(self, *_: Any) -> bool:
        """Stand in for the statement that opens a slot."""
        return True

    async def be_withdrawn(self, *, is_heard_first: bool) -> None:
        """Claim a job by the slot and close it; the two messages arrive in either order."""
        async with anyio.create_task_group() as group:
            self.group.open(group)
            self.handoff.consider()
            await wait_until(lambda: bool(self.handoff.token), description="the slot")
            group.start_soon(self.handoff.stop)
            await anyio.sleep(0.01)
            if is_heard_first:
                self._hear()
            self.answer.set_result(1 if self.is_known else None)
        self._hear()

    def _hear(self) -> None:
        self.handoff.heard("[1, 2, 3, 25, 0, 1700000000000000, {}, null]")


@pytest.mark.parametrize("is_heard_first", [False, True])
async def test_a_claim_that_arrives_during_the_close_of_its_slot_runs_or_is_returned_and_never_both(
    monkeypatch: pytest.MonkeyPatch, *, is_heard_first: bool
) -> None:
    """They arrive on two connections, in any order."""
    stand = Stand(monkeypatch)
    await stand.be_withdrawn(is_heard_first=is_heard_first)

    assert ([1] if is_heard_first else []) == stand.received
    assert is_heard_first != stand.lost.is_time


async def test_a_claim_of_a_slot_whose_row_is_gone_is_returned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A rescue deletes the row, and the worker continues under its id."""
    stand = Stand(monkeypatch)
    stand.is_known = False
    await stand.be_withdrawn(is_heard_first=False)

    assert [] == stand.received
    assert stand.lost.is_time


async def test_a_worker_that_was_declared_dead_opens_a_slot_under_its_new_id(
    sql: Session, client: Client, seen: Seen, make_worker: MakeWorker
) -> None:
    """The connection is the same, and still has the lock of the old id."""
    async with make_worker(nothing).start():
        for count in range(1, 4):
            await slot_is_open(sql)
            assert await sql.value("select asyncq._is_listening(id) from asyncq._workers")
            added = await client.add_job(nothing)
            await seen.wait_for(JobCompleted, count, limit_s=SOON_S)
            assert [added.id] == seen.ids(JobCompleted)[count - 1 :]
            await slot_is_open(sql)
            await sql.rows("select from asyncq.force_unlock_workers(array(select id::text from asyncq._workers))")
            await seen.wait_for(WorkerLost, count)


async def test_a_job_that_is_cancelled_before_its_claim_arrives_does_not_start(
    dsn: str, schema: str, sql: Session, client: Client, seen: Seen
) -> None:
    """The next beat brings the cancellation, and the claim arrives later."""
    async with link_to(dsn) as link:
        options: dict[str, Any] = {"schema": schema, "observers": [seen], "poll": 60, "lease": 1}
        async with Worker(link.dsn, [nothing], **options).start():
            await slot_is_open(sql)
            link.hold("listen", "answers")
            await client.add_job(nothing)
            await sql.rows("select from asyncq.cancel_jobs(array(select id from asyncq._all_jobs()))")
            await anyio.sleep(0.8)  # two beats
            link.deliver("listen")
            await wait_until(lambda: _is_empty(sql), description="the job to end")

    assert ([], 1) == (seen.ids(JobStarted), len(seen.of(JobsReturned)))


async def _is_empty(sql: Session) -> bool:
    return not await sql.rows("select from asyncq._all_jobs()")
