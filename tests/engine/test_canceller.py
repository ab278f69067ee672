"""The canceller: a running handler is cancelled once, a claim in the buffer never starts, no cancel is lost."""

import asyncio
import threading
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import asyncpg
import msgspec
import pytest

from asyncq import Client, JobContext, JobState, task
from asyncq.domain.events import (
    JobCancelled,
    JobCompleted,
    JobDiscarded,
    JobInterrupted,
    JobRetried,
    JobsReturned,
    JobStarted,
    ListenConnected,
    ListenLost,
    WorkerStarted,
)
from asyncq.domain.job import Claim
from asyncq.engine import canceller
from asyncq.engine.base.lease import Lease
from asyncq.engine.canceller import Canceller
from asyncq.engine.fetch import inbox, listener
from asyncq.engine.fetch.inbox import Inbox
from asyncq.engine.liveness import heartbeat_thread
from asyncq.engine.settle import completer
from tests.engine.conftest import MakeWorker
from tests.engine.fetch.test_buffer import claim
from tests.engine.fetch.test_fetcher import fetch_ahead, intercept
from tests.engine.maintenance.test_rounds import claim_as_a_dead_worker
from tests.support.faults import terminate
from tests.support.seen import Seen
from tests.support.waiting import wait_until


@task
async def nothing() -> None:
    """The least job."""


@task
async def hang() -> None:
    """Runs until it is cancelled."""
    await asyncio.Event().wait()


async def cancel(db: asyncpg.Connection, schema: str, *ids: int) -> None:
    """Cancel jobs."""
    await db.execute(f"select from {schema}.cancel_jobs($1)", ids)


async def notify(db: asyncpg.Connection, schema: str, said: str) -> None:
    """Send a message about a cancelled job that may be true or not."""
    await db.execute("select pg_notify($1, $2)", f"{schema}:cancel", said)


async def marked(db: asyncpg.Connection, schema: str) -> int:
    """How many jobs are marked as cancelled."""
    return await db.fetchval(f"select count(*) from {schema}._all_jobs() where cancelled_at is not null")


def never_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the heartbeat beat only at the start and on request, so that only notifications count."""
    monkeypatch.setattr(heartbeat_thread, "BEATS_A_LEASE", 1e-3)


# Running jobs


async def test_a_running_handler_is_cancelled_once_and_knows_why_before(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """The job ends as cancelled: its row is deleted, no attempt counts, and no other event is emitted."""
    told: list[tuple[bool, int]] = []

    @task
    async def wait(ctx: JobContext) -> None:
        current = asyncio.current_task()
        assert current is not None
        try:
            await asyncio.Event().wait()
        finally:
            told.append((ctx.cancelled.is_set(), current.cancelling()))

    async with make_worker(wait).start():
        added = await client.add_job(wait)
        await seen.wait_for(JobStarted)
        await cancel(db, schema, added.id)
        event = await seen.wait_for(JobCancelled)
        left = await db.fetchval(f"select count(*) from {schema}._all_jobs()")

    assert ([(True, 1)], 0, "") == (told, left, event.error)
    assert ([added.id], [], []) == (seen.ids(JobCancelled), seen.ids(JobInterrupted), seen.ids(JobCompleted))


async def test_a_handler_that_continues_is_not_cancelled_twice(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """A second cancellation would hit the clean-up that the first one started; messages and beats may be many."""
    cancelled, leave = asyncio.Event(), asyncio.Event()
    times: list[int] = []
    beats: list[int] = []

    @task
    async def clean_up() -> None:
        current = asyncio.current_task()
        assert current is not None
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            await leave.wait()
            times.append(current.cancelling())

    async def beat() -> bool:
        at = await db.fetchval(f"select extract(epoch from last_seen)::float8 from {schema}._workers")
        beats.extend([at] if at not in beats else [])
        return len(beats) >= 3

    async with make_worker(clean_up, lease=1).start():
        added = await client.add_job(clean_up)
        await seen.wait_for(JobStarted)
        await cancel(db, schema, added.id)
        await cancelled.wait()
        for _ in range(3):
            await cancel(db, schema, added.id)
        await wait_until(beat, description="beats that find the job")
        leave.set()
        await seen.wait_for(JobCancelled)

    assert ([1], []) == (times, seen.ids(JobCompleted))


async def test_a_handler_in_a_thread_gets_the_signal_and_is_not_cancelled(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """A thread cannot be stopped from outside: it has to check whether it should end."""
    started = threading.Event()

    @task
    def compute(ctx: JobContext) -> None:
        started.set()
        while not ctx.cancelled.is_set():
            threading.Event().wait(0.005)

    async with make_worker(compute).start():
        added = await client.add_job(compute)
        await wait_until(started.is_set, description="the thread to start")
        await cancel(db, schema, added.id)
        await seen.wait_for(JobCancelled)

    assert ([added.id], []) == (seen.ids(JobCancelled), seen.ids(JobCompleted))


@pytest.mark.parametrize("ends", ["returns", "raises"])
async def test_a_cancelled_job_ends_as_cancelled_whatever_its_handler_does(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str, ends: str
) -> None:
    """The job is not retried, and only JobCancelled is emitted. The event has the handler's error."""
    failures: list[object] = []

    @task(max_attempts=1, on_discarded=failures.append)
    async def end() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if ends == "raises":
                raise LookupError("could not clean up") from None

    async with make_worker(end).start():
        added = await client.add_job(end)
        await seen.wait_for(JobStarted)
        await cancel(db, schema, added.id)
        event = await seen.wait_for(JobCancelled)
        left = await db.fetchval(f"select count(*) from {schema}._all_jobs()")

    said = event.error.partition("\n")[0]
    assert ("LookupError: could not clean up" if ends == "raises" else "", 0) == (said, left)
    assert ([], [], []) == (failures, seen.ids(JobDiscarded), seen.ids(JobRetried))


