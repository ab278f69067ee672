"""A verdict counts anywhere in the handler's exception, and `last_error` has all errors."""

import asyncio
import signal
from collections.abc import Callable
from datetime import timedelta

import anyio
import pytest

from asyncq import Client, Discard, JobState, RetryAfter, Snooze, task
from asyncq.domain.events import JobDiscarded, JobInterrupted, JobRetried, JobSnoozed
from asyncq.domain.outcome import MAX_ERROR, Discarded, Failed, Interrupted, Outcome, RetryLater, Snoozed, TimedOut
from asyncq.engine.run.verdict import outcome_of
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen
from tests.support.waiting import wait_until

CANCELLED = asyncio.CancelledError()
LIMIT = TimedOut("TimedOut: ran longer than 30 s", 30.0)


def group(*errors: BaseException) -> BaseException:
    """A group of errors, as task groups raise it."""
    return BaseExceptionGroup("unhandled errors in a TaskGroup", list(errors))


def said(outcome: Outcome) -> tuple[type[Outcome], float | None, str | None]:
    """The outcome, its wait, and the first line of its error."""
    error = getattr(outcome, "error", None)
    return type(outcome), getattr(outcome, "delay_s", None), error and error.partition("\n")[0]


GROUPS: dict[str, tuple[BaseException, tuple[type[Outcome], float | None, str | None]]] = {
    "one discard": (group(Discard("no use")), (Discarded, None, "Discard: no use")),
    "one retry": (group(RetryAfter(5, "busy")), (RetryLater, 5.0, "RetryAfter: busy")),
    "one snooze": (group(Snooze(7)), (Snoozed, 7.0, None)),
    "nested": (group(group(group(Discard("deep")))), (Discarded, None, "Discard: deep")),
    "discard before the others": (
        group(Snooze(1), RetryAfter(2), group(Discard("no use"))),
        (Discarded, None, "Discard: no use"),
    ),
    "retry before snooze, and the longest wait": (
        group(Snooze(9), RetryAfter(2, "busy"), RetryAfter(timedelta(seconds=4))),
        (RetryLater, 9.0, "RetryAfter: busy"),
    ),
    "the longest snooze": (group(Snooze(1), group(Snooze(3)), Snooze(2)), (Snoozed, 3.0, None)),
    "discard beside an error": (group(OSError("x"), Discard("no use")), (Discarded, None, "Discard: no use")),
    "retry beside an error": (group(RetryAfter(5, "busy"), OSError("x")), (RetryLater, 5.0, "RetryAfter: busy")),
    "a snooze hides no error": (
        group(Snooze(7), OSError("x")),
        (Failed, None, "ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)"),
    ),
    "beside a cancellation": (group(CANCELLED, Snooze(7)), (Snoozed, 7.0, None)),
    "beside an exit": (group(SystemExit(1), Discard("no use")), (Discarded, None, "Discard: no use")),
    "cancellations alone": (group(CANCELLED, group(CANCELLED)), (Failed, None, None)),
    "errors alone": (
        group(OSError("x")),
        (Failed, None, "ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)"),
    ),
}


@pytest.mark.parametrize("name", GROUPS)
def test_the_verdict_in_a_group_decides(name: str) -> None:
    """`asyncio.TaskGroup` raises groups only, so a verdict of a child arrives in one."""
    error, expected = GROUPS[name]
    kind, delay_s, line = said(outcome_of(error, interrupted=False))

    if expected[2] is None and kind is Failed:
        expected = (*expected[:2], "CancelledError: the handler cancelled itself")
    assert expected == (kind, delay_s, line)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RetryAfter(5), False),
        (RetryAfter(5, partition=True), True),
        (group(RetryAfter(5), group(RetryAfter(2, partition=True))), True),
        (group(RetryAfter(5), Snooze(2)), False),
    ],
    ids=["none", "alone", "in a group", "beside a snooze"],
)
def test_a_partition_waits_if_any_verdict_asks_for_it(error: BaseException, expected: bool) -> None:
    """Each child of a task group may have met the refusal."""
    outcome = outcome_of(error, interrupted=False)

    assert isinstance(outcome, RetryLater)
    assert (5.0, expected) == (outcome.delay_s, outcome.partition)


def test_a_group_of_cancellations_of_the_worker_is_an_interruption() -> None:
    """The same as one CancelledError: no attempt is counted."""
    assert Interrupted() == outcome_of(group(CANCELLED, group(CANCELLED)), interrupted=True)


@pytest.mark.parametrize(
    "error", [CANCELLED, group(CANCELLED, OSError("x")), OSError("x"), group(Snooze(7), OSError("x"))]
)
def test_an_error_after_the_hard_limit_is_a_timeout(error: BaseException) -> None:
    """The limit is the cause, and the traceback has the rest."""
    found = outcome_of(error, interrupted=True, timed_out=LIMIT)

    assert (TimedOut, None, "TimedOut: ran longer than 30 s") == said(found)
    assert 30.0 == found.timeout_s
    assert type(error).__name__ in found.error


@pytest.mark.parametrize(
    ("verdict", "kind"), [(Discard("no"), Discarded), (RetryAfter(5), RetryLater), (Snooze(5), Snoozed)]
)
def test_a_verdict_after_the_hard_limit_decides(verdict: BaseException, kind: type[Outcome]) -> None:
    """The handler raised it because it was cancelled."""
    assert kind is type(outcome_of(verdict, interrupted=True, timed_out=LIMIT))


