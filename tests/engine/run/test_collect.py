"""`@task(collect=...)`: several jobs run in one call of their handler, and each is settled by itself."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Collection
from typing import Any

import asyncpg
import pytest

from asyncq import (
    Call,
    Client,
    Collect,
    ConstantRetry,
    Discard,
    JobNotFound,
    JobsContext,
    JobState,
    RetryAfter,
    RunInfo,
    Snooze,
    Task,
    observer,
    resource,
    task,
    use,
)
from asyncq.domain.events import (
    HandlerStuck,
    JobCancelled,
    JobCompleted,
    JobDiscarded,
    JobExpired,
    JobInterrupted,
    JobRetried,
    JobsCollected,
    JobSnoozed,
    JobsReturned,
    JobStarted,
    JobTimedOut,
)
from asyncq.engine.maintenance import pruner
from asyncq.engine.run import stuck
from asyncq.engine.run.executor import Executor
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen
from tests.support.waiting import wait_until

SOON = Collect(max=100, within="10 ms")
LATER = Collect(max=100, within="1 h")
BROKEN = ValueError("no such user")


class Calls:
    """The calls of a handler that collects: the payloads of each; it returns `answer`, or raises it."""

    def __init__(self, answer: Any = None) -> None:
        self.calls: list[list[Any]] = []
        self.answer = answer

    def task(self, collect: Collect = LATER, **options: Any) -> Task[...]:
        """The task, called `send`."""

        wishes: dict[str, Any] = {"retry": ConstantRetry(60), **options}

        @task(name="send", collect=collect, **wishes)
        async def send(users: list[Any]) -> Any:
            self.calls.append(users)
            if isinstance(self.answer, BaseException):
                raise self.answer
            return self.answer

        return send


class Waiting:
    """A call that runs until it may leave."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.leave = asyncio.Event()

    def task(self, **options: Any) -> Task[...]:
        """The task, called `send`."""

        @task(name="send", collect=Collect(max=3, within="1 h"), **options)
        async def send(users: list[Any], jobs: JobsContext) -> None:
            self.begun.set()
            await self.leave.wait()

        return send


async def add(client: Client, send: Task[...], *users: Any, **options: Any) -> list[int]:
    """Add a job for each payload; returns the ids."""
    return [added.id for added in await client.add_jobs([send.job(user).with_options(**options) for user in users])]


# What is collected


