"""`@task(items=True)`: a handler gets a list, and each of its items is done, fails or waits by itself."""

import asyncio
from typing import Any

import asyncpg
import msgspec
import pytest

from asyncq import (
    Client,
    ConstantRetry,
    Discard,
    InvalidJob,
    JobContext,
    JobState,
    RetryAfter,
    Snooze,
    Task,
    UniquePolicy,
    Worker,
    task,
)
from asyncq.domain.events import (
    CommitUncertain,
    ErrorIgnored,
    ItemsFailed,
    JobCancelled,
    JobCompleted,
    JobDiscarded,
    JobEvent,
    JobRetried,
    JobSnoozed,
    JobStarted,
    TransactionAborted,
)
from tests.engine.conftest import MakeWorker
from tests.support.effects import Effects
from tests.support.faults import When, link_to
from tests.support.seen import Seen

BROKEN = ValueError("no such user")


def answering(outcomes: Any, **options: Any) -> Task[...]:
    """A task whose handler returns these outcomes, whatever its items are; it raises an exception that is alone."""

    @task(items=True, retry=ConstantRetry(60), **options)
    async def send(users: list[Any]) -> Any:
        if isinstance(outcomes, BaseException):
            raise outcomes
        return outcomes

    return send


def ends(seen: Seen) -> list[str]:
    """The names of the events of jobs after the start, in their order."""
    return [type(event).__name__ for event in seen.of(JobEvent) if not isinstance(event, JobStarted)]


async def payload_of(client: Client, job_id: int) -> list[Any]:
    """The payload of a job."""
    return msgspec.json.decode((await client.get_job(job_id)).payload)


@pytest.mark.parametrize(
    ("outcomes", "end", "attempts", "left"),
    [
        pytest.param([None, BROKEN, 7, BROKEN], "JobRetried", 1, [1, 3], id="some failed"),
        pytest.param((None, BROKEN, False, 0), "JobRetried", 1, [1], id="a tuple"),
        pytest.param([None, asyncio.CancelledError(), 7, KeyboardInterrupt()], "JobRetried", 1, [1, 3], id="any error"),
        pytest.param([None, ValueError, 7, 7], "JobRetried", 1, [1], id="a class of exceptions"),
        pytest.param([RetryAfter(5), None, BROKEN, None], "JobRetried", 1, [0, 2], id="one has its own wait"),
        pytest.param(
            [RetryAfter(5, partition=True), None, BROKEN, None], "JobSnoozed", 0, [0, 2], id="key was refused"
        ),
        pytest.param([None, Discard("gone"), None, None], "JobDiscarded", 1, [1], id="given up"),
        pytest.param([None, Discard("gone"), BROKEN, None], "JobRetried", 1, [2], id="given up beside a failure"),
        pytest.param([None, Discard("gone"), Snooze(5), None], "JobRetried", 1, [2], id="given up beside a snooze"),
        pytest.param([None, Snooze(5), Snooze(9), None], "JobSnoozed", 0, [1, 2], id="later"),
        pytest.param([None, Snooze(5), BROKEN, None], "JobRetried", 1, [1, 2], id="later beside a failure"),
    ],
)
async def test_the_items_that_failed_are_the_payload_of_the_next_run(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    outcomes: Any,
    end: str,
    attempts: int,
    left: list[int],
) -> None:
    """The others are done. The job waits or is discarded as if the exception were the only one."""
    send = answering(outcomes)
    added = await client.add_job(send, [0, 1, 2, 3])
    await make_worker(send).run_once()
    job = await client.get_job(added.id)

    assert (["ItemsFailed", end], attempts) == (ends(seen), job.attempts)
    assert left == await payload_of(client, added.id)
    assert [sum(isinstance(each, BaseException | type) for each in outcomes)] == [
        e.failed for e in seen.of(ItemsFailed)
    ]


@pytest.mark.parametrize("outcomes", [None, [], [None, True, "sent"]])
async def test_a_job_whose_items_are_all_done_is_completed(
    client: Client, make_worker: MakeWorker, seen: Seen, outcomes: Any
) -> None:
    """None says so for all. Values are ignored, and not reported."""
    send = answering(outcomes)
    await client.add_job(send, [] if outcomes == [] else [0, 1, 2])
    await make_worker(send).run_once()

    assert ["JobCompleted"] == ends(seen)


