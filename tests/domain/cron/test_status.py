"""`CronStatus`: its fields are read from a document of the database; the next run is computed."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from asyncq.domain.cron.status import CronStatus, read_status

NOW = datetime(2024, 5, 1, 12, 0, 30, tzinfo=UTC)
DOCUMENT = {
    "identifier": "a",
    "source": "stored",
    "task_identifier": "t",
    "expression": "0 8 * * *",
    "dialect": "extended",
    "tz": "Europe/Berlin",
    "payload": {"x": 1},
    "options": {},
    "overlap": "allow",
    "paused_at": None,
    "known_since": "2024-01-01T05:30:00-03:30",
    "last_run": None,
    "next_run": "2024-04-01T06:00:00+00:00",
    "problem": None,
    "workers": ["7"],
}


def status(**changes: Any) -> CronStatus:
    """The status that is read from a document with these changes."""
    return read_status(msgspec.json.encode({**DOCUMENT, **changes}).decode(), NOW)


def test_times_are_in_utc_and_the_next_run_is_worked_out_here() -> None:
    """The client computes it: the workers' answers may be old, and no worker need run."""
    read = status()

    assert datetime(2024, 1, 1, 9, tzinfo=UTC) == read.known_since
    assert datetime(2024, 5, 2, 6, tzinfo=UTC) == read.next_run
    assert ('{"x":1}', ("7",)) == (read.payload, read.workers)


def test_options_are_fields() -> None:
    """Options of later releases are left out."""
    read = status(options={"queue": "q", "flags": ["f"], "fill": "1d", "colour": "red"})

    assert ("q", ("f",), timedelta(days=1)) == (read.queue, read.flags, read.fill)


@pytest.mark.parametrize("option", [{"priority": 1.0}, {"max_attempts": "5"}, {"flags": ["f", 1]}, {"job_key": 7}])
def test_an_item_with_a_wrong_option_is_read_too(option: dict[str, Any]) -> None:
    """SQL stores it, or a hand did. One such item must not keep all others from being listed."""
    read = status(options=option)

    ((name, value),) = option.items()
    assert (True, None) == (read.problem is not None, read.next_run)
    assert value == (list(read.flags) if name == "flags" else getattr(read, name))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"paused_at": "2024-05-01T00:00:00Z"}, None),
        ({"problem": "told"}, "told"),
        ({"expression": None}, None),
        ({"expression": "99 * * * *"}, "column 1: minute is 99, expected 0 to 59"),
        ({"tz": "Mars"}, "tz: 'Mars' is not a time zone; expected an IANA name such as 'Europe/Berlin'"),
    ],
    ids=["paused", "problem", "function", "expression", "zone"],
)
def test_an_item_that_is_not_due_has_no_next_run(changes: dict[str, Any], problem: str | None) -> None:
    """A problem is found by the client, even if no worker has reported it yet."""
    read = status(**changes)

    assert (None, problem) == (read.next_run, read.problem)


def test_only_the_name_of_an_item_of_former_workers_is_known() -> None:
    """No worker can report its definition."""
    names = ("task_identifier", "expression", "dialect", "tz", "payload", "options", "overlap")
    read = status(source="static", workers=[], **dict.fromkeys(names))

    assert (None, None, None, None) == (read.task, read.payload, read.next_run, read.overlap)