async def test_due_jobs_run_in_one_call_in_their_order(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """A worker that runs once does not wait for more: none is due."""
    made = Calls()
    send = made.task()
    ids = await add(client, send, 1, "two", {"three": 3}, None)
    await make_worker(send).run_once()

    assert [[1, "two", {"three": 3}, None]] == made.calls
    assert ids == seen.ids(JobStarted) == sorted(seen.ids(JobCompleted))
    assert [("send", tuple(ids))] == [(event.task, event.job_ids) for event in seen.of(JobsCollected)]
    assert [] == (await client.admin.find_jobs(newest=False)).jobs


@pytest.mark.parametrize("concurrency", [1, 10])
async def test_a_call_has_at_most_so_many_jobs(client: Client, make_worker: MakeWorker, concurrency: int) -> None:
    """The rest is that of the next calls, whatever slots are free."""
    made = Calls()
    send = made.task(Collect(max=3, within="1 h"))
    await add(client, send, *range(7))
    await make_worker(send, concurrency=concurrency).run_once()

    assert [1, 3, 3] == sorted(map(len, made.calls))
    assert [*range(7)] == sorted(user for call in made.calls for user in call)


async def test_a_call_waits_until_it_is_full(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """Jobs that other slots take join it."""
    made = Calls()
    send = made.task(Collect(max=3, within="1 h"))
    async with make_worker(send).start():
        for user in range(2):
            (job_id,) = await add(client, send, user)
            await wait_until_claimed(client, job_id)
        assert [] == made.calls
        await add(client, send, 2)
        await seen.wait_for(JobCompleted, 3)

    assert [[0, 1, 2]] == made.calls


async def test_a_call_that_has_waited_for_long_enough_starts(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Its first job must not wait for ever."""
    made = Calls()
    send = made.task(SOON)
    async with make_worker(send).start():
        await add(client, send, 1)
        await seen.wait_for(JobCompleted)

    assert [[1]] == made.calls
    assert SOON.within_s <= seen.of(JobsCollected)[0].waited_s


async def test_a_call_starts_when_another_job_needs_its_slot(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """A slot that only waits is not withheld from others."""
    made = Calls()
    send = made.task()

    @task
    async def other() -> None: ...

    async with make_worker(send, other, concurrency=1).start():
        await wait_until_claimed(client, *await add(client, send, 1))
        await client.add_job(other)
        await seen.wait_for(JobCompleted, 2)

    assert [[1]] == made.calls


async def test_a_call_goes_on_waiting_while_others_have_free_slots(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Their jobs pass it."""
    made = Calls()
    send = made.task(Collect(max=2, within="1 h"))

    @task
    async def other() -> None: ...

    async with make_worker(send, other, concurrency=2).start():
        await wait_until_claimed(client, *await add(client, send, 1))
        await client.add_jobs([other.job()] * 20)
        await seen.wait_for(JobCompleted, 20)
        assert [] == made.calls
        await add(client, send, 2)
        await seen.wait_for(JobCompleted, 22)

    assert [[1, 2]] == made.calls


async def wait_until_claimed(client: Client, job_id: int) -> None:
    """Wait until a worker has a job."""

    async def is_claimed() -> bool:
        return (await client.get_job(job_id)).state is JobState.ACTIVE

    await wait_until(is_claimed, description="the job to be claimed")


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"queue": "mails"}, id="in a queue"),
        pytest.param({"timeout": "1 h"}, id="with a time limit"),
        pytest.param({"deadline": "1 h"}, id="with a deadline"),
        pytest.param({"max_attempts": 1}, id="in its last attempt"),
    ],
)
async def test_a_job_that_cannot_share_a_call_runs_alone(
    client: Client, make_worker: MakeWorker, seen: Seen, options: dict[str, Any]
) -> None:
    """Its limit, its queue or its last attempt must not be that of others."""
    made = Calls()
    send = made.task()
    await add(client, send, 1, 2)
    await add(client, send, 3, **options)
    await make_worker(send).run_once()

    assert [[1, 2], [3]] == sorted(made.calls)
    assert 3 == len(seen.of(JobCompleted))


@pytest.mark.parametrize("payload", [{"to": 7}, "b"], ids=["an object", "text"])
async def test_a_payload_that_does_not_fit_fails_alone(
    client: Client, make_worker: MakeWorker, seen: Seen, payload: Any
) -> None:
    """The others are called without it."""
    called: list[list[int]] = []

    @task(collect=LATER)
    async def send(users: list[int]) -> None:
        called.append(users)

    await client.add_job("send", 1)
    odd = await client.add_job("send", payload)
    await client.add_job("send", 3)
    await make_worker(send).run_once()

    assert ([[1, 3]], [odd.id]) == (called, seen.ids(JobRetried))
    assert "the payload does not fit the task" in seen.of(JobRetried)[0].error


