"""The table of transitions: how each outcome of a run changes the job's row."""

import asyncio
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncq.domain.job import Claim
from asyncq.domain.outcome import (
    MAX_ERROR,
    MAX_INTERRUPTIONS,
    PAST_DEADLINE,
    Aborted,
    Completed,
    Discarded,
    Expired,
    Failed,
    Interrupted,
    Outcome,
    RetryLater,
    Returned,
    Settlement,
    Snoozed,
    TimedOut,
    clean_error,
    settle,
)
from asyncq.domain.retry import ConstantRetry, DefaultRetry, FunctionRetry, RetryPolicy

POLICY = ConstantRetry(10, jitter=0.5)


def claim(
    *, attempts: int = 0, max_attempts: int = 25, interruptions: int = 0, deadline_at: float | None = None
) -> Claim:
    """A claim whose id, token and queue differ."""
    return Claim(
        id=7,
        task_id=1,
        queue="q",
        token=99,
        attempts=attempts,
        max_attempts=max_attempts,
        interruptions=interruptions,
        priority=0,
        revision=0,
        due=0,
        created=0,
        updated=0,
        key=None,
        flags=None,
        payload="{}",
        meta=None,
        last_error=None,
        deadline_at=deadline_at,
        partition=5,
    )


def settlement(**fields: Any) -> Settlement:
    """The expected settlement of that claim."""
    return Settlement(7, 99, 5, **fields)


def failure(**fields: Any) -> Settlement:
    """The expected settlement of an attempt that counts."""
    return settlement(**{"attempts": 1, "interruptions": 0, "kind": "failed", **fields})


FIRST, LAST = claim(attempts=0, max_attempts=3), claim(attempts=2, max_attempts=3)

TABLE: list[tuple[str, Claim, Outcome, Settlement]] = [
    ("completed", FIRST, Completed(), settlement(end="completed")),
    ("completed at the last attempt", LAST, Completed(), settlement(end="completed")),
    ("failed", FIRST, Failed("E"), failure(delay_s=10.0, error="E")),
    (
        "discarded after the last attempt",
        LAST,
        Failed("E"),
        failure(delay_s=10.0, error="E", discarded=True),
    ),
    ("timed out", FIRST, TimedOut("T", 30.0), failure(delay_s=10.0, error="T")),
    ("retry later", FIRST, RetryLater("R", 5.0), failure(delay_s=5.0, error="R")),
    ("retry at once", FIRST, RetryLater("R", 0.0), failure(delay_s=0.0, error="R")),
    (
        "retry later, but none is left",
        LAST,
        RetryLater("R", 5.0),
        failure(delay_s=5.0, error="R", discarded=True),
    ),
    (
        "retry later with its partition",
        LAST,
        RetryLater("R", 5.0, partition=True),
        settlement(delay_s=5.0, error="R", interruptions=0, backs_off=True),
    ),
    ("discarded", FIRST, Discarded("D"), failure(attempts=32767, error="D", discarded=True)),
    ("snoozed", FIRST, Snoozed(30.0), settlement(delay_s=30.0, interruptions=0)),
    ("snoozed at the last attempt", LAST, Snoozed(30.0), settlement(delay_s=30.0, interruptions=0)),
    ("interrupted", FIRST, Interrupted(), settlement(interruptions=1)),
    ("interrupted at the last attempt", LAST, Interrupted(), settlement(interruptions=1)),
    ("interrupted the tenth time", claim(interruptions=9), Interrupted(), settlement(interruptions=10)),
    (
        "interrupted the eleventh time",
        claim(interruptions=10),
        Interrupted(),
        failure(kind="interrupted", delay_s=10.0, error="Interrupted: cut off by shutdowns 11 times in a row"),
    ),
    (
        "interrupted the eleventh time at the last attempt",
        claim(attempts=2, max_attempts=3, interruptions=10),
        Interrupted(),
        failure(
            kind="interrupted",
            delay_s=10.0,
            error="Interrupted: cut off by shutdowns 11 times in a row",
            discarded=True,
        ),
    ),
    ("aborted", claim(), Aborted("E"), settlement(delay_s=0.015, error="E", interruptions=1)),
    (
        "aborted the tenth time",
        claim(interruptions=9),
        Aborted("E"),
        settlement(delay_s=7.5, error="E", interruptions=10),
    ),
    (
        "aborted the eleventh time",
        claim(interruptions=10),
        Aborted("E"),
        failure(kind="aborted", delay_s=10.0, error="E"),
    ),
    ("returned", claim(interruptions=4), Returned(), settlement()),
    ("expired", FIRST, Expired(), settlement(end="cancelled")),
]