def test_an_interrupted_handler_may_still_raise_a_verdict() -> None:
    """The exception is newer than the cancellation."""
    assert Snoozed(7.0) == outcome_of(group(CANCELLED, Snooze(7)), interrupted=True)


def test_a_ctrl_c_in_a_group_is_raised() -> None:
    """A plain KeyboardInterrupt does too: the process must end."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            outcome_of(group(Discard("no use"), group(KeyboardInterrupt())), interrupted=False)
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_other_errors_of_a_group_are_in_last_error() -> None:
    """The verdict decides, but another error may be its reason."""
    outcome = outcome_of(group(OSError("disk full"), Discard("no use")), interrupted=False)

    assert isinstance(outcome, Discarded)
    assert "OSError: disk full" in outcome.error


def caused(raise_it: Callable[[], None]) -> str:
    """The `last_error` of a verdict."""
    try:
        raise_it()
    except (Discard, RetryAfter) as error:
        outcome = outcome_of(error, interrupted=False)
        assert isinstance(outcome, Discarded | RetryLater)
        return outcome.error
    raise AssertionError("nothing was raised")


def discard_from() -> None:
    """Raise the verdict with a cause."""
    try:
        int("x")
    except ValueError as error:
        raise Discard("no use") from error


def retry_within() -> None:
    """Raise the verdict with a context alone."""
    try:
        int("x")
    except ValueError:
        raise RetryAfter(1, "no use")  # noqa: B904


def discard_long() -> None:
    """Raise the verdict with a cause that is too long to be stored."""
    raise Discard("no use") from ValueError("x" * 2 * MAX_ERROR)


def discard_alone() -> None:
    """Raise the verdict without the context."""
    try:
        int("x")
    except ValueError:
        raise Discard("no use") from None


@pytest.mark.parametrize("raise_it", [discard_from, retry_within])
def test_a_verdict_keeps_its_cause(raise_it: Callable[[], None]) -> None:
    """Otherwise its reason would be lost."""
    error = caused(raise_it)

    assert error.partition("\n")[0].endswith(": no use")
    assert "ValueError: invalid literal" in error
    assert f"in {raise_it.__name__}" in error


def test_a_verdict_with_a_long_cause_is_cut() -> None:
    """Every `last_error` is cut like this; its beginning and its end stay."""
    error = caused(discard_long)

    assert len(error) <= MAX_ERROR
    assert error.startswith("Discard: no use\n")
    assert error.endswith("Discard: no use\n")


def test_a_verdict_without_a_cause_is_its_reason() -> None:
    """A verdict is deliberate, so its traceback is not needed. `from None` leaves the context out."""
    assert ("Discard: no use", "Discard: x") == (caused(discard_alone), caused(lambda: throw(Discard("x"))))


def throw(error: Exception) -> None:
    """Raise it."""
    raise error


async def test_a_verdict_of_a_child_task_decides_the_outcome(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Through asyncio's task group and anyio's, each with a sibling that is cancelled."""

    async def give(verdict: Exception) -> None:
        raise verdict

    @task
    async def discard() -> None:
        async with asyncio.TaskGroup() as children:
            children.create_task(anyio.sleep_forever())
            children.create_task(give(Discard("no use")))

    @task
    async def retry() -> None:
        async with anyio.create_task_group() as outer, anyio.create_task_group() as children:
            outer.start_soon(anyio.sleep_forever)
            children.start_soon(give, RetryAfter(timedelta(minutes=5), "busy"))

    @task
    async def back_off() -> None:
        async with anyio.create_task_group() as children:
            children.start_soon(anyio.sleep_forever)
            children.start_soon(give, RetryAfter(timedelta(minutes=5), "429", partition=True))

    @task
    async def snooze() -> None:
        async with asyncio.TaskGroup() as children:
            children.create_task(give(Snooze(timedelta(minutes=5))))
            children.create_task(give(Snooze(timedelta(minutes=9))))

    added = [await client.add_job(one) for one in (discard, retry, snooze, back_off)]
    await make_worker(discard, retry, snooze, back_off).run_once()
    jobs = [await client.get_job(job.id) for job in added]

    assert [[added[0].id], [added[1].id], [added[2].id, added[3].id]] == [
        seen.ids(kind) for kind in (JobDiscarded, JobRetried, JobSnoozed)
    ]
    assert ["Discard: no use", "RetryAfter: busy", None, "RetryAfter: 429"] == [job.last_error for job in jobs]
    assert [JobState.DISCARDED, JobState.RETRYABLE, *[JobState.SCHEDULED] * 2] == [job.state for job in jobs]
    assert [1, 0, 0] == [job.attempts for job in jobs[1:]]


async def test_a_handler_that_answers_a_stop_with_a_group_is_interrupted(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Code that gathers the ends of its tasks raises its own cancellation in a group."""
    begun = anyio.Event()

    @task
    async def gather() -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError as error:
            raise BaseExceptionGroup("ends", [error]) from None

    added = await client.add_job(gather)
    async with make_worker(gather, grace=timedelta(0)).start():
        await begun.wait()
    await wait_until(lambda: seen.ids(JobInterrupted) == [added.id], description="the job was interrupted")
    job = await client.get_job(added.id)

    assert (0, 1) == (job.attempts, job.interruptions)
