"""The on-call worker: one idle worker is notified for all, and no add is missed. The poll is a minute."""

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import anyio
import asyncpg
import pytest
from anyio.abc import TaskGroup

from asyncq import Client, JobContext, StoreUnavailable, Worker, task
from asyncq.domain.events import (
    FetchFailed,
    JobCompleted,
    JobRetried,
    JobStarted,
    ListenConnected,
    WorkerStopped,
    WorkerStopping,
)
from asyncq.engine.fetch import cursor, oncall, schedule
from asyncq.engine.fetch.fetcher import Fetcher
from asyncq.engine.fetch.oncall import OnCall
from asyncq.store.database import ReconnectingConnection
from asyncq.store.listen import ALL, Listening, OnCallStatus
from tests.engine.conftest import MakeWorker
from tests.support.faults import link_to, terminate
from tests.support.seen import Seen
from tests.support.session import Session, session
from tests.support.waiting import wait_until

ONE_LOOKS = 1
LEVELS = ["read_committed", "repeatable_read", "serializable"]


@task
async def nothing() -> None:
    """The least job."""


@task
async def other() -> None:
    """A task of another worker."""


async def settled(sql: Session) -> None:
    """Wait until a worker is on call, and sends no more queries."""
    await wait_until(lambda: sql.value("select asyncq._has_on_call()"), description="a worker on call")
    await anyio.sleep(0.3)


class Looks:
    """Counts the fetches of each worker of this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.of: Counter[int] = Counter()
        settle: set[int] = set()  # The connections on which ends are written, and a worker may peek.
        real = ReconnectingConnection.fetch

        async def fetch(line: ReconnectingConnection, name: str, *args: Any) -> Any:
            if name in ("claim_next", "settle_completed"):
                settle.add(id(line))
                del self.of[id(line)]
            elif name in ("fetch_jobs", "fetch_partitions", "next_due") and id(line) not in settle:
                self.of[id(line)] += 1
            return await real(line, name, *args)

        monkeypatch.setattr(ReconnectingConnection, "fetch", fetch)

    async def have_ended(self) -> bool:
        """Whether no worker fetches any more; earlier fetches of a worker do not count."""
        before = self.of.total()
        await anyio.sleep(0.3)
        if before == self.of.total():
            self.of.clear()
            return True
        return False


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """No scan counts as expensive: on a busy machine idle workers would fetch again a second later."""
    monkeypatch.setattr(cursor, "CHEAP_S", 60.0)


@pytest.mark.parametrize("queue", [None, "q"])
async def test_one_of_many_idle_workers_fetches_an_added_job(
    dsn: str,
    schema: str,
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    queue: str | None,
) -> None:
    """The others would find nothing, nor would they after its end. On the connection of a caller it takes no slot."""
    counted = Looks(monkeypatch)
    async with session(dsn, schema) as sql, AsyncExitStack() as stack:
        for _ in range(5):
            await stack.enter_async_context(make_worker(nothing, poll=60).start())
        await settled(sql)
        await wait_until(counted.have_ended, description="the workers to rest")
        await client.add_job(nothing, queue=queue, connection=db, autocommit=True)
        await seen.wait_for(JobCompleted)
        await anyio.sleep(0.1)

    assert ONE_LOOKS == len(counted.of)


async def test_an_idle_worker_sends_one_query_in_the_time_of_a_poll(
    dsn: str, schema: str, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks whether any job is due, and fetches only then. The first maintenance may still go on."""
    asked: list[str] = []
    real = ReconnectingConnection.fetch

    async def fetch(line: ReconnectingConnection, name: str, *args: Any) -> Any:
        if name != "clock":  # once a minute, for recurring items
            asked.append(name)
        return await real(line, name, *args)

    async with session(dsn, schema) as sql, make_worker(nothing, poll=0.05).start():
        await settled(sql)
        monkeypatch.setattr(ReconnectingConnection, "fetch", fetch)
        await wait_until(lambda: asked[-5:] == ["next_due"] * 5, description="the worker to rest")
        asked.clear()
        began_at = time.monotonic()
        await anyio.sleep(0.5)
        names, count, took_s = set(asked), len(asked), time.monotonic() - began_at

    assert {"next_due"} == names
    assert count <= took_s / 0.05 + 1


@pytest.mark.parametrize("level", LEVELS)
async def test_a_job_whose_add_notified_nobody_is_found_when_it_is_committed(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, level: Any
) -> None:
    """It was added when no worker was asleep, and committed when all were."""
    await make_worker(nothing).run_once()  # Its name is known: else a worker would ask for that until the commit.
    async with session(dsn, schema) as sql:
        transaction = db.transaction(isolation=level)
        await transaction.start()
        added = await client.add_job(nothing, connection=db)
        async with make_worker(nothing, poll=60).start():
            await settled(sql)
            await transaction.commit()
            await seen.wait_for(JobCompleted, limit_s=5)

    assert [added.id] == seen.ids(JobCompleted)


