"""Each retry policy as a table, and the bounds of jitter."""

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncq.domain.errors import CENTURY_S, ConfigurationError
from asyncq.domain.retry import (
    ConstantRetry,
    DefaultRetry,
    ExponentialRetry,
    FunctionRetry,
    LinearRetry,
    RetryPolicy,
    TableRetry,
    as_policy,
)


def waits(policy: RetryPolicy, attempts: int = 5) -> list[float]:
    """The waits after the first attempts, without jitter's luck."""
    return [policy.delay_s(attempt, 0.5) for attempt in range(1, attempts + 1)]


def test_the_default_is_the_table_of_graphile_worker() -> None:
    """The waits are exp(attempt) seconds, constant from the tenth attempt on."""
    expected = [2.718, 7.389, 20.09, 54.6, 148.4, 403.4, 1096.6, 2981.0, 8103.1, 22026.5, 22026.5, 22026.5]

    assert expected == pytest.approx(waits(DefaultRetry(), 12), rel=5e-4)


def test_the_default_ends_after_about_four_days() -> None:
    """25 attempts, 24 waits: a failure on Friday evening is still tried on Monday."""
    assert 4.0 == pytest.approx(sum(waits(DefaultRetry(), 24)) / 86400, abs=0.1)


def test_the_default_knows_no_attempt_that_is_too_late() -> None:
    """max_attempts may be up to 32767."""
    assert math.exp(10) == DefaultRetry().delay_s(32767, 0.5)


def test_exponential_doubles_by_default() -> None:
    """The waits go from a second to a day."""
    assert [1, 2, 4, 8, 16] == waits(ExponentialRetry())
    assert 86400 == ExponentialRetry().delay_s(18, 0.5)


def test_exponential_takes_its_first_wait_factor_and_longest() -> None:
    """They may be timedeltas or seconds."""
    policy = ExponentialRetry(first=timedelta(minutes=1), factor=3, longest=timedelta(minutes=10))

    assert [60, 180, 540, 600, 600] == waits(policy)


@pytest.mark.parametrize("factor", [2, 2.0, 1e300])
def test_exponential_does_not_overflow(factor: float) -> None:
    """2 ** 32766 is no float, so the longest wait is used."""
    assert 86400 == ExponentialRetry(factor=factor).delay_s(32767, 0.5)


def test_exponential_from_zero_stays_zero() -> None:
    """The power of the factor may even exceed a float."""
    assert [0, 0] == [ExponentialRetry(first=0).delay_s(attempt, 0.5) for attempt in (1, 32767)]


def test_linear_adds_its_step() -> None:
    """The wait grows up to the longest one."""
    assert [10, 20, 25, 25, 25] == waits(LinearRetry(10, longest=25))
    assert 86400 == LinearRetry(10).delay_s(32767, 0.5)


def test_constant_waits_the_same_each_time() -> None:
    """Zero means at once."""
    assert [30] * 5 == waits(ConstantRetry(timedelta(seconds=30)))
    assert [0] * 5 == waits(ConstantRetry(0))


def test_a_table_repeats_its_last_entry() -> None:
    """The job may have any number of attempts."""
    assert [1, 10, 60, 60, 60] == waits(TableRetry([1, 10.0, timedelta(minutes=1)]))


def test_a_table_is_a_copy() -> None:
    """A policy is frozen, and the list of the caller is not."""
    delays: list[timedelta | float] = [1, 2]
    policy = TableRetry(delays)
    delays[0] = -5

    assert [1, 2, 2] == waits(policy, 3)


def test_a_function_is_asked_for_each_attempt() -> None:
    """The first attempt is 1; it answers with a timedelta or seconds."""
    assert [2, 4, 6] == waits(FunctionRetry(lambda attempt: 2.0 * attempt), 3)
    assert [60] == waits(FunctionRetry(lambda attempt: timedelta(minutes=attempt)), 1)


def test_a_function_that_raises_raises() -> None:
    """`settle` turns it into a wait of a minute and a note in `last_error`."""
    with pytest.raises(ZeroDivisionError):
        FunctionRetry(lambda attempt: 1 / 0).delay_s(1, 0.5)


@pytest.mark.parametrize("answer", [-1, math.nan, None, "5", math.inf])
def test_a_function_that_returns_no_delay_is_an_error(answer: Any) -> None:
    """NaN would make a row that can never be written."""
    with pytest.raises(ConfigurationError):
        FunctionRetry(lambda attempt: answer).delay_s(1, 0.5)


