"""The fetcher: woken by what happens, never losing a wake-up or a claim."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from asyncq import AsyncqError, Client, Worker, task
from asyncq.domain.events import (
    FetchFailed,
    JobCompleted,
    JobsFetched,
    JobsReturned,
    JobStarted,
    WorkerLost,
    WorkerStopping,
)
from asyncq.domain.job import Claim
from asyncq.engine import supervisor
from asyncq.engine.fetch import cursor, fetcher, inbox, schedule
from asyncq.engine.fetch.cursor import Reach
from asyncq.engine.fetch.fetcher import Fetcher, current_flags
from asyncq.engine.fetch.schedule import Left, Schedule, left_by, wanted_now
from asyncq.store import database
from asyncq.store.claim import Fetched
from asyncq.store.database import ReconnectingConnection
from tests.engine.conftest import MakeWorker
from tests.support.faults import link_to, terminate
from tests.support.seen import Seen
from tests.support.waiting import wait_until

ON_CALL = 2  # the first fetch of a worker comes before it, so that the adds meanwhile notify nobody


@task
async def nothing() -> None:
    """The least job."""


def soon(milliseconds: int = 150) -> datetime:
    """A moment from now."""
    return datetime.now(UTC) + timedelta(milliseconds=milliseconds)


def intercept(monkeypatch: pytest.MonkeyPatch, after: Callable[[list[Claim]], Awaitable[None]]) -> None:
    """Let something happen after each fetch in the database, before the fetcher sees its answer."""
    real = fetcher.fetch_jobs

    async def fetch(*args: Any, **named: Any) -> Fetched:
        fetched = await real(*args, **named)
        await after(fetched.claims)
        return fetched

    monkeypatch.setattr(fetcher, "fetch_jobs", fetch)


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """No scan counts as expensive: the first one of a worker may be, and would be repeated without a reason."""
    monkeypatch.setattr(cursor, "CHEAP_S", 60.0)


# When


@pytest.mark.usefixtures("cheap")
async def test_a_notification_during_an_empty_fetch_is_not_lost(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that was committed after the fetch's snapshot would wait for the poll, here a minute."""
    worker = make_worker(nothing)
    adding, heard = asyncio.Event(), asyncio.Event()
    added: list[int] = []
    calls: list[int] = []

    async def add_while_it_is_under_way(claims: list[Claim]) -> None:
        calls.append(1)
        if len(calls) == ON_CALL:
            adding.set()
            added.append((await client.add_job(nothing)).id)
            await heard.wait()

    intercept(monkeypatch, add_while_it_is_under_way)
    real_wake = schedule.Schedule.wake

    def wake(self: schedule.Schedule) -> None:
        real_wake(self)
        if adding.is_set():
            heard.set()

    monkeypatch.setattr(schedule.Schedule, "wake", wake)
    async with worker.start():
        await seen.wait_for(JobCompleted)

    assert added == seen.ids(JobCompleted)


@pytest.mark.parametrize("delays_s", [(0.05,), (0.05, 3600.0)])
async def test_a_sleeping_fetcher_wakes_at_the_earliest_of_its_times(
    client: Client, make_worker: MakeWorker, seen: Seen, delays_s: tuple[float, ...]
) -> None:
    """An early retry is not delayed by a later one. The poll is a minute away."""
    async with make_worker(nothing, poll=60, listen=False).start() as worker:
        assert worker._running is not None
        fetches = worker._running.parts.schedule
        await wait_until(lambda: fetches.is_idle, description="the worker to sleep")
        added = await client.add_job(nothing)
        for delay_s in delays_s:
            fetches.wake_in(delay_s)
        await seen.wait_for(JobCompleted)

    assert [added.id] == seen.ids(JobCompleted)


