"""Retry policies: how long a job waits after its n-th failed attempt. They are pure: callers give the random number."""

import inspect
import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Protocol, cast

import msgspec

from asyncq.domain.errors import CENTURY_S, ConfigurationError, seconds

Delay = timedelta | float


class RetryPolicy(Protocol):
    """Decides how long a job waits after a failed attempt: a policy of this module, or any object with `delay_s`."""

    def delay_s(self, attempt: int, random: float) -> float:
        """Seconds to wait after a failed attempt.

        Args:
            attempt: Which attempt failed; the first is 1.
            random: A number between 0 and 1, for jitter.

        Returns:
            Seconds, not negative.
        """
        ...


class ExponentialRetry(msgspec.Struct, frozen=True):
    """Wait `first * factor ** (attempt - 1)`, at most `longest`.

    Args:
        first: The wait after the first failed attempt, a timedelta or seconds; 1 s by default.
        factor: By how much each wait is longer than the one before; 2 by default.
        longest: The limit of a wait, before jitter, a timedelta or seconds; one day by default.
        jitter: The wait is multiplied by a random number between 1 - jitter and 1 + jitter; 0 by default.

    Raises:
        ConfigurationError: A value is not valid.
    """

    first: Delay = 1.0
    factor: float = 2.0
    longest: Delay = 86400.0
    jitter: float = 0.0

    def __post_init__(self) -> None:
        _check(self.jitter, self.first, self.longest)
        if not _is_number(self.factor) or not (math.isfinite(self.factor) and self.factor >= 1):
            raise ConfigurationError(f"factor must be a number of at least 1, got {self.factor!r}")

    def delay_s(self, attempt: int, random: float) -> float:
        """See `RetryPolicy.delay_s`."""
        first_s, longest_s = seconds(self.first), seconds(self.longest)
        try:
            wait_s = first_s * float(self.factor) ** (attempt - 1)
        except OverflowError:
            wait_s = longest_s if first_s else 0.0
        return _jittered(min(wait_s, longest_s), self.jitter, random)


class LinearRetry(msgspec.Struct, frozen=True):
    """Wait `step * attempt`, at most `longest`.

    Args:
        step: By how much each wait is longer than the one before, a timedelta or seconds.
        longest: The limit of a wait, before jitter, a timedelta or seconds; one day by default.
        jitter: The wait is multiplied by a random number between 1 - jitter and 1 + jitter; 0 by default.

    Raises:
        ConfigurationError: A value is not valid.
    """

    step: Delay
    longest: Delay = 86400.0
    jitter: float = 0.0

    def __post_init__(self) -> None:
        _check(self.jitter, self.step, self.longest)

    def delay_s(self, attempt: int, random: float) -> float:
        """See `RetryPolicy.delay_s`."""
        return _jittered(min(seconds(self.step) * attempt, seconds(self.longest)), self.jitter, random)


class ConstantRetry(msgspec.Struct, frozen=True):
    """Wait the same time after each attempt.

    Args:
        delay: The wait, a timedelta or seconds.
        jitter: The wait is multiplied by a random number between 1 - jitter and 1 + jitter; 0 by default.

    Raises:
        ConfigurationError: A value is not valid.
    """

    delay: Delay
    jitter: float = 0.0

    def __post_init__(self) -> None:
        _check(self.jitter, self.delay)

    def delay_s(self, attempt: int, random: float) -> float:  # noqa: ARG002
        """See `RetryPolicy.delay_s`."""
        return _jittered(seconds(self.delay), self.jitter, random)


class TableRetry(msgspec.Struct, frozen=True):
    """Wait as a table says; after its end, its last entry.

    Args:
        delays: The waits after the first, second, ... attempt, each a timedelta or seconds; at least one.
        jitter: The wait is multiplied by a random number between 1 - jitter and 1 + jitter; 0 by default.

    Raises:
        ConfigurationError: A value cannot work.
    """

    delays: Sequence[Delay]
    jitter: float = 0.0

    def __post_init__(self) -> None:
        delays: Any = self.delays
        if not isinstance(delays, Sequence) or not delays:
            raise ConfigurationError(f"a retry table needs at least one delay, got {delays!r}")
        _check(self.jitter, *self.delays)
        # A copy: what the caller does to the list later changes no policy.
        msgspec.structs.force_setattr(self, "delays", tuple(self.delays))

    def delay_s(self, attempt: int, random: float) -> float:
        """See `RetryPolicy.delay_s`."""
        return _jittered(seconds(self.delays[min(attempt, len(self.delays)) - 1]), self.jitter, random)


class FunctionRetry(msgspec.Struct, frozen=True):
    """Wait as a function says; a plain function as `retry=` means the same.

    Args:
        function: Takes the number of the failed attempt, the first is 1; returns a timedelta or seconds. When it fails,
            the job waits a minute, and `last_error` says so.
        jitter: The wait is multiplied by a random number between 1 - jitter and 1 + jitter; 0 by default.

    Raises:
        ConfigurationError: A value cannot work.
    """

    function: Callable[[int], Delay]
    jitter: float = 0.0

    def __post_init__(self) -> None:
        function: Any = self.function
        if not callable(function) or inspect.iscoroutinefunction(function):
            raise ConfigurationError(f"a retry function is a plain function of the attempt, got {function!r}")
        _check(self.jitter)

    def delay_s(self, attempt: int, random: float) -> float:
        """See `RetryPolicy.delay_s`."""
        return _jittered(seconds(self.function(attempt)), self.jitter, random)


class DefaultRetry(msgspec.Struct, frozen=True):
    """Wait `exp(min(attempt, 10))` seconds: 2.7 s, 7.4 s, 20 s, ... 6 hours; 25 attempts take about four days.

    Source: the back-off table in the README of graphile-worker.
    """

    def delay_s(self, attempt: int, random: float) -> float:  # noqa: ARG002
        return math.exp(min(attempt, 10))


Retry = RetryPolicy | Sequence[Delay] | Callable[[int], Delay]


def as_policy(retry: Retry | None) -> RetryPolicy:
    """The policy of `retry=`: None for the default, a policy, a list of delays, or a function of the attempt."""
    if retry is None:
        return DefaultRetry()
    if not isinstance(retry, type):
        if hasattr(retry, "delay_s"):
            return cast(RetryPolicy, retry)
        if isinstance(retry, list | tuple):
            return TableRetry(cast(Sequence[Delay], retry))
        if callable(retry):
            return FunctionRetry(retry)
    raise ConfigurationError(f"retry must be a policy, a list of delays or a function of the attempt, got {retry!r}")


def _check(jitter: float, *delays: Delay) -> None:
    for delay in delays:
        seconds(delay)
    if not _is_number(jitter) or not 0 <= jitter <= 1:
        raise ConfigurationError(f"jitter lies between 0 and 1, got {jitter!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _jittered(wait_s: float, jitter: float, random: float) -> float:
    return min(wait_s * (1 - jitter + 2 * jitter * random), CENTURY_S)