POLICIES = {
    "exponential": lambda jitter: ExponentialRetry(10.0, jitter=jitter),
    "linear": lambda jitter: LinearRetry(10.0, jitter=jitter),
    "constant": lambda jitter: ConstantRetry(10.0, jitter=jitter),
    "table": lambda jitter: TableRetry([10.0], jitter=jitter),
    "function": lambda jitter: FunctionRetry(lambda attempt: 10.0, jitter=jitter),
}


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
def test_jitter_spreads_evenly_around_the_wait(make: Any) -> None:
    """A tenth means nine to eleven. Without jitter, jobs that failed together would be retried together."""
    policy = make(0.1)

    assert [9.0, 10.0, 11.0] == pytest.approx([policy.delay_s(1, random) for random in (0.0, 0.5, 1.0)])


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
def test_there_is_no_jitter_by_default(make: Any) -> None:
    """The delays of a policy are exact unless jitter is requested."""
    assert [10.0, 10.0] == [make(0.0).delay_s(1, random) for random in (0.0, 1.0)]


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
@given(
    jitter=st.floats(0, 1),
    random=st.floats(0, 1),
    attempt=st.integers(1, 32767),
)
def test_a_wait_stays_within_the_bounds_of_jitter(make: Any, jitter: float, random: float, attempt: int) -> None:
    """It is neither negative nor unlimited."""
    exact = make(0.0).delay_s(attempt, 0.5)

    actual = make(jitter).delay_s(attempt, random)
    assert exact * (1 - jitter) * (1 - 1e-9) <= actual <= exact * (1 + jitter) * (1 + 1e-9)


def test_jitter_does_not_lead_beyond_a_century() -> None:
    """A century is the longest delay."""
    assert CENTURY_S == ConstantRetry(CENTURY_S, jitter=1).delay_s(1, 1.0)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ExponentialRetry(first=-1), "a delay"),
        (lambda: ExponentialRetry(longest=math.inf), "a delay"),
        (lambda: ExponentialRetry(factor=0.5), "factor must be"),
        (lambda: ExponentialRetry(factor=math.nan), "factor must be"),
        (lambda: ExponentialRetry(factor=math.inf), "factor must be"),
        (lambda: ExponentialRetry(factor="2"), "factor must be"),  # type: ignore[arg-type]
        (lambda: ExponentialRetry(jitter=1.1), "jitter lies"),
        (lambda: LinearRetry(-1), "a delay"),
        (lambda: LinearRetry(1, longest=-1), "a delay"),
        (lambda: LinearRetry(1, jitter=-0.1), "jitter lies"),
        (lambda: ConstantRetry("5s"), "a delay"),  # type: ignore[arg-type]
        (lambda: ConstantRetry(1, jitter=math.nan), "jitter lies"),
        (lambda: ConstantRetry(1, jitter="0.1"), "jitter lies"),  # type: ignore[arg-type]
        (lambda: ConstantRetry(1, jitter=True), "jitter lies"),
        (lambda: TableRetry([]), "at least one delay"),
        (lambda: TableRetry(5), "at least one delay"),  # type: ignore[arg-type]
        (lambda: TableRetry([1, -1]), "a delay"),
        (lambda: TableRetry("12"), "a delay"),  # type: ignore[arg-type]
        (lambda: TableRetry([1], jitter=2), "jitter lies"),
        (lambda: FunctionRetry(5), "a plain function"),  # type: ignore[arg-type]
        (lambda: FunctionRetry(lambda attempt: 1, jitter=2), "jitter lies"),
    ],
)
def test_a_policy_that_cannot_work_is_refused_when_it_is_made(make: Any, said: str) -> None:
    """It fails at import, not at the first failure at night."""
    with pytest.raises(ConfigurationError, match=said):
        make()


async def asks_a_service(attempt: int) -> float:
    """No retry function: `settle` cannot wait."""
    return attempt


def test_an_async_function_is_no_policy() -> None:
    """Its coroutine would be no delay, each time."""
    with pytest.raises(ConfigurationError, match="a plain function"):
        as_policy(asks_a_service)


class Own:
    """A policy of a user's."""

    def delay_s(self, attempt: int, random: float) -> float:
        return attempt + random


def test_retry_takes_a_policy_a_list_a_function_or_nothing() -> None:
    """The four forms of `retry=`."""
    assert DefaultRetry() == as_policy(None)
    assert ConstantRetry(5) == as_policy(ConstantRetry(5))
    assert TableRetry((1, 2)) == as_policy([1, 2])
    assert TableRetry((1, 2)) == as_policy((1, 2))
    assert FunctionRetry(abs) == as_policy(abs)
    assert [1.5, 2.5] == waits(as_policy(Own()), 2)


@pytest.mark.parametrize("retry", [5, 0.5, "5s", timedelta(seconds=5), ExponentialRetry, Own, {1: 2}], ids=repr)
def test_other_values_of_retry_are_refused(retry: Any) -> None:
    """Among them the class of a policy: its parentheses were forgotten."""
    with pytest.raises(ConfigurationError, match="retry must be a policy, a list of delays or a function"):
        as_policy(retry)