@pytest.mark.usefixtures("cheap")
async def test_a_notification_while_the_alarm_is_set_is_not_lost(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the wake-up were cleared after the last fetch, the job would wait for the poll, here a minute."""
    real, real_wake = fetcher.next_due_s, schedule.Schedule.wake
    armed, asked, heard = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def add_behind_its_back(*args: Any) -> float | None:
        due_s = await real(*args)
        if armed.is_set() and not asked.is_set():
            asked.set()
            await client.add_job(nothing, queue="q")  # Without a queue it might be handed over, and nobody be woken.
            await heard.wait()
        return due_s

    def wake(self: schedule.Schedule) -> None:
        real_wake(self)
        if asked.is_set():
            heard.set()

    monkeypatch.setattr(fetcher, "next_due_s", add_behind_its_back)
    monkeypatch.setattr(schedule.Schedule, "wake", wake)
    async with make_worker(nothing).start() as worker:
        assert worker._running is not None
        fetches = worker._running.parts.schedule
        # Before it is idle, it fetches again after any notification.
        await wait_until(lambda: worker._running.parts.on_call._is_covered, description="the worker to be on call")
        armed.set()
        fetches.wake()
        await seen.wait_for(JobCompleted)

    assert heard.is_set()


async def test_a_job_starts_at_its_time_and_not_at_the_poll(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The worker knows when the next job is due; the poll, here a minute, is only the safety net."""
    async with make_worker(nothing).start():
        added = await client.add_job(nothing, run_at=soon())
        await seen.wait_for(JobCompleted)

    assert [added.id] == seen.ids(JobCompleted)


@pytest.mark.usefixtures("cheap")
async def test_a_due_time_that_becomes_known_during_a_poll_is_not_missed(
    make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer in flight does not include a retry that is written meanwhile."""
    asked: list[Any] = []
    really_poll = fetcher.poll
    worker = make_worker(nothing)

    def known() -> Schedule:
        assert worker._running is not None
        return worker._running.parts.schedule

    async def poll(*args: Any) -> Any:
        asked.append(await really_poll(*args))
        if len(asked) == 1:
            known().wake_in(0.05)
        return asked[-1]

    def a_poll() -> bool:
        if known().is_idle and not asked:
            known().wake_in(0.0)
        return bool(asked)

    monkeypatch.setattr(fetcher, "poll", poll)
    async with worker.start():
        await wait_until(a_poll, description="a poll")
        await wait_until(lambda: len(asked) >= 2, description="the look at that time")

    assert [None, None] == [due_s for due_s, _ in asked[:2]]


async def test_a_job_that_is_due_later_than_the_last_one_is_not_missed(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Each alarm sets the next one, for plain jobs and those of queues, of any priority."""
    times = {"queue": ["line", None, "line", None], "priority": [5, 0, -5, 9]}
    async with make_worker(nothing).start():
        for number in range(4):
            await client.add_job(
                nothing,
                run_at=soon(60 * (4 - number)),
                queue=times["queue"][number],
                priority=times["priority"][number],
            )
        await seen.wait_for(JobCompleted, 4)

    assert 4 == len(seen.of(JobStarted))


@pytest.mark.usefixtures("cheap")
async def test_a_job_that_becomes_due_while_the_alarm_is_set_is_not_missed(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs may become due between the fetch and the query for the next due time."""
    waited: list[int] = []

    async def wait_until_it_is_due(claims: list[Claim]) -> None:
        if not waited and not claims:
            waited.append(1)
            due = soon(50)
            await client.add_job(nothing, run_at=due)
            await wait_until(lambda: datetime.now(UTC) > due + timedelta(milliseconds=20), description="the due time")

    intercept(monkeypatch, wait_until_it_is_due)
    # A worker that listens fetches once more before it sleeps.
    async with make_worker(nothing, listen=False).start():
        await seen.wait_for(JobCompleted)

    assert [1] == waited


@pytest.mark.usefixtures("cheap")
async def test_a_job_that_becomes_due_while_the_query_is_in_flight_is_not_missed(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statement for the next due time may take far longer to the server than the fetch and its answer took."""
    due = soon(500)
    real = ReconnectingConnection.fetch
    fetched_at: list[datetime] = []
    asked: list[str] = []

    async def answer_late(claims: list[Claim]) -> None:
        if not fetched_at:
            fetched_at.append(datetime.now(UTC))
            await wait_until(
                lambda: datetime.now(UTC) > due - timedelta(milliseconds=20), description="almost the due time"
            )

    async def send_late(line: ReconnectingConnection, name: str, *args: Any) -> list[asyncpg.Record]:
        if name == "next_due" and not asked:
            asked.append(name)
            arrives = due + (due - fetched_at[0]) * 3
            await wait_until(lambda: datetime.now(UTC) > arrives, description="the statement to arrive")
        return await real(line, name, *args)

    await client.add_job(nothing, run_at=due)
    intercept(monkeypatch, answer_late)
    monkeypatch.setattr(ReconnectingConnection, "fetch", send_late)
    # A worker that listens fetches once more before it rests.
    async with make_worker(nothing, listen=False).start():
        await seen.wait_for(JobCompleted)

    assert (1, ["next_due"]) == (len(fetched_at), asked)


async def test_without_listening_the_poll_finds_added_jobs(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """Behind a pooler there are no notifications, so `listen=False` must work."""
    async with make_worker(nothing, listen=False, poll=0.1).start():
        added = await client.add_job(nothing)
        await seen.wait_for(JobCompleted)

    assert [added.id] == seen.ids(JobCompleted)


async def test_a_due_job_that_became_visible_late_is_found_by_the_poll(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """A transaction that adds without a notification, as a restored backup does, costs a poll at most."""
    async with make_worker(nothing, poll=0.1).start():
        await client.add_job(nothing)
        await seen.wait_for(JobCompleted)
        await db.execute(f"""
            insert into {schema}._jobs (run_at, created_at, updated_at, task_id, payload)
            select now(), now(), now(), id, '{{}}' from {schema}._tasks""")
        await seen.wait_for(JobCompleted, 2)

    assert 2 == len(seen.of(JobStarted))


# No claim is lost


async def test_stopping_in_any_moment_of_a_fetch_loses_no_claim(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """A lost claim would wait for the lease; the check after this test finds it."""
    for _ in range(25):
        async with make_worker(nothing, concurrency=3).start():
            for _ in range(5):
                await client.add_job(nothing)
            await asyncio.sleep(random.uniform(0, 0.004))
    await make_worker(nothing).run_once()

    assert 125 == len(set(seen.ids(JobCompleted)))


async def test_cancelling_in_any_moment_of_a_fetch_loses_no_claim(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The same for a `run()` whose asyncio task is cancelled."""
    for _ in range(25):
        started = len(seen.of(JobsFetched))
        await client.add_job(nothing)
        running = asyncio.get_running_loop().create_task(make_worker(nothing, concurrency=3).run())
        await seen.wait_for(JobsFetched, started + 1)
        for _ in range(5):
            await client.add_job(nothing)
        await asyncio.sleep(random.uniform(0, 0.002))
        running.cancel()
        await asyncio.wait({running})
    await make_worker(nothing).run_once()

    assert 150 == len(set(seen.ids(JobCompleted)))


async def test_claims_that_arrive_while_the_worker_stops_are_returned_with_their_attempts_untouched(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They never started, so another worker must find them unchanged."""
    asked = asyncio.Event()

    async def stop_meanwhile(claims: list[Claim]) -> None:
        if claims:
            asked.set()
            await seen.wait_for(WorkerStopping)

    intercept(monkeypatch, stop_meanwhile)
    added = await client.add_job(nothing)
    async with make_worker(nothing).start():
        await asked.wait()
    job = await client.get_job(added.id)

    assert ([], 0, 0) == (seen.of(JobStarted), job.attempts, job.interruptions)
    assert [((added.id,), "the worker stops")] == [(event.job_ids, event.reason) for event in seen.of(JobsReturned)]


async def test_a_fetch_whose_answer_is_lost_does_not_hold_its_jobs_for_ever(
    dsn: str, schema: str, client: Client, seen: Seen
) -> None:
    """The claims were committed, and their worker lives: no rescue would ever find them."""

    @task(queue="line")
    async def say(word: str) -> None:
        pass

    async with link_to(dsn) as link, Worker(link.dsn, [say], schema=schema, observers=[seen], poll=60).start():
        link.cut_at_answer_with(b"swallowed")
        added = await client.add_job(say, "swallowed")
        await seen.wait_for(JobCompleted)
        was_cut = link.was_cut.is_set()

    assert was_cut
    assert [added.id] == seen.ids(JobCompleted)
    assert [((added.id,), "the answer to their fetch was lost")] == [
        (event.job_ids, event.reason) for event in seen.of(JobsReturned)
    ]


async def test_claims_lost_by_the_last_fetch_are_returned_at_the_stop(
    dsn: str, schema: str, client: Client, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker's row is about to be deleted. The jobs would wait for a thorough rescue by another worker."""

    @task
    async def say(word: str) -> None:
        pass

    monkeypatch.setattr(fetcher, "backoff_s", lambda *args: 3600.0)
    async with link_to(dsn) as link, Worker(link.dsn, [say], schema=schema, observers=[seen], poll=60).start():
        link.cut_at_answer_with(b"swallowed")
        added = await client.add_job(say, "swallowed", queue="q")
        await seen.wait_for(FetchFailed)

    assert [(added.id,)] == [event.job_ids for event in seen.of(JobsReturned)]


async def test_lost_claims_are_returned_while_no_slot_is_free(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """They may be committed late, when other jobs use the slots, and no other worker can return them."""
    leave = asyncio.Event()

    @task
    async def block() -> None:
        await leave.wait()

    async with make_worker(block, concurrency=1).start() as busy, make_worker(nothing).start() as idle:
        await client.add_job(block)
        await seen.wait_for(JobStarted)
        await wait_until(lambda: idle._running.parts.schedule.is_idle, description="the other worker to be idle")
        worker_id = busy._running.parts.identity.worker_id
        async with db.transaction():
            lost = await client.add_job(nothing, connection=db)
            await db.execute(
                f"update {schema}._jobs set locked_by = $1, locked_at = now(), lock_token = -1 where id = $2",
                *(worker_id, lost.id),
            )
        busy._running.parts.unconfirmed.note(worker_id, -1)
        busy._running.parts.schedule.wake()
        await seen.wait_for(JobCompleted)
        leave.set()

    assert (lost.id,) == seen.of(JobsReturned)[0].job_ids
    assert lost.id == seen.ids(JobCompleted)[0]


async def test_a_worker_whose_fetch_connection_is_ended_continues(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """A server restart or an idle timeout of a firewall is everyday life."""
    async with make_worker(nothing).start():
        for count in range(1, 4):
            await terminate(db, schema, "fetch")
            await client.add_job(nothing)
            await seen.wait_for(JobCompleted, count)

    assert 3 == len(seen.of(JobCompleted))


async def test_a_fetch_on_a_half_open_connection_ends_at_its_deadline_and_the_worker_continues(
    dsn: str, schema: str, client: Client, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A firewall that forgets a connection drops its packets in silence: the next try must use a new one."""
    monkeypatch.setattr(database, "ANSWER_S", 0.3)
    async with link_to(dsn) as link, Worker(link.dsn, [nothing], schema=schema, observers=[seen], poll=60).start():
        await client.add_job(nothing)
        await seen.wait_for(JobCompleted)
        link.freeze_open("fetch")
        await client.add_job(nothing, queue="q")  # Without a queue it might be handed over, and not be fetched.
        await seen.wait_for(FetchFailed)
        await seen.wait_for(JobCompleted, 2)

    assert 2 == len(seen.of(JobStarted))


# Tasks and flags


def fetch_ahead(monkeypatch: pytest.MonkeyPatch, ahead: int) -> None:
    """Let the first fetch that finds something take more than there are slots, as it does at a fast pace."""

    def wanted(waiting: int, *_: float) -> int:
        return waiting and waiting + ahead

    monkeypatch.setattr(schedule, "wanted_now", wanted)


async def test_claims_for_free_slots_are_not_returned_however_late_the_worker_runs(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine some time passes between waking those slots and the first claim that they take."""
    monkeypatch.setattr(inbox, "STALE_S", 0.0)
    ids = [added.id for added in await client.add_jobs([nothing.job() for _ in range(105)])]
    fetch_ahead(monkeypatch, 5)
    await make_worker(nothing, concurrency=100).run_once()

    assert {*ids} == {*seen.ids(JobCompleted)}
    assert {*ids[100:]} >= {job_id for event in seen.of(JobsReturned) for job_id in event.job_ids}


async def test_claims_that_do_not_start_are_returned_and_another_worker_takes_them_at_once(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If all slots become busy for long, jobs that were fetched ahead must not wait for them."""
    leave = asyncio.Event()

    @task
    async def block() -> None:
        await leave.wait()

    blocking = await client.add_job(block, priority=-1)
    ids = [(await client.add_job(nothing)).id for _ in range(3)]
    with monkeypatch.context() as patch:
        fetch_ahead(patch, 10)
        async with make_worker(block, nothing, concurrency=1).start():
            await seen.wait_for(JobStarted)
            async with make_worker(nothing).start():
                await seen.wait_for(JobCompleted, 3)
                leave.set()
                await seen.wait_for(JobCompleted, 4)

    assert ids == sorted(seen.ids(JobCompleted)[:3])
    assert blocking.id == seen.ids(JobCompleted)[3]


async def test_a_job_of_higher_priority_overtakes_a_backlog(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Only buffered jobs, and those of the time until the next scan from the start, come first."""
    release = asyncio.Semaphore(0)

    @task
    async def step() -> None:
        await release.acquire()

    async def is_overtaken() -> bool:
        release.release()
        return urgent.id in seen.ids(JobCompleted)

    await client.add_jobs([step.job()] * 3000)
    async with make_worker(step, nothing, concurrency=1, grace=0).start():
        await seen.wait_for(JobStarted)
        urgent = await client.add_job(nothing, priority=-10)
        await wait_until(is_overtaken, description="the urgent job to run")
        before_it = seen.ids(JobCompleted).index(urgent.id)

    assert 2999 > before_it


async def test_jobs_start_in_the_order_of_priority_run_at_and_id(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The documentation promises this order; it holds over several fetches of a drain."""
    specs = [nothing.job().with_options(priority=random.randint(-2, 2)) for _ in range(200)]
    ids = [added.id for added in await client.add_jobs(specs)]
    await make_worker(nothing, concurrency=1).run_once()
    expected = [job_id for _, job_id in sorted(zip([spec.priority or 0 for spec in specs], ids, strict=True))]

    assert expected == seen.ids(JobStarted)


# How many


@pytest.mark.parametrize(
    ("saw_all", "reach", "may_begin_at_start", "left"),
    [
        (False, "everything", True, "more"),
        (False, "recent", False, "more"),
        (False, "next", False, "more"),
        (True, "everything", True, "nothing"),
        (True, "everything", False, "nothing"),
        (True, "recent", True, "more"),
        (True, "next", True, "more"),
        (True, "recent", False, "unseen"),
        (True, "next", False, "unseen"),
    ],
)
def test_a_fetch_leaves_the_jobs_that_the_table_says(
    saw_all: bool, reach: Reach, may_begin_at_start: bool, left: Left
) -> None:
    """Only a scan from the start can leave nothing in the table of `left_by`."""
    assert left == left_by(saw_all, reach, may_begin_at_start=may_begin_at_start)


@pytest.mark.parametrize(
    ("waiting", "buffered", "pace", "batch", "expected"),
    [
        (10, 0, 0.0, 500, 10),  # idle: as many as there are free slots
        (0, 0, 0.0, 500, 0),  # all busy, slow handlers: nothing ahead
        (10, 10, 0.0, 500, 0),  # the slots are about to take what is there
        (10, 4, 0.0, 500, 6),
        (0, 0, 4_000.0, 500, 100),  # fast handlers: 25 ms of work ahead
        (0, 60, 4_000.0, 500, 0),  # more than half of it is there
        (0, 50, 4_000.0, 500, 50),  # half of it: fetch the other half
        (0, 40, 4_000.0, 500, 60),
        (10, 0, 4_000.0, 500, 110),
        (10, 0, 1e9, 500, 500),  # never more than a batch
        (1000, 0, 0.0, 500, 500),
        (0, 900, 1e9, 500, 0),  # more than enough is there
    ],
)
async def test_how_many_jobs_are_wanted_now(
    waiting: int, buffered: int, pace: float, batch: int, expected: int
) -> None:
    """It is enough for the free slots and for 25 ms of their work, or zero while half of that is buffered."""
    assert expected == wanted_now(waiting, buffered, pace, batch, 0.0)


@pytest.mark.parametrize(
    ("buffered", "pace", "takes_s", "expected"),
    [
        (500, 80_000.0, 0.004, 320),  # Jobs that start until the answer make room for as many.
        (500, 80_000.0, 0.003, 0),  # Less than half of the wanted number: not yet.
        (250, 80_000.0, 0.004, 500),  # Never more than a batch.
        (100, 4_000.0, 0.010, 0),  # A short round trip and slow handlers: no fetch ahead.
        (90, 4_000.0, 0.010, 50),
        (0, 4_000.0, 0.040, 260),  # A slow fetch: as many more as start until the next answer.
        (600, 4_000.0, 9.0, 0),  # A delayed fetch counts for no more than 50 ms.
        (120, 4_000.0, 9.0, 180),
    ],
)
async def test_a_fetch_is_sent_early_enough_to_arrive_before_the_slots_run_dry(
    buffered: int, pace: float, takes_s: float, expected: int
) -> None:
    """The worker and the server work in parallel. At most one batch waits for slots."""
    assert expected == wanted_now(0, buffered, pace, 500, takes_s)


# Forbidden flags


async def test_forbidden_flags_may_be_a_list_a_function_or_an_async_function() -> None:
    """graphile-worker has the same three forms."""

    async def ask() -> list[str]:
        await asyncio.sleep(0)
        return ["a"]

    answers = [await current_flags(given) for given in (["a"], lambda: ("a",), ask, lambda: {"a"})]

    assert [["a"]] * 4 == answers


async def test_an_empty_list_of_forbidden_flags_is_none() -> None:
    """The statement then needs no condition."""
    answers = [await current_flags(given) for given in (None, [], lambda: None, list)]

    assert [None] * 4 == answers


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(1), asyncio.CancelledError(), KeyboardInterrupt()])
async def test_an_exception_of_a_function_for_forbidden_flags_is_an_error_of_the_fetch(error: BaseException) -> None:
    """A CancelledError of user code would otherwise end the worker silently."""

    async def fail() -> list[str]:
        raise error

    with pytest.raises(AsyncqError, match="forbidden_flags failed"):
        await current_flags(fail)


@pytest.mark.parametrize("answer", ["abc", 5, object(), [None], [["a"]], {1}])
async def test_an_answer_of_forbidden_flags_that_is_no_list_is_an_error_of_the_fetch(answer: Any) -> None:
    """A str would be taken letter by letter, and forbid nothing."""
    with pytest.raises(AsyncqError, match="must return a list"):
        await current_flags(lambda: answer)


async def test_forbidden_flags_are_asked_before_each_fetch(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """A circuit breaker opens and closes while the worker runs."""
    forbidden = {"slow"}
    async with make_worker(nothing, forbidden_flags=lambda: sorted(forbidden), poll=0.1).start():
        flagged = await client.add_job(nothing, flags=["slow"])
        free = await client.add_job(nothing)
        await seen.wait_for(JobCompleted)
        forbidden.clear()
        another = await client.add_job(nothing)
        await seen.wait_for(JobCompleted, 3)

    assert free.id == seen.ids(JobCompleted)[0]
    assert {flagged.id, another.id} == set(seen.ids(JobCompleted)[1:])


async def test_a_worker_stores_which_flags_it_forbids(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """They explain why a job does not run. They are stored again when they change, and under a new id."""
    forbidden = ["slow"]
    flags = f"select forbidden_flags from {schema}._workers"
    job = await client.add_job(nothing, flags=["slow"])

    async def is_told() -> bool:
        return forbidden == (await db.fetchval(flags) or [])

    async with make_worker(nothing, forbidden_flags=lambda: forbidden, lease=1, poll=0.1).start():
        await wait_until(is_told, description="the flags of the first fetch")
        explained = await client.admin.explain(job.id)
        await db.execute(f"delete from {schema}._workers")
        await seen.wait_for(WorkerLost)
        await wait_until(is_told, description="the flags under the new id")
        forbidden.clear()
        await wait_until(is_told, description="that nothing is forbidden")
        await seen.wait_for(JobCompleted)

    assert ["forbidden_flag"] == [reason.reason for reason in explained.reasons]


async def test_flags_that_do_not_change_are_stored_once(
    client: Client, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle worker fetches repeatedly."""
    told: list[Any] = []
    real = fetcher.set_forbidden_flags

    async def tell(line: Any, worker_id: int, flags: Any) -> None:
        told.append(flags)
        await real(line, worker_id, flags)

    monkeypatch.setattr(fetcher, "set_forbidden_flags", tell)
    for _ in range(3):
        await client.add_job(nothing)
    await make_worker(nothing, forbidden_flags=["a"], concurrency=1).run_once()
    await make_worker(nothing).run_once()

    assert [["a"]] == told


async def test_while_forbidden_flags_fail_nothing_is_fetched(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Fetching forbidden jobs would be worse.

    The failure is reported, and fetching continues when the function works.
    """
    fails = [True, True]

    def ask() -> list[str]:
        if fails:
            fails.pop()
            raise ValueError("no answer")
        return []

    added = await client.add_job(nothing)
    await make_worker(nothing, forbidden_flags=ask).run_once()

    assert 2 == len(seen.of(FetchFailed))
    assert [added.id] == seen.ids(JobCompleted)


async def test_a_function_for_forbidden_flags_that_hangs_does_not_keep_the_worker_from_stopping(
    make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may ask an unreachable service, and the stop must not wait for it."""
    asked, ended = asyncio.Event(), asyncio.Event()

    async def hang() -> list[str]:
        try:
            asked.set()
            await asyncio.Event().wait()
        finally:
            ended.set()
        return []

    monkeypatch.setattr(supervisor, "FLUSH_S", 3600)
    async with make_worker(nothing, forbidden_flags=hang).start():
        await asked.wait()
    await ended.wait()

    assert ended.is_set()


@pytest.mark.usefixtures("cheap")
async def test_a_retry_that_is_written_while_a_fetch_is_in_flight_is_not_missed(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its settlement began before the fetch was sent, and is committed after it: no later question finds it new."""
    added = await client.add_job(nothing, run_at=datetime.now(UTC) + timedelta(hours=1))
    real = Fetcher._claim

    async def claim(self: Fetcher, *args: Any, **options: Any) -> Fetched:
        fetched = await real(self, *args, **options)
        if not fetched.claims:
            await db.execute(f"update {schema}._jobs set run_at = run_at - interval '2 hours' where run_at > now()")
            self._schedule.wake_in(0.0)
        return fetched

    monkeypatch.setattr(Fetcher, "_claim", claim)
    async with make_worker(nothing, poll=60, listen=False).start():
        await seen.wait_for(JobCompleted)

    assert [added.id] == seen.ids(JobCompleted)
