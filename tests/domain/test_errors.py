"""The tree of errors, their messages, and the delays that a handler's signals accept."""

import inspect
import math
import re
from datetime import timedelta

import pytest

from asyncq.domain import errors
from asyncq.domain.errors import (
    AsyncqError,
    ConfigurationError,
    Discard,
    InvalidJob,
    JobNotFound,
    RetryAfter,
    Snooze,
    StoreError,
    StoreUnavailable,
    UnknownTask,
    seconds,
)

Tree = dict[str, str]


def drawn_tree() -> Tree:
    """Each error of the drawing, with its parent."""
    tree: Tree = {}
    path: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"^(?:    |[│├└]).*?(?P<name>[A-Z]\w+)", line):
            depth = found.start("name")
            path = [(above, name) for above, name in path if above < depth]
            if path:
                tree[found["name"]] = path[-1][1]
            path.append((depth, found["name"]))
    return tree


def real_tree() -> Tree:
    """Each error of the module, with its base class."""
    classes = (kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, AsyncqError))
    return {kind.__name__: kind.__bases__[0].__name__ for kind in classes if kind is not AsyncqError}


def test_the_drawn_tree_is_that_of_the_classes() -> None:
    """Authors of an `except` rely on the drawing."""
    assert real_tree() == drawn_tree()


def test_the_drawing_says_of_each_error_what_to_do_about_it() -> None:
    """A class exists only if it needs its own reaction."""
    branches = [line for line in (errors.__doc__ or "").splitlines() if "─" in line]

    assert [] == [line for line in branches if not re.search(r"─ [A-Z]\w+ +\w.{10,}", line)]
    assert len(real_tree()) == len(branches)


@pytest.mark.parametrize("signal", [RetryAfter(1), Snooze(1), Discard()], ids=lambda signal: type(signal).__name__)
def test_a_signal_of_a_handler_is_no_error_of_ours(signal: Exception) -> None:
    """`except AsyncqError` around a call of the client in a handler must not swallow the handler's own verdict."""
    assert not isinstance(signal, AsyncqError)


def test_an_invalid_job_carries_its_fault_as_data() -> None:
    """A form shows the error at its field, without reading sentences."""
    error = InvalidJob("too long", code="GWBID", field="identifier", limit=128, length=129)

    assert ("too long", "GWBID", "identifier", 128, 129) == (
        str(error),
        error.code,
        error.field,
        error.limit,
        error.length,
    )


def test_an_unknown_task_names_the_nearest_one() -> None:
    """An unknown name is nearly always a typo."""
    error = UnknownTask("send_emial", "send_email")

    assert "no task is called 'send_emial'; did you mean 'send_email'?" == str(error)
    assert ("GWBID", "identifier", "send_email") == (error.code, error.field, error.nearest)


def test_an_unknown_task_without_a_near_one_guesses_nothing() -> None:
    """A wrong hint costs more than none."""
    assert "no task is called 'x'" == str(UnknownTask("x", None))


def test_the_error_for_a_missing_job_names_it() -> None:
    """Its id is in the message and in the data."""
    error = JobNotFound(7)

    assert ("there is no job 7: it never existed, or it ended and was removed", 7) == (str(error), error.job_id)


def test_an_unavailable_store_has_sent_nothing_unless_its_outcome_differs() -> None:
    """The cautious outcome `unknown` is given if a statement was in flight."""
    assert "not_sent" == StoreUnavailable("gone").outcome
    assert "unknown" == StoreUnavailable("gone", outcome="unknown").outcome


def test_a_store_error_keeps_the_code_of_the_server() -> None:
    """Users who know PostgreSQL look it up first."""
    assert ("23505", None) == (StoreError("no", sqlstate="23505").sqlstate, StoreError("no").sqlstate)


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        (timedelta(minutes=1, milliseconds=500), 60.5),
        (timedelta(0), 0.0),
        (0, 0.0),
        (2, 2.0),
        (0.25, 0.25),
        (timedelta(days=36525), 36525 * 86400.0),
    ],
)
def test_a_delay_is_a_timedelta_or_seconds(delay: timedelta | float, expected: float) -> None:
    """Both become seconds, at most a century."""
    assert expected == seconds(delay)


@pytest.mark.parametrize(
    "delay",
    [-1, -0.001, timedelta(seconds=-1), math.nan, math.inf, 4e9, True, "5", None, 5j],
    ids=repr,
)
def test_an_invalid_delay_is_refused(delay: object) -> None:
    """NaN would be written to the database as it is; True is a slip, not a second."""
    with pytest.raises(ConfigurationError, match="a delay"):
        seconds(delay)


@pytest.mark.parametrize("signal", [RetryAfter, Snooze])
def test_a_signal_with_an_impossible_delay_is_an_error_in_the_handler(signal: type[RetryAfter | Snooze]) -> None:
    """The error appears in the handler, with the wrong line in the traceback, not when the result is written."""
    with pytest.raises(ConfigurationError, match="between 0 and"):
        signal(-5)


def test_retry_after_carries_its_delay_and_its_reason() -> None:
    """The reason ends up in `last_error`."""
    signal = RetryAfter(timedelta(minutes=2), "busy")

    assert (120.0, "busy", False) == (signal.delay_s, signal.reason, signal.partition)


def test_retry_after_may_be_for_the_whole_partition() -> None:
    """A text would be true, whatever it says."""
    assert RetryAfter(5, partition=True).partition
    with pytest.raises(ConfigurationError, match="partition must be True or False, got 'no'"):
        RetryAfter(5, partition="no")  # type: ignore[arg-type]