async def test_a_call_without_a_job_that_can_start_is_not_made(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The handler never gets an empty list."""

    @task(collect=LATER)
    async def send(users: list[int]) -> None:
        raise AssertionError

    await client.add_job("send", "x")
    await make_worker(send).run_once()

    assert "the payload does not fit the task" in seen.of(JobRetried)[0].error


# How each is settled


async def test_each_outcome_settles_its_job(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """As if it had been raised in a call of its own."""
    made = Calls([None, BROKEN, RetryAfter(90, "busy"), Snooze(7), Discard("gone")])
    send = made.task(SOON)
    done, failed, later, snoozed, gone = await add(client, send, *range(5))
    await make_worker(send).run_once()
    jobs = {job.id: (job.state, job.attempts) for job in (await client.admin.find_jobs(newest=False)).jobs}

    assert [done] == seen.ids(JobCompleted)
    assert {failed: 60, later: 90} == {event.job_id: event.delay_s for event in seen.of(JobRetried)}
    assert {snoozed: 7} == {event.job_id: event.delay_s for event in seen.of(JobSnoozed)}
    assert ([gone], 4) == (seen.ids(JobDiscarded), len(jobs))
    assert (JobState.RETRYABLE, 1) == jobs[failed]
    assert (JobState.DISCARDED, 1) == jobs[gone]


async def test_each_job_is_kept_with_its_own_result(client: Client, make_worker: MakeWorker) -> None:
    """The value in the list is the result of its job; after None there is none."""
    made = Calls([{"sent": 1}, None, BROKEN])
    send = made.task(keep="1 h")
    first, second, _ = await add(client, send, 1, 2, 3)
    await add(client, send, 4, keep=False)
    made.answer.append("dropped")
    await make_worker(send).run_once()
    jobs = [await client.get_job(job_id) for job_id in (first, second)]

    assert [('{"sent":1}', "1"), (None, "2")] == [(job.result, job.payload) for job in jobs]
    assert [JobState.COMPLETED] * 2 == [job.state for job in jobs]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (BROKEN, "ValueError: no such user"),
        (
            [None],
            "TaskError: the handler returned a list of 1, but had 2 jobs: it returns None, or a list of 2 outcomes",
        ),
        ([None] * 3, "TaskError: the handler returned a list of 3, but had 2 jobs"),
        ("ok", "TaskError: the handler returned a value of type str"),
    ],
)
async def test_a_call_that_failed_is_an_attempt_of_each(
    client: Client, make_worker: MakeWorker, seen: Seen, answer: Any, said: str
) -> None:
    """A list of another length is not taken for success. Observers get the exception for each job."""
    made = Calls(answer)
    send = made.task()
    found: list[str] = []

    @observer(JobRetried)
    def note(event: JobRetried) -> None:
        found.append(type(event.exception).__name__)

    ids = await add(client, send, 1, 2)
    await make_worker(send, observers=[note]).run_once()

    assert [said.partition(":")[0]] * 2 == found

    assert ids == sorted(seen.ids(JobRetried))
    assert all(event.error.startswith(said) for event in seen.of(JobRetried))
    assert [1, 1] == [job.attempts for job in (await client.admin.find_jobs(newest=False)).jobs]


async def test_jobs_of_a_batch_are_settled_each_by_itself(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """The batch is split for those that failed."""

    @task(collect=LATER)
    async def send(users: list[int]) -> list[Any]:
        return [BROKEN if user % 10 == 0 else None for user in users]

    ids = await add(client, send, *range(200))
    await make_worker(send).run_once()

    assert (
        {*ids[::10]} == {*seen.ids(JobRetried)} == {job.id for job in (await client.admin.find_jobs(newest=False)).jobs}
    )
    assert 180 == len(seen.of(JobCompleted))


async def test_a_retry_is_collected_until_the_last_attempt(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """The last one runs alone, so that no other job decides about it."""
    made = Calls(BROKEN)
    send = made.task(SOON, retry=ConstantRetry(0), max_attempts=3)
    ids = await add(client, send, 1, 2)
    async with make_worker(send).start():
        await seen.wait_for(JobDiscarded, 2)

    assert [1, 1] == [len(call) for call in made.calls[-2:]]
    assert 6 == sum(map(len, made.calls))
    assert ids == sorted(seen.ids(JobDiscarded))


# How a call ends otherwise


async def test_a_cancelled_job_leaves_the_call_to_the_others(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends as cancelled with the call; the handler is not cancelled."""
    cancel_jobs, heard = Executor.cancel_jobs, asyncio.Event()

    def cancel(self: Executor, jobs: Collection[tuple[int, int]]) -> set[tuple[int, int]]:
        heard.set()
        return cancel_jobs(self, jobs)

    monkeypatch.setattr(Executor, "cancel_jobs", cancel)
    made = Waiting()
    send = made.task()
    async with make_worker(send).start():
        first, *others = await add(client, send, 1, 2, 3)
        await made.begun.wait()
        await client.admin.cancel_jobs([first])
        await heard.wait()
        made.leave.set()
        await seen.wait_for(JobCompleted, 2)
        await seen.wait_for(JobCancelled)

    assert ([first], others) == (seen.ids(JobCancelled), sorted(seen.ids(JobCompleted)))


async def test_a_call_of_cancelled_jobs_is_cancelled(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """Nobody waits for it any more."""
    made = Waiting()
    send = made.task()
    async with make_worker(send).start():
        ids = await add(client, send, 1, 2, 3)
        await made.begun.wait()
        await client.admin.cancel_jobs(ids[:2])
        await client.admin.cancel_jobs(ids[2:])
        await seen.wait_for(JobCancelled, 3)

    assert ids == sorted(seen.ids(JobCancelled))


async def test_a_job_that_is_cancelled_while_it_waits_for_others_never_runs(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """It is given back, and ends."""
    made = Calls()
    send = made.task(Collect(max=2, within="1 h"))
    async with make_worker(send).start():
        (first,) = await add(client, send, 1)
        await wait_until_claimed(client, first)
        await client.admin.cancel_jobs([first])
        await seen.wait_for(JobsReturned)
        await add(client, send, 2, 3)
        await seen.wait_for(JobCompleted, 2)
    with pytest.raises(JobNotFound):
        await client.get_job(first)

    assert [[2, 3]] == made.calls


async def test_a_time_limit_is_that_of_the_call(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """Each of its jobs has failed an attempt."""
    made = Waiting()
    send = made.task(timeout=0.01)
    ids = await add(client, send, 1, 2, 3)
    await make_worker(send).run_once()

    assert ids == sorted(seen.ids(JobTimedOut)) == sorted(seen.ids(JobRetried))


async def test_a_shutdown_interrupts_all_jobs_of_a_call(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """They are due again, and no attempt counts."""
    made = Waiting()
    send = made.task()
    async with make_worker(send, grace=0).start():
        ids = await add(client, send, 1, 2, 3)
        await made.begun.wait()

    assert ids == sorted(seen.ids(JobInterrupted))
    assert [(0, 1)] * 3 == [
        (job.attempts, job.interruptions) for job in (await client.admin.find_jobs(newest=False)).jobs
    ]


async def test_a_shutdown_gives_back_what_waits_for_others(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """It does not wait for more, and starts nothing."""
    made = Calls()
    send = made.task()
    async with make_worker(send).start():
        ids = await add(client, send, 1)
        await wait_until_claimed(client, *ids)
    (job,) = (await client.admin.find_jobs(newest=False)).jobs

    assert ([], JobState.AVAILABLE, 0) == (made.calls, job.state, job.attempts)
    assert [tuple(ids)] == [event.job_ids for event in seen.of(JobsReturned)]


async def test_a_beat_names_all_jobs_of_a_call(
    client: Client, make_worker: MakeWorker, db: asyncpg.Connection, schema: str
) -> None:
    """Each loses an attempt if the worker dies."""
    made = Waiting()
    send = made.task()
    async with make_worker(send, lease=1).start():
        ids = await add(client, send, 1, 2, 3)
        await made.begun.wait()

        async def are_named() -> bool:
            named = await db.fetchval(f"select array_to_string(started_claims, ' ') from {schema}._workers")
            return {int(name.partition("/")[0]) for name in (named or "").split()} == {*ids}

        await wait_until(are_named, description="the beat")
        made.leave.set()


async def test_a_stuck_call_is_one_stuck_handler(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another loop replaces its own; its jobs are settled when it ends."""
    monkeypatch.setattr(stuck, "STUCK_S", 0.01)
    begun, leave = asyncio.Event(), asyncio.Event()

    @task(collect=Collect(max=2, within="1 h"))
    async def send(users: list[int]) -> None:
        begun.set()
        while not leave.is_set():
            try:
                await leave.wait()
            except asyncio.CancelledError:
                continue

    others: list[int] = []
    both = asyncio.Event()

    @task
    async def other() -> None:
        others.append(1)
        if len(others) == 2:
            both.set()
        await both.wait()

    async with make_worker(send, other, concurrency=2).start():
        ids = await add(client, send, 1, 2)
        await begun.wait()
        await client.admin.cancel_jobs(ids)
        await seen.wait_for(HandlerStuck)
        await client.add_jobs([other.job(), other.job()])
        await seen.wait_for(JobCompleted, 2)
        leave.set()
        await seen.wait_for(JobCancelled, 2)

    assert 1 == len(seen.of(HandlerStuck))


async def test_a_job_that_has_expired_is_not_called(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would have started too late; the others are called without it. No maintenance ends it before."""

    async def expire_jobs(*_: Any) -> list[int]:
        return []

    monkeypatch.setattr(pruner, "expire_jobs", expire_jobs)
    made = Calls()
    send = made.task(SOON)
    async with make_worker(send).start():
        expired = await client.add_job(send, 1, expires=0.005)
        await add(client, send, 2)
        await seen.wait_for(JobCompleted)
        await seen.wait_for(JobExpired)

    assert ([[2]], [expired.id]) == (made.calls, seen.ids(JobExpired))


# What a call has


async def test_the_context_has_the_jobs_of_the_call(
    client: Client, make_worker: MakeWorker, seen: Seen, schema: str
) -> None:
    """In the order of the payloads; it queries and adds as that of one job."""
    found: list[Any] = []

    @task
    async def other() -> None: ...

    @task(collect=LATER)
    async def send(users: list[int], jobs: JobsContext) -> None:
        rows = await jobs.query(f"select count(*) as claimed from {schema}._jobs")
        await jobs.add_job(other)
        found.extend([users, [job.id for job in jobs.jobs], rows[0]["claimed"], jobs.cancelled.is_set()])

    ids = await add(client, send, 1, 2)
    await make_worker(send, other).run_once()

    assert [[1, 2], ids, 2, False] == found
    assert 3 == len(seen.of(JobCompleted))


@resource(scope="job")
async def connection() -> AsyncGenerator[str]:
    """Opened for each call."""
    yield "connection"


async def test_middleware_and_resources_are_those_of_the_call(client: Client, make_worker: MakeWorker) -> None:
    """They run once, not once for each job; a middleware sees the first one."""
    found: list[Any] = []

    async def note(run: RunInfo, call: Call) -> Any:
        found.append(run.job.id)
        return await call()

    @task(collect=LATER, middleware=[note])
    async def send(users: list[int], pool: str = use(connection)) -> list[Any]:
        found.append((users, pool))
        return [None, BROKEN]

    ids = await add(client, send, 1, 2)
    await make_worker(send).run_once()

    assert [ids[0], ([1, 2], "connection")] == found
    assert ids[1:] == [job.id for job in (await client.admin.find_jobs(newest=False)).jobs]


async def test_a_plain_function_collects_in_a_thread(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """As it runs the jobs of other tasks."""
    threads: list[int] = []

    @task(collect=LATER)
    def send(users: list[int]) -> list[Any]:
        threads.append(threading.get_ident())
        return [None for _ in users]

    await add(client, send, 1, 2)
    await make_worker(send).run_once()

    assert 2 == len(seen.of(JobCompleted))
    assert [threading.get_ident()] != threads
    assert 1 == len(threads)