async def test_a_queue_is_busy_until_the_handler_of_its_cancelled_job_has_ended(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """Its handler still runs, and queues exist to prevent a second one."""
    cancelled, leave = asyncio.Event(), asyncio.Event()

    @task(queue="line")
    async def end_slowly() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            await leave.wait()

    async with make_worker(end_slowly, nothing).start():
        first = await client.add_job(end_slowly)
        await seen.wait_for(JobStarted)
        second = await client.add_job(nothing, queue="line")
        await cancel(db, schema, first.id)
        await cancelled.wait()
        other = await client.add_job(nothing)
        await seen.wait_for(JobCompleted)
        before = seen.ids(JobCompleted)
        leave.set()
        await seen.wait_for(JobCompleted, 2)

    assert ([other.id], [other.id, second.id]) == (before, seen.ids(JobCompleted))


async def test_a_burst_of_cancels_is_one_walk_over_the_running_jobs(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten thousand messages with a walk over ten thousand jobs each would block the event loop for minutes."""
    looks: list[int] = []
    real = canceller.Executor.cancel_jobs

    def count(executor: canceller.Executor, jobs: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
        looks.append(len([*jobs]))
        return real(executor, {*jobs})

    monkeypatch.setattr(canceller.Executor, "cancel_jobs", count)
    never_beat(monkeypatch)
    async with make_worker(hang, concurrency=200).start():
        added = await client.add_jobs([hang.job()] * 200)
        await seen.wait_for(JobStarted, 200)
        await cancel(db, schema, *(each.id for each in added))
        await seen.wait_for(JobCancelled, 200)

    # A beat that comes before the first ones are settled names them again.
    assert 200 <= sum(looks)
    assert len(looks) <= 20


# Claims in the buffer, or in flight


async def test_a_claim_in_the_buffer_never_starts(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was claimed ahead, and is returned to be settled as cancelled. The others run."""
    monkeypatch.setattr(inbox, "STALE_S", 3600)
    fetch_ahead(monkeypatch, 10)
    leave = asyncio.Event()

    @task
    async def wait() -> None:
        await leave.wait()

    added = await client.add_jobs([wait.job()] * 4)
    ids = [each.id for each in added]
    async with make_worker(wait, concurrency=1).start():
        await seen.wait_for(JobStarted)
        await cancel(db, schema, ids[1], ids[3])
        returned = await seen.wait_for(JobsReturned)
        leave.set()
        await seen.wait_for(JobCompleted, 2)

    assert ((ids[1], ids[3]), "they were cancelled") == (returned.job_ids, returned.reason)
    assert ([ids[0], ids[2]], []) == (seen.ids(JobStarted), seen.ids(JobCancelled))
    assert 0 == await db.fetchval(f"select count(*) from {schema}._all_jobs()")


async def test_a_cancel_that_arrives_before_the_answer_of_the_fetch_is_not_lost(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They arrive on different connections, so the notification may be about a claim that is not known yet."""
    heard: list[int] = []
    real = Canceller.cancel

    def hear(self: Canceller, worker_id: int, jobs: Iterable[tuple[int, int]]) -> None:
        heard.append(worker_id)
        real(self, worker_id, jobs)

    async def cancel_first(claims: list[Claim]) -> None:
        if claims and not heard:
            await cancel(db, schema, claims[0].id)
            await wait_until(lambda: bool(heard), description="the message")

    monkeypatch.setattr(Canceller, "cancel", hear)
    never_beat(monkeypatch)
    intercept(monkeypatch, cancel_first)
    first, second = await client.add_jobs([hang.job(), nothing.job()])
    async with make_worker(hang, nothing).start():
        await seen.wait_for(JobCompleted)

        async def is_gone() -> bool:
            return not await marked(db, schema)

        await wait_until(is_gone, description="the cancelled job to be settled")

    assert ([second.id], [((first.id,), "they were cancelled")]) == (
        seen.ids(JobStarted),
        [(event.job_ids, event.reason) for event in seen.of(JobsReturned)],
    )


class Hands:
    """A canceller alone, of a worker that waits for the answer to a fetch.

    Attributes:
        given_back: The jobs whose claims were returned.
    """

    WORKER, TOKEN = 3, 5

    def __init__(self) -> None:
        self.given_back: list[int] = []
        identity: Any = SimpleNamespace(worker_id=self.WORKER)
        self._inbox = Inbox(identity, Lease(30.0), self._give_back)
        self._inbox.expect(self.TOKEN, 3)
        executor: Any = SimpleNamespace(cancel_jobs=lambda _: set[tuple[int, int]]())
        admission: Any = SimpleNamespace(cancel=lambda _: set[tuple[int, int]]())
        self._canceller = Canceller(identity, self._inbox, executor, admission)

    def _give_back(self, claims: Iterable[Claim], _reason: str, _worker_id: int) -> None:
        self.given_back += [claim.id for claim in claims]

    async def hear(self, worker_id: int, *jobs: tuple[int, int]) -> None:
        """Deliver a message, and wait until it has been applied."""
        self._canceller.cancel(worker_id, jobs)
        await asyncio.sleep(0)

    def answer(self, *ids: int) -> list[int]:
        """The fetch brings claims; those that may start."""
        claims = [msgspec.structs.replace(claim(id_), token=self.TOKEN) for id_ in ids]
        self._inbox.answered(self.TOKEN)
        self._inbox.receive(self.WORKER, claims)
        return [one.id for one in self._inbox.buffer.drain()]


async def test_none_of_several_messages_before_the_answer_of_the_fetch_is_lost() -> None:
    """Each message is applied on its own, and earlier ones stay in force."""
    hands = Hands()
    await hands.hear(hands.WORKER, (1, hands.TOKEN))
    await hands.hear(hands.WORKER, (2, hands.TOKEN))

    assert ([3], [1, 2]) == (hands.answer(1, 2, 3), hands.given_back)


async def test_a_message_for_another_worker_or_claim_stops_nothing_on_its_way() -> None:
    """Workers use the same tokens, and a worker may claim a job again."""
    hands = Hands()
    await hands.hear(hands.WORKER + 1, (1, hands.TOKEN))
    await hands.hear(hands.WORKER, (2, hands.TOKEN - 1))

    assert ([1, 2], []) == (hands.answer(1, 2), hands.given_back)


# Lost messages


async def test_a_worker_that_does_not_listen_finds_the_cancel_at_its_next_beat(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """Behind a pooler that drops notifications a job is cancelled too, a third of a lease later."""
    async with make_worker(hang, listen=False, lease=1, poll=0.05).start():
        added = await client.add_job(hang)
        await seen.wait_for(JobStarted)
        await cancel(db, schema, added.id)
        await seen.wait_for(JobCancelled)

    assert [added.id] == seen.ids(JobCancelled)


async def test_a_job_that_was_cancelled_without_a_listener_is_found_at_the_reconnect(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is found at once, not at the next beat, which never comes here."""
    never_beat(monkeypatch)
    monkeypatch.setattr(listener, "FIRST_RETRY_S", 1.0)
    async with make_worker(hang).start():
        added = await client.add_job(hang)
        await seen.wait_for(JobStarted)
        await terminate(db, schema, "listen")
        await seen.wait_for(ListenLost)
        await cancel(db, schema, added.id)
        deaf = len(seen.of(ListenConnected)) == 1
        await seen.wait_for(JobCancelled)

    assert (True, 2) == (deaf, len(seen.of(ListenConnected)))


# Late and false messages


async def test_a_cancel_that_arrives_when_the_handler_has_ended_changes_its_end(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The job runs until its end is committed, so a cancellation before that holds."""
    entered, go = asyncio.Event(), asyncio.Event()
    real = completer.store.complete

    async def complete_late(*args: object) -> set[int]:
        entered.set()
        await go.wait()
        return await real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(completer.store, "complete", complete_late)
    async with make_worker(nothing).start():
        added = await client.add_job(nothing)
        await entered.wait()
        await cancel(db, schema, added.id)
        go.set()
        await seen.wait_for(JobCancelled)

    assert ([added.id], []) == (seen.ids(JobCancelled), seen.ids(JobCompleted))


@pytest.mark.parametrize(
    "said", ["{worker} {job} {old}", "{other} {job} {token}", "{worker} {unknown} {token}", "nonsense"]
)
async def test_a_message_about_another_claim_cancels_nothing(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str, said: str
) -> None:
    """The message may be about an earlier run of the job, about another worker, or forged."""
    leave = asyncio.Event()

    @task
    async def wait(ctx: JobContext) -> None:
        await leave.wait()
        assert not ctx.cancelled.is_set()

    async with make_worker(wait, hang).start():
        added = await client.add_job(wait)
        await seen.wait_for(JobStarted)
        worker_id = seen.of(WorkerStarted)[0].worker_id
        token = seen.of(JobStarted)[0].claim.token
        await notify(
            db,
            schema,
            said.format(
                worker=worker_id, other=worker_id + 1, job=added.id, unknown=added.id + 1, token=token, old=token - 1
            ),
        )
        # A true message behind it on the same channel: once that is applied, the false one was received.
        true = await client.add_job(hang)
        await seen.wait_for(JobStarted, 2)
        await cancel(db, schema, true.id)
        await seen.wait_for(JobCancelled)
        leave.set()
        await seen.wait_for(JobCompleted)

    assert ([added.id], [true.id]) == (seen.ids(JobCompleted), seen.ids(JobCancelled))


# The stop


async def test_a_job_that_is_cancelled_while_the_shutdown_cuts_it_off_ends_as_cancelled(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """The interruption would make it due again, but the mark in its row decides."""
    cut_off, leave = asyncio.Event(), asyncio.Event()

    @task
    async def clean_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cut_off.set()
            await leave.wait()

    async with make_worker(clean_up, grace=0).start() as worker, asyncio.TaskGroup() as group:
        added = await client.add_job(clean_up)
        await seen.wait_for(JobStarted)
        group.create_task(worker.stop())
        await cut_off.wait()
        await cancel(db, schema, added.id)
        leave.set()

    assert ([added.id], []) == (seen.ids(JobCancelled), seen.ids(JobInterrupted))
    assert 0 == await db.fetchval(f"select count(*) from {schema}._all_jobs()")


async def test_a_handler_that_was_cancelled_is_not_cancelled_again_by_the_stop(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """It is busy with its clean-up, for which it has the grace period and a few seconds."""
    cleaning, leave = asyncio.Event(), asyncio.Event()
    ends: list[str] = []

    @task
    async def clean_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await leave.wait()
            ends.append("cleaned up")

    async with make_worker(clean_up, grace=0).start() as worker, asyncio.TaskGroup() as group:
        added = await client.add_job(clean_up)
        await seen.wait_for(JobStarted)
        await cancel(db, schema, added.id)
        await cleaning.wait()
        group.create_task(worker.stop())
        await asyncio.sleep(0.05)
        leave.set()

    assert (["cleaned up"], [added.id]) == (ends, seen.ids(JobCancelled))


async def test_a_cancelled_job_of_a_dead_worker_does_not_run_again(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """The rescue settles it, since its worker cannot."""
    added = await client.add_job(nothing)
    await claim_as_a_dead_worker(db, schema, seconds_ago=60)
    await cancel(db, schema, added.id)
    state = (await client.get_job(added.id)).state
    await make_worker(nothing).run_once()

    assert (JobState.CANCELLED, []) == (state, seen.ids(JobStarted))
    assert 0 == await db.fetchval(f"select count(*) from {schema}._all_jobs()")
