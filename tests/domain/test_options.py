"""The options of a worker: defaults, units, and invalid values."""

import math
from datetime import timedelta
from typing import Any

import pytest

from asyncq.domain.errors import ConfigurationError
from asyncq.domain.options import WorkerOptions, worker_options
from tests.support.ids import written


def test_the_defaults() -> None:
    """They are printed at the start, and the documentation names them."""
    assert (
        WorkerOptions(
            concurrency=10,
            poll_s=2.0,
            lease_s=30.0,
            grace_s=25.0,
            pool_size=5,
            pool_wait_s=30.0,
            listen=True,
            forbidden_flags=None,
            discarded_retention_s=30 * 86400.0,
            error_retention_s=7 * 86400.0,
        )
        == worker_options()
    )


def test_none_is_the_default() -> None:
    """A command line passes on missing options as None."""
    assert worker_options() == worker_options(concurrency=None, poll=None, grace=None, forbidden_flags=None)


def test_a_retention_of_none_is_for_ever() -> None:
    """None is not the default here."""
    assert worker_options(discarded_retention=None).discarded_retention_s is None


def test_an_error_retention_of_none_is_never() -> None:
    """Errors are not recorded then."""
    assert worker_options(error_retention=None).error_retention_s is None


def test_a_blocked_after_of_none_is_never() -> None:
    """A missing option means the default."""
    assert (None, 1.0) == (worker_options(blocked_after=None).blocked_after_s, worker_options().blocked_after_s)


def test_delays_are_timedeltas_or_seconds() -> None:
    """The public name has no unit; the inner one has."""
    actual = worker_options(poll=timedelta(milliseconds=500), lease=60, grace=0, pool_wait=timedelta(seconds=5))

    assert WorkerOptions(poll_s=0.5, lease_s=60.0, grace_s=0.0, pool_wait_s=5.0) == actual


def test_listen_can_be_turned_off() -> None:
    """False is not None."""
    assert not worker_options(listen=False).listen


@pytest.mark.parametrize(
    "given",
    [
        {"concurrency": 1},
        {"concurrency": 10_000},
        {"pool_size": 1},
        {"poll": 0.01},
        {"poll": 60},
        {"lease": 1},
        {"lease": timedelta(days=1)},
        {"grace": 0},
        {"pool_wait": 0.01},
        {"discarded_retention": 0},
        {"discarded_retention": timedelta(days=36_500)},
        {"error_retention": 0},
        {"forbidden_flags": []},
        {"forbidden_flags": ("a", "b")},
        {"forbidden_flags": {"a"}},
        {"forbidden_flags": lambda: ["a"]},
    ],
    ids=written,
)
def test_values_at_the_limits_work(given: dict[str, Any]) -> None:
    """A limit is the last valid value."""
    assert isinstance(worker_options(**given), WorkerOptions)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"concurrency": 0}, "concurrency must be a whole number from 1 to 10000, got 0"),
        ({"concurrency": 10_001}, "concurrency"),
        ({"concurrency": 1.0}, "concurrency"),
        ({"concurrency": True}, "concurrency"),
        ({"concurrency": "10"}, "concurrency"),
        ({"pool_size": 0}, "pool_size"),
        ({"poll": 0}, "poll must lie between 0.01 and 60 seconds, got 0"),
        ({"poll": 61}, "poll"),
        ({"poll": -1}, "poll lies between 0 and"),
        ({"poll": math.nan}, "poll lies between"),
        ({"poll": "2"}, "poll is a timedelta or a number of seconds, got '2'"),
        ({"lease": 0.5}, "lease must lie between 1 and 86400 seconds, got 0.5"),
        ({"lease": timedelta(days=2)}, "lease"),
        ({"grace": -1}, "grace lies between"),
        ({"pool_wait": 0}, "pool_wait"),
        ({"discarded_retention": -1}, "discarded_retention lies between"),
        ({"error_retention": -1}, "error_retention lies between"),
        ({"error_retention": "7d"}, "error_retention is a timedelta or a number of seconds, got '7d'"),
        ({"blocked_after": 0}, "blocked_after must lie between 0.05 and 3600 seconds, or be None"),
        ({"blocked_after": 3601}, "blocked_after must lie between 0.05 and 3600 seconds, or be None"),
        ({"forbidden_flags": "slow"}, "forbidden_flags must be a list of str .*or a function, got 'slow'"),
        ({"forbidden_flags": 5}, "forbidden_flags"),
        ({"forbidden_flags": [1]}, "forbidden_flags"),
        ({"forbidden_flags": ["a\0b"]}, "PostgreSQL can store"),
        ({"forbidden_flags": ["\ud800"]}, "PostgreSQL can store"),
        ({"forbidden_flags": b"slow"}, "forbidden_flags"),
    ],
    ids=str,
)
def test_an_invalid_value_is_refused_by_the_public_name_of_the_option(given: dict[str, Any], said: str) -> None:
    """It is refused when the worker is made, not when it runs."""
    with pytest.raises(ConfigurationError, match=said):
        worker_options(**given)


def test_an_option_that_does_not_exist_is_a_type_error() -> None:
    """Python raises it for every unknown keyword."""
    with pytest.raises(TypeError):
        worker_options(threads=5)
