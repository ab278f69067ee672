"""Time limits: the durations in which they are written, and which of them are refused."""

import math
from datetime import timedelta
from typing import Any

import pytest

from asyncq import InvalidJob, JobContext, JobSpec, TaskError, Timeout, task
from asyncq.domain.errors import ConfigurationError
from asyncq.domain.time_limit import as_timeout, duration_s

DAY_S = 86_400
FORMS: list[tuple[Any, float]] = [
    (30, 30),
    (0.5, 0.5),
    (timedelta(minutes=2), 120),
    (timedelta(microseconds=1), 0.000001),
    ("30 s", 30),
    ("30s", 30),
    ("250 ms", 0.25),
    ("1.5 h", 5400),
    ("5 min", 300),
    ("5m", 300),
    ("1 hour", 3600),
    ("1 h 30 min", 5400),
    ("1h30m", 5400),
    ("7 days", 7 * DAY_S),
    ("2 w", 14 * DAY_S),
    ("366 d", 366 * DAY_S),
]


@pytest.mark.parametrize(("written", "number"), FORMS, ids=str)
def test_a_duration_is_seconds_a_timedelta_or_text(written: Any, number: float) -> None:
    """They are the forms in which people write it."""
    assert number == duration_s(written, "timeout")


NO_DURATIONS: list[Any] = [
    "",
    "30",
    "soon",
    "30 parsecs",
    " 30 s",
    "-1 s",
    "1 s 2",
    "1e3 s",
    "s",
    "٣ s",
    b"3 s",
    True,
    [30],
]
OUTSIDE: list[Any] = [
    0,
    -1,
    "0 s",
    timedelta(0),
    timedelta(-1),
    math.nan,
    math.inf,
    "367 days",
    366 * DAY_S + 1,
    10**400,
]


@pytest.mark.parametrize("written", NO_DURATIONS, ids=repr)
def test_a_value_that_is_no_duration_is_refused(written: Any) -> None:
    """The sentence has the value and the forms."""
    with pytest.raises(
        ConfigurationError, match=r"timeout must be a duration, such as 30 \(seconds\), '30 s' or a timed"
    ):
        duration_s(written, "timeout")


@pytest.mark.parametrize("written", OUTSIDE, ids=lambda value: repr(value)[:20])
def test_a_duration_outside_of_the_range_is_refused(written: Any) -> None:
    """The sentence has the value and the range."""
    with pytest.raises(ConfigurationError, match=r"timeout is .*, expected more than 0, at most 366 days"):
        duration_s(written, "timeout")


def test_a_duration_alone_is_the_hard_limit() -> None:
    """It is what most people mean."""
    assert Timeout(hard=30) == as_timeout("30 s")
    assert (20.0, 30.0) == (Timeout(soft="20 s", hard=30).soft_s, Timeout(soft="20 s", hard=30).hard_s)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({}, "a Timeout needs soft= or hard="),
        ({"soft": 30, "hard": "30 s"}, "the soft timeout is 30, expected less than the hard one, '30 s'"),
        ({"soft": 31, "hard": 30}, "the soft timeout is 31, expected less"),
        ({"soft": 0, "hard": 30}, "the soft timeout is 0, expected more than 0"),
        ({"hard": "x"}, "timeout must be a duration"),
    ],
    ids=str,
)
def test_limits_that_make_no_sense_are_refused(limits: dict[str, Any], said: str) -> None:
    """The handler would never see the soft limit."""
    with pytest.raises(ConfigurationError, match=said):
        Timeout(**limits)


@pytest.mark.parametrize("given", [0, "x", -1, "367 d"])
def test_a_job_with_a_bad_limit_is_refused_with_a_code(given: Any) -> None:
    """It is the code of SQL."""
    with pytest.raises(InvalidJob, match="timeout") as caught:
        JobSpec(task="t").with_options(timeout=given)

    assert ("GWBDU", "timeout") == (caught.value.code, caught.value.field)


def test_the_limit_of_a_spec_that_was_made_by_hand_is_checked() -> None:
    """The fields of a spec are not checked when it is made."""
    with pytest.raises(InvalidJob, match="timeout of a JobSpec must be a Timeout, got 30"):
        JobSpec(task="t", timeout=30).with_options()  # type: ignore[arg-type]


async def coroutine() -> None:
    """A handler that can be cancelled, without a context."""


def plain() -> None:
    """A handler in a thread, without a context."""


def plain_with_context(ctx: JobContext) -> None:
    """A handler in a thread, which can see that it should end."""


def test_a_limit_without_an_effect_is_refused_at_import() -> None:
    """Nobody would notice that the limit does nothing."""
    with pytest.raises(
        TaskError, match="task 'plain': a plain function runs in a thread, which cannot be cancelled: the"
    ):
        task(timeout=30)(plain)
    with pytest.raises(
        TaskError, match=r"task 'coroutine': the soft timeout sets ctx.cancelled: the handler needs a par"
    ):
        task(timeout=Timeout(soft=20))(coroutine)

    assert Timeout(hard=30) == task(timeout=30)(coroutine).timeout
    assert Timeout(hard=30) == task(timeout="30 s")(plain_with_context).timeout


def test_a_bad_limit_of_a_task_is_refused_at_import() -> None:
    """The error names the task."""
    with pytest.raises(TaskError, match="task 'coroutine': timeout is 0, expected more than 0, at most 366 days"):
        task(timeout=0)(coroutine)


def test_the_limit_of_a_task_is_no_option_of_its_jobs() -> None:
    """It needs no byte in the store, and such jobs stay plain."""
    assert task(timeout=30)(coroutine).job().is_plain
    assert not JobSpec(task="t").with_options(timeout=30).is_plain