@pytest.mark.parametrize(
    ("held", "outcome", "expected"), [row[1:] for row in TABLE], ids=[row[0].replace(" ", "-") for row in TABLE]
)
def test_the_table(held: Claim, outcome: Outcome, expected: Settlement) -> None:
    """It has every transition of a running job, one row each."""
    assert expected == settle(held, outcome, POLICY, 0.5)


TOO_LATE: list[tuple[Outcome, str]] = [
    (Failed("E"), f"E\n\n{PAST_DEADLINE}"),
    (TimedOut("T", 30.0), f"T\n\n{PAST_DEADLINE}"),
    (RetryLater("R", 20.0), f"R\n\n{PAST_DEADLINE}"),
    (RetryLater("R", 20.0, partition=True), f"R\n\n{PAST_DEADLINE}"),
    (Snoozed(20.0), PAST_DEADLINE),
]


@pytest.mark.parametrize(("outcome", "error"), TOO_LATE, ids=lambda value: type(value).__name__)
def test_a_job_whose_next_attempt_would_start_after_its_deadline_is_discarded(outcome: Outcome, error: str) -> None:
    """A retry that cannot help would only hide the failure until then."""
    expected = failure(attempts=32767, error=error, discarded=True)

    assert expected == settle(claim(deadline_at=109.0), outcome, POLICY, 0.5, 100.0)


@pytest.mark.parametrize("outcome", [each for each, _ in TOO_LATE], ids=lambda value: type(value).__name__)
def test_a_deadline_that_leaves_time_for_the_next_attempt_changes_nothing(outcome: Outcome) -> None:
    """The job may still succeed in time."""
    assert settle(claim(), outcome, POLICY, 0.5) == settle(claim(deadline_at=121.0), outcome, POLICY, 0.5, 100.0)


@pytest.mark.parametrize("outcome", [Completed(), Interrupted(), Returned(), Expired()], ids=str)
def test_other_outcomes_do_not_look_at_the_deadline(outcome: Outcome) -> None:
    """A completed job has completed; a job that is due again at once is looked at when it is claimed."""
    assert settle(claim(), outcome, POLICY, 0.5) == settle(claim(deadline_at=1.0), outcome, POLICY, 0.5, 100.0)


def test_the_table_has_every_outcome() -> None:
    """An outcome without a row would be settled by accident."""
    assert set(Outcome.__args__) == {type(row[2]) for row in TABLE}


def test_a_job_of_one_attempt_is_discarded_at_its_first() -> None:
    """max_attempts counts all attempts, not the retries."""
    assert settle(claim(max_attempts=1), Failed("E"), POLICY, 0.5).discarded


def test_a_claim_whose_attempts_were_used_up_meanwhile_stays_dead() -> None:
    """Its key belongs to a newer request, so attempts equals max_attempts already."""
    assert settle(claim(attempts=25, max_attempts=25), Failed("E"), POLICY, 0.5).discarded


def test_the_policy_gets_the_number_of_the_failed_attempt() -> None:
    """The first attempt is 1."""
    policy = FunctionRetry(lambda attempt: attempt * 100)

    assert [100, 300] == [settle(claim(attempts=n), Failed("E"), policy, 0.5).delay_s for n in (0, 2)]