@pytest.mark.parametrize("outcomes", [BROKEN, [BROKEN, BROKEN]], ids=["raised", "of each"])
async def test_if_all_failed_the_payload_stays(
    client: Client, make_worker: MakeWorker, seen: Seen, outcomes: Any
) -> None:
    """A handler that raises has done none of them."""
    send = answering(outcomes)
    added = await client.add_job(send, [0, 1])
    await make_worker(send).run_once()

    assert (["JobRetried"], [0, 1]) == (ends(seen), await payload_of(client, added.id))


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ([], "the handler returned a list of 0, but had 3 items"),
        ([None] * 2, "the handler returned a list of 2, but had 3 items"),
        ([None] * 5, "the handler returned a list of 5, but had 3 items"),
        ({"0": BROKEN}, "the handler returned a value of type dict"),
        ("abc", "the handler returned a value of type str"),
    ],
)
async def test_outcomes_that_fit_no_items_lose_nothing(
    client: Client, make_worker: MakeWorker, seen: Seen, outcomes: Any, said: str
) -> None:
    """Taken for success, a filtered list would drop what failed."""
    send = answering(outcomes)
    added = await client.add_job(send, [0, 1, 2])
    await make_worker(send).run_once()
    job = await client.get_job(added.id)

    expected = "it returns None, or a list of 3 outcomes, one for each of its items"
    assert f"TaskError: {said}: {expected}" == job.last_error
    assert (["JobRetried"], [0, 1, 2]) == (ends(seen), await payload_of(client, added.id))


async def test_an_outcome_that_was_not_awaited_is_no_success(client: Client, make_worker: MakeWorker) -> None:
    """A handler that forgets to await has sent nothing."""

    @task(items=True)
    async def send(users: list[int]) -> list[Any]:
        return [None, asyncio.get_running_loop().create_future()]

    added = await client.add_job(send, [0, 1])
    await make_worker(send).run_once()
    job = await client.get_job(added.id)

    assert [1] == await payload_of(client, added.id)
    assert "[1] TaskError: the outcome is a Future that was not awaited: nothing says that it is done" in str(
        job.last_error
    )


async def test_the_error_names_the_first_ten_items_and_has_the_first_traceback(
    client: Client, make_worker: MakeWorker
) -> None:
    """A list of ten thousand errors helps nobody."""

    async def one(user: int) -> None:
        if user % 2:
            raise ValueError(f"no user {user}")

    @task(items=True)
    async def send(users: list[int]) -> list[Any]:
        return await asyncio.gather(*map(one, users), return_exceptions=True)

    added = await client.add_job(send, [*range(40)])
    await make_worker(send).run_once()
    error = str((await client.get_job(added.id)).last_error)
    lines = error.splitlines()

    assert "20 of 40 items failed:" == lines[0]
    assert [f"[{place}] ValueError: no user {place}" for place in range(1, 20, 2)] == lines[1:11]
    assert ["and 10 more", "", "The traceback of [1]:"] == lines[11:14]
    assert 'raise ValueError(f"no user {user}")' in error