async def test_a_worker_without_a_free_slot_hands_over(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The next job is for another worker, which was not notified of adds until then."""
    release = asyncio.Event()

    @task
    async def wait() -> None:
        await release.wait()

    async with session(dsn, schema) as sql:
        first, second, third = [make_worker(wait, poll=60, concurrency=1) for _ in range(3)]
        async with first.start(), second.start(), third.start():
            await settled(sql)
            for number in range(1, 4):
                await client.add_job(wait)
                await seen.wait_for(JobStarted, number)
            release.set()
            await seen.wait_for(JobCompleted, 3)


async def test_a_worker_that_is_full_for_a_moment_hands_over_unless_jobs_of_queues_follow_each_other(
    make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it were notified of each add, it would fetch a few jobs at a time while others idle."""
    met, handed_over, real = list[Fetcher](), asyncio.Event(), Fetcher.run
    answers: list[int] = []

    async def run(own: Fetcher, *args: Any) -> None:
        met.append(own)
        await real(own, *args)

    monkeypatch.setattr(Fetcher, "run", run)
    monkeypatch.setattr(OnCall, "no_room", lambda _: handed_over.set())
    monkeypatch.setattr(OnCall, "is_in_charge", True)
    monkeypatch.setattr(schedule, "wanted_now", lambda *_: answers.pop() if answers else 1)
    async with make_worker(nothing).start():
        await anyio.sleep(0.3)
        handed_over.clear()
        answers.append(0)
        met[0]._schedule.wake_in(60)
        async with asyncio.timeout(5):
            await handed_over.wait()


async def test_a_worker_that_stops_hands_over_before_it_ends(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection may be slow. Another worker relies on it until then."""
    real = Listening.leave_on_call

    async def leave_late(own: Listening, *, was_mine: bool, notify_all: bool) -> None:
        await anyio.sleep(0.5)
        await real(own, was_mine=was_mine, notify_all=notify_all)

    async with session(dsn, schema) as sql, make_worker(nothing, poll=60).start() as first:
        await settled(sql)
        async with make_worker(nothing, poll=60).start():
            await settled(sql)
            monkeypatch.setattr(Listening, "leave_on_call", leave_late)
            await first.stop()
            await settled(sql)
            await client.add_job(nothing, job_key="k")  # no slot takes it
            await seen.wait_for(JobCompleted)


async def test_a_worker_that_is_put_on_call_while_it_stops_hands_over(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is in flight at that moment."""
    real, answers = Listening.go_on_call, asyncio.Event()
    posts: list[OnCallStatus] = []

    async def answered_late(own: Listening, *, was_mine: bool) -> OnCallStatus:
        posts.append(post := await real(own, was_mine=was_mine))
        if len(posts) == 1:
            await answers.wait()
        return post

    monkeypatch.setattr(Listening, "go_on_call", answered_late)
    async with session(dsn, schema) as sql, make_worker(nothing, poll=60).start() as first:
        await wait_until(lambda: bool(posts), description="a worker to be on call")
        async with make_worker(nothing, poll=60).start(), anyio.create_task_group() as group:
            await settled(sql)
            group.start_soon(first.stop)
            await seen.wait_for(WorkerStopping)
            answers.set()
            await seen.wait_for(WorkerStopped)
            await settled(sql)
            await client.add_job(nothing, job_key="k")
            await seen.wait_for(JobCompleted)

    assert (True, False) == (posts[0].is_mine, posts[1].is_mine)


async def test_a_worker_that_stops_hands_over_before_its_handlers_have_ended(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """They may take as long as the grace, and nobody would be notified of adds meanwhile."""
    release = asyncio.Event()

    @task
    async def wait() -> None:
        await release.wait()

    async with session(dsn, schema) as sql, make_worker(wait, poll=60).start() as first:
        held = await client.add_job(wait)
        await seen.wait_for(JobStarted)
        await settled(sql)
        async with make_worker(wait, poll=60).start(), asyncio.TaskGroup() as group:
            await settled(sql)
            group.create_task(first.stop())
            await seen.wait_for(WorkerStopping)
            added = await client.add_job(wait, job_key="k")  # no slot takes it
            await seen.wait_for(JobStarted, 2)
            release.set()

    assert [held.id, added.id] == seen.ids(JobStarted)


async def test_a_worker_that_cannot_fetch_hands_over(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection
) -> None:
    """It would only retry its fetch, while another worker could run the job at once."""
    failing = Seen()
    async with (
        session(dsn, schema) as sql,
        link_to(dsn) as link,
        Worker(link.dsn, [nothing], schema=schema, observers=[failing], poll=60).start(),
    ):
        await settled(sql)
        async with make_worker(nothing, poll=60).start():
            await settled(sql)
            link.refuse("fetch")
            added = await client.add_job(nothing, connection=db, autocommit=True)
            await failing.wait_for(FetchFailed)
            await seen.wait_for(JobCompleted)
            link.mend()

    assert ([added.id], []) == (seen.ids(JobCompleted), failing.ids(JobCompleted))


async def test_workers_of_several_kinds_are_all_notified_of_adds(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """A worker that does not know a task cannot fetch its jobs."""
    async with (
        session(dsn, schema) as sql,
        make_worker(nothing, poll=60).start(),
        make_worker(other, poll=60).start(),
    ):
        await settled(sql)
        for number in range(1, 5):
            await client.add_job(nothing if number % 2 else other)
            await seen.wait_for(JobCompleted, number)


async def test_a_worker_whose_listen_connection_was_cut_is_on_call_again(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection
) -> None:
    """The server ended its turn on call with the connection."""
    async with session(dsn, schema) as sql, make_worker(nothing, poll=60).start():
        await settled(sql)
        await terminate(db, schema, "listen")
        await seen.wait_for(ListenConnected, 2)
        await settled(sql)
        await client.add_job(nothing)
        await seen.wait_for(JobCompleted)


async def test_a_burst_of_adds_from_many_connections_is_worked_off_without_the_poll(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Most of them notify nobody, each at another moment of a worker that falls asleep or wakes."""
    connections = [await asyncpg.connect(dsn) for _ in range(8)]

    async def produce(connection: asyncpg.Connection) -> None:
        for number in range(25):
            async with connection.transaction():
                await client.add_job(nothing, connection=connection)
                await anyio.sleep(0.004 * (number % 3))
            await anyio.sleep(0.003 * (number % 5))

    async with make_worker(nothing, poll=60).start(), make_worker(nothing, poll=60, concurrency=1).start():
        async with anyio.create_task_group() as group:
            for connection in connections:
                group.start_soon(produce, connection)
        await seen.wait_for(JobCompleted, 200)
    for connection in connections:
        await connection.close()


class FakeEar:
    """Stands in for the listener: gives prepared answers, and records calls."""

    def __init__(self, *posts: OnCallStatus) -> None:
        self.posts = list(posts)
        self.left: list[tuple[bool, bool]] = []
        self.is_dropped = False

    def drop(self) -> None:
        """Note it."""
        self.is_dropped = True

    async def go_on_call(self, *, was_mine: bool) -> OnCallStatus:
        """The next answer."""
        return self.posts.pop(0)

    async def leave_on_call(self, *, was_mine: bool, notify_all: bool) -> None:
        """Note it."""
        self.left.append((was_mine, notify_all))


class Stand:
    """The on-call state with a fake ear."""

    def __init__(self, *posts: OnCallStatus) -> None:
        self.wakes: list[float | None] = []
        self.ear = FakeEar(*posts)
        self.group: TaskGroup | None = None
        self.on_call = OnCall(lambda: self.wakes.append(None), self.wakes.append, self._start_soon)
        self.on_call.connected(self.ear)  # type: ignore[arg-type]
        self.wakes.clear()

    def _start_soon(self, *args: Any) -> None:
        if self.group is not None:
            self.group.start_soon(*args)


OUT, COVERED = OnCallStatus(True, True, False), OnCallStatus(False, True, False)  # noqa: FBT003
UNQUIET, MIXED = OnCallStatus(True, False, False), OnCallStatus(False, True, True)  # noqa: FBT003


async def rest(stand: Stand) -> list[bool]:
    """Try to sleep, fetch once more, sleep."""
    return [await stand.on_call.may_rest(), await stand.on_call.may_rest()]


async def test_a_worker_fetches_once_more_after_it_went_on_call() -> None:
    """It is on call itself, or relies on another worker. Earlier adds notified nobody."""
    for post in (OUT, COVERED, MIXED):
        assert [False, True] == await rest(Stand(post))


async def test_while_silent_adds_are_open_a_worker_fetches_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their end is not notified. The clock is frozen, so that a busy machine does not matter."""
    monkeypatch.setattr(oncall, "loop_time", lambda: 0.0)
    stand = Stand(UNQUIET)
    await rest(stand)

    assert [True] == [0 < (wake or 0) < 0.02 for wake in stand.wakes]


async def test_a_worker_that_another_one_covers_ignores_adds() -> None:
    """A message to all workers is the exception."""
    stand = Stand(COVERED, COVERED)
    await rest(stand)
    stand.on_call.heard("")
    silent = len(stand.wakes)
    stand.on_call.heard(ALL)

    assert (0, 1) == (silent, len(stand.wakes))
    assert not await stand.on_call.may_rest()


async def test_adds_that_come_faster_than_a_worker_falls_asleep_need_not_notify_it() -> None:
    """One add does not end the turn: at a slow pace each would be followed by a new one."""
    stand = Stand(OUT)
    async with anyio.create_task_group() as group:
        stand.group = group
        await rest(stand)
        for _ in range(2):
            stand.on_call.heard("")
            await stand.on_call.may_rest()
        easy = list(stand.ear.left)
        for _ in range(2):
            stand.on_call.heard("")

    assert ([], [(True, False)]) == (easy, stand.ear.left)


async def test_a_worker_that_was_on_call_hands_over_when_it_has_no_room_although_adds_are_silent() -> None:
    """It is in charge until it sleeps again. A worker that never was on call has nothing to hand over."""
    stand, covered = Stand(OUT), Stand(COVERED)
    async with anyio.create_task_group() as group:
        for one in (stand, covered):
            one.group = group
            await rest(one)
            for _ in range(2):
                one.on_call.heard("")
            one.on_call.no_room()
            one.on_call.no_room()

    assert ([(True, False), (False, True)], []) == (stand.ear.left, covered.ear.left)


async def test_a_stopping_worker_hands_over_although_workers_were_of_several_kinds_when_it_asked() -> None:
    """Others may rely on this worker again since then. A worker without room stays notified for its kind."""
    stand = Stand(OnCallStatus(is_mine=True, adds_settled=True, is_mixed=True))
    async with anyio.create_task_group() as group:
        stand.group = group
        await rest(stand)
        await anyio.sleep(0.01)
        stand.ear.left.clear()
        stand.on_call.no_room()
        await anyio.sleep(0.01)
        kept = list(stand.ear.left)
        await stand.on_call.stop()

    assert ([], [(True, True)]) == (kept, stand.ear.left)


@pytest.mark.parametrize("post", [OUT, COVERED])
async def test_a_message_that_arrives_while_a_worker_asks_counts_before_the_answer(post: OnCallStatus) -> None:
    """The on-call worker has left meanwhile. This worker may be on call by now, which must not be forgotten."""
    stand = Stand(post, COVERED)
    ask = stand.ear.go_on_call
    asked: list[bool] = []

    async def hear_and_ask(*, was_mine: bool) -> OnCallStatus:
        asked.append(was_mine)
        if len(asked) == 1:
            stand.on_call.heard(ALL)
        return await ask(was_mine=was_mine)

    stand.ear.go_on_call = hear_and_ask  # type: ignore[method-assign]
    first = await stand.on_call.may_rest()
    await anyio.sleep(0.01)

    assert [False, False, True] == [first, *await rest(stand)]
    assert [False, post.is_mine] == asked


async def test_a_connection_that_did_not_answer_is_dropped() -> None:
    """It may be on call, unknown to the worker. The server releases that lock with the connection."""
    stand = Stand()

    async def fail(*, was_mine: bool) -> OnCallStatus:
        raise StoreUnavailable("no answer")

    stand.ear.go_on_call = fail  # type: ignore[method-assign]

    assert await stand.on_call.may_rest()
    assert stand.ear.is_dropped


async def test_the_first_worker_of_another_kind_notifies_all() -> None:
    """The others rely on one of them to fetch for all."""
    stand = Stand(MIXED)
    async with anyio.create_task_group() as group:
        stand.group = group
        await rest(stand)
        stand.on_call.heard("")

    assert ([(False, True)], [None]) == (stand.ear.left, stand.wakes)


@pytest.mark.parametrize("stops", ["before it is written", "afterwards"])
async def test_a_retry_starts_at_its_time_although_the_worker_that_knew_it_has_stopped(
    client: Client, make_worker: MakeWorker, seen: Seen, schema: str, dsn: str, stops: str
) -> None:
    """The other one sleeps with an earlier alarm. In a rolling deploy retries would wait for its poll."""
    leave = asyncio.Event()

    @task(retry=[0.5])
    async def flaky(ctx: JobContext) -> None:
        if ctx.attempt == 1:
            await leave.wait()
            raise ValueError

    async with make_worker(flaky).start() as first, session(dsn, schema) as sql:
        added = await client.add_job(flaky)
        await seen.wait_for(JobStarted)
        async with make_worker(flaky).start():
            await settled(sql)
            if stops == "afterwards":
                leave.set()
                await seen.wait_for(JobRetried)
            async with anyio.create_task_group() as group:
                group.start_soon(first.stop)
                await seen.wait_for(WorkerStopping)
                leave.set()
            await seen.wait_for(JobCompleted)

    assert [added.id, added.id] == seen.ids(JobStarted)