def test_the_random_number_reaches_the_policy() -> None:
    """It is an argument, so that the table above is exact."""
    assert [5.0, 15.0] == [settle(FIRST, Failed("E"), POLICY, random).delay_s for random in (0.0, 1.0)]


def test_the_default_policy_waits_e_seconds_first() -> None:
    """The first wait is 2.7 s."""
    assert math.e == settle(FIRST, Failed("E"), DefaultRetry(), 0.5).delay_s


def test_the_limit_of_interruptions_is_ten_in_a_row() -> None:
    """A failure or a snooze resets the count. The documentation names the number."""
    assert 10 == MAX_INTERRUPTIONS
    assert [0, 0] == [
        settle(claim(interruptions=9), outcome, POLICY, 0.5).interruptions for outcome in (Failed("E"), Snoozed(1))
    ]


# A policy of the user's that fails


class Broken(Exception):
    """An error that cannot even be printed."""

    def __str__(self) -> str:
        raise RuntimeError("not even this")


class Answers:
    """A policy of a user's that answers anything."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def delay_s(self, attempt: int, random: float) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    "answer",
    [ValueError("no"), Broken(), asyncio.CancelledError(), None, "5", -1.0, math.nan, math.inf, 1e300],
    ids=lambda answer: type(answer).__name__,
)
def test_a_policy_that_fails_makes_the_job_wait_a_minute(answer: Any) -> None:
    """A user's function may fail: a row that cannot be written would block its whole batch."""
    actual = settle(FIRST, Failed("E"), Answers(answer), 0.5)

    assert (60.0, 1, False) == (actual.delay_s, actual.attempts, actual.discarded)


def test_a_policy_that_fails_does_not_hide_the_error_of_the_job() -> None:
    """Both errors are stored, the job's own first."""
    actual = settle(FIRST, Failed("E: the job's own"), Answers(ValueError("no \0")), 0.5)

    assert (
        "E: the job's own\n\nThe task's retry policy failed too, so the job waits a minute: ValueError: no \\x00"
        == actual.error
    )


def test_a_policy_that_fails_unprintably_is_named() -> None:
    """Its `__str__` must not end the worker."""
    assert "Broken: <its __str__ raised RuntimeError>" in (
        settle(FIRST, Failed("E"), Answers(Broken()), 0.5).error or ""
    )


def test_a_policy_is_not_asked_when_the_handler_has_chosen() -> None:
    """RetryAfter is the handler's decision."""
    policy: RetryPolicy = Answers(ValueError("not asked"))

    assert failure(delay_s=5.0, error="R") == settle(FIRST, RetryLater("R", 5.0), policy, 0.5)


# clean_error


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("ValueError: no\n\nTraceback ...", "ValueError: no\n\nTraceback ..."),
        ("ü 😀", "ü 😀"),
        ("a\0b", "a\\x00b"),
        ("a\ud800b", "a\\ud800b"),
        ("x" * MAX_ERROR, "x" * MAX_ERROR),
    ],
    ids=lambda text: ascii(text)[:30],
)
def test_an_error_is_stored_unchanged_except_for_characters_that_postgresql_cannot_hold(
    text: str, expected: str
) -> None:
    """U+0000 and lone surrogates become their escapes."""
    assert expected == clean_error(text)


def test_a_long_error_is_cut_in_the_middle() -> None:
    """The type and the message are at its beginning, the line that raised is at its end."""
    actual = clean_error("begin" + "x" * 100_000 + "end")

    assert (True, True) == (actual.startswith("begin"), actual.endswith("end"))
    assert "\n... 83688 characters left out ...\n" in actual


@given(st.text(alphabet=st.sampled_from("ab\0\ud800\U0001f600"), max_size=50), st.integers(0, 2000))
def test_an_error_is_never_longer_than_the_limit_and_always_text(text: str, times: int) -> None:
    """last_error holds at most 16,384 characters; a traceback of a deep recursion has megabytes."""
    actual = clean_error(text * times)

    assert len(actual) <= MAX_ERROR
    assert "\0" not in actual
    assert actual == actual.encode().decode()