async def test_attempts_go_on_counting_until_the_rest_is_discarded(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The discarded job has the items that never succeeded, and `retry_jobs` runs them again."""
    called: list[list[int]] = []

    @task(items=True, retry=ConstantRetry(0), max_attempts=3)
    async def send(users: list[int]) -> list[Any]:
        called.append(users)
        return [None, *[BROKEN] * (len(users) - 1)]

    added = await client.add_job(send, [0, 1, 2, 3, 4])
    async with make_worker(send).start():
        await seen.wait_for(JobDiscarded)
    job = await client.get_job(added.id)

    assert [[0, 1, 2, 3, 4], [1, 2, 3, 4], [2, 3, 4]] == called
    assert (JobState.DISCARDED, 3, [3, 4]) == (job.state, job.attempts, await payload_of(client, added.id))
    assert [(4, 5), (3, 4), (2, 3)] == [(event.failed, event.total) for event in seen.of(ItemsFailed)]


async def test_a_job_with_items_has_no_result(client: Client, make_worker: MakeWorker) -> None:
    """The outcomes of the last run would say nothing of the items that were done before."""

    @task(items=True)
    async def send(users: list[int]) -> list[int]:
        return users

    async with make_worker(send).start():
        assert None is await client.run(send.job([1, 2]), timeout=20)


class Email(msgspec.Struct):
    """An item with a type."""

    to: str
    subject: str = "(none)"


async def test_the_items_that_are_left_keep_their_text(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """They are not encoded again: fields that this version of the handler does not know are still there."""

    @task(items=True)
    async def send(emails: list[Email], ctx: JobContext) -> list[Any]:
        return [None if email.to == "a" else BROKEN for email in emails]

    added = await client.add_job("send", msgspec.Raw(b'[{"to":"a"},{"new":[1.0],"to":"\\u00e9"}]'))
    await make_worker(send).run_once()

    assert '[{"new":[1.0],"to":"\\u00e9"}]' == (await client.get_job(added.id)).payload


async def test_items_that_do_not_fit_the_task_fail_the_attempt(client: Client, make_worker: MakeWorker) -> None:
    """A client with the task refuses them; an add from SQL does not know the types."""
    send = answering(None)
    with pytest.raises(InvalidJob):
        await client.add_job(send, {"users": 7})
    added = await client.add_job("send", {"users": 7})
    await make_worker(send).run_once()

    assert "the payload does not fit the task" in str((await client.get_job(added.id)).last_error)


# Beside others


@pytest.mark.parametrize("queue", [None, "mails"])
async def test_each_job_of_a_batch_has_its_own_rest(
    client: Client, make_worker: MakeWorker, seen: Seen, queue: str | None
) -> None:
    """The batch is split for those that failed; a queue goes on with its next job."""

    @task(items=True)
    async def send(users: list[int]) -> list[Any]:
        return [BROKEN if user < 0 else None for user in users]

    adds = [send.job([number, -number]).with_options(queue=queue) for number in range(120)]
    added = await client.add_jobs(adds)
    await make_worker(send, concurrency=4).run_once()
    left = {job.id: job.payload for job in (await client.admin.find_jobs(newest=False, limit=200)).jobs}

    assert {each.id: f"[-{number}]" for number, each in enumerate(added) if number} == left
    assert [added[0].id] == seen.ids(JobCompleted)


async def test_a_key_adds_its_items_to_those_that_are_left(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """Arrays with one job key are joined; the request makes the job new."""
    send = answering([None, BROKEN])
    added = await client.add_job(send, [0, 1], job_key="k")
    await make_worker(send).run_once()
    again = await client.add_job(send, [2], job_key="k", job_key_mode="preserve_run_at")
    job = await client.get_job(added.id)

    assert (added.id, 0, [1, 2]) == (again.id, job.attempts, await payload_of(client, added.id))


async def test_items_that_are_added_while_a_job_runs_are_a_job_of_their_own(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The one that runs has lost its key, and has no further attempt: what it has left is discarded with it."""
    ids: list[int] = []

    @task(items=True)
    async def send(users: list[int]) -> list[Any] | None:
        if users == [2]:
            return None
        ids.append((await client.add_job(send, [2], job_key="k")).id)
        return [None, BROKEN]

    added = await client.add_job(send, [0, 1], job_key="k")
    await make_worker(send).run_once()

    assert (JobState.DISCARDED, [1]) == ((await client.get_job(added.id)).state, await payload_of(client, added.id))
    assert ids == seen.ids(JobCompleted)


@pytest.mark.parametrize("outcomes", [[None, BROKEN], BROKEN, None], ids=["in part", "failed", "done"])
async def test_a_rerun_begins_with_the_items_that_are_left(
    client: Client, make_worker: MakeWorker, outcomes: Any
) -> None:
    """It was asked for while the job ran; nothing of either request is lost."""
    called: list[list[int]] = []

    @task(items=True, unique=UniquePolicy(), retry=ConstantRetry(60))
    async def send(users: list[int]) -> Any:
        called.append(users)
        if len(called) > 1:
            return None
        await client.add_job(send, [2], rerun=True)
        if isinstance(outcomes, BaseException):
            raise outcomes
        return outcomes

    await client.add_job(send, [0, 1])
    await make_worker(send).run_once()

    left = [2] if outcomes is None else [1, 2] if outcomes is not BROKEN else [0, 1, 2]
    assert [[0, 1], left] == called


async def test_a_cancelled_job_has_no_items_left(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """The cancellation was confirmed, and ends the job whatever its items say."""

    @task(items=True)
    async def send(users: list[int], ctx: JobContext) -> list[Any]:
        await client.admin.cancel_jobs([ctx.job.id])
        return [None, BROKEN]

    await client.add_job(send, [0, 1])
    await make_worker(send).run_once()

    assert (["JobCancelled"], []) == (ends(seen), (await client.admin.find_jobs(newest=False)).jobs)


async def test_a_time_limit_leaves_all_items(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """The handler was cancelled, and nothing says which of them are done."""

    @task(items=True, timeout=0.01)
    async def send(users: list[int]) -> None:
        await asyncio.Event().wait()

    added = await client.add_job(send, [0, 1])
    await make_worker(send).run_once()

    assert (["JobTimedOut", "JobRetried"], [0, 1]) == (ends(seen), await payload_of(client, added.id))


# In a transaction


def writing(effects: Effects, **options: Any) -> Task[...]:
    """A transactional task that stores each item that is not negative, and fails for the others."""

    @task(items=True, transactional=True, retry=ConstantRetry(60), **options)
    async def write(users: list[int], ctx: JobContext) -> list[Any]:
        for user in users:
            if user >= 0:
                await ctx.query(effects.insert, user)
        return [None if user >= 0 else BROKEN for user in users]

    return write


async def test_the_transaction_of_the_good_items_stores_those_that_are_left(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects
) -> None:
    """Both are one commit."""
    write = writing(effects)
    added = await client.add_job(write, [1, -2, 3])
    await make_worker(write).run_once()

    assert (["ItemsFailed", "JobRetried"], [1, 3]) == (ends(seen), await effects.kept())
    assert [-2] == await payload_of(client, added.id)


async def test_the_transaction_without_a_good_item_is_rolled_back(
    client: Client, make_worker: MakeWorker, effects: Effects
) -> None:
    """As that of a handler that raises."""

    @task(items=True, transactional=True)
    async def write(users: list[int], ctx: JobContext) -> list[Any]:
        await ctx.query(effects.insert, 1)
        return [Discard(), BROKEN]

    added = await client.add_job(write, [0, 1])
    await make_worker(write).run_once()

    assert ([], [1]) == (await effects.kept(), await payload_of(client, added.id))


async def test_a_transaction_whose_job_was_cancelled_keeps_nothing_of_its_items(
    client: Client, make_worker: MakeWorker, seen: Seen, effects: Effects
) -> None:
    """The cancellation was confirmed by another session."""

    @task(items=True, transactional=True)
    async def write(users: list[int], ctx: JobContext) -> list[Any]:
        await ctx.query(effects.insert, 1)
        await client.admin.cancel_jobs([ctx.job.id])
        return [None, BROKEN]

    added = await client.add_job(write, [0, 1])
    await make_worker(write).run_once()

    assert ([], [added.id]) == (await effects.kept(), seen.ids(JobCancelled))


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_lost_answer_to_the_commit_of_some_items_loses_and_doubles_none(
    client: Client, dsn: str, schema: str, seen: Seen, effects: Effects, when: When
) -> None:
    """The job's payload says what was committed, and the next run begins with it."""

    @task(items=True, transactional=True)
    async def write(users: list[int], ctx: JobContext) -> list[Any]:
        for user in users:
            if user >= 0 or ctx.job.interruptions:
                await ctx.query(effects.insert, user)
        return [None if user >= 0 or ctx.job.interruptions else BROKEN for user in users]

    added = await client.add_job(write, [1, -2, 3])
    async with link_to(dsn) as link:
        link.cut_at_commit("handlers", when)
        async with Worker(link.dsn, [write], schema=schema, observers=[seen], poll=60).start():
            await seen.wait_for(JobCompleted)

    assert [added.id] == seen.ids(CommitUncertain) == seen.ids(TransactionAborted)
    assert ([-2, 1, 3], []) == (await effects.kept(), seen.of(JobRetried))


async def test_items_that_failed_after_ctx_complete_are_reported(
    client: Client, make_worker: MakeWorker, seen: Seen, dsn: str
) -> None:
    """The handler's own commit completed the job."""

    @task(items=True)
    async def write(users: list[int], ctx: JobContext) -> list[Any]:
        own = await asyncpg.connect(dsn)
        try:
            async with own.transaction():
                await ctx.complete(connection=own)
        finally:
            await own.close()
        return [None, BROKEN]

    await client.add_job(write, [0, 1])
    await make_worker(write).run_once()

    assert ["ErrorIgnored", "JobCompleted"] == ends(seen)
    assert ["1 of 2 items failed (1 sub-exception)"] == [event.error for event in seen.of(ErrorIgnored)]


async def test_snoozed_items_are_no_attempt(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """The wait is the longest one."""
    send = answering([None, Snooze(5), Snooze(90)])
    await client.add_job(send, [0, 1, 2])
    await make_worker(send).run_once()

    assert [90] == [event.delay_s for event in seen.of(JobSnoozed)]
