"""Names and errors from untrusted input cannot forge log records: a record stays one record."""

import logging
from datetime import UTC, datetime

import pytest

from asyncq.domain.events import CronItemFailed, JobDiscarded, PartitionBackedOff, UnknownTasks, carrying
from asyncq.domain.job import Claim
from asyncq.log.observer import LogObserver

FORGED = "x\n2026-11-20 12:00:00.000 ERROR forged\r\x1b[2Jgone\u2028"


def failed(task: str, error: str) -> JobDiscarded:
    """A job has failed."""
    claim = Claim(7, 1, 2, 3, 0, 25, 0, 0, 0, 0, 0, 0, None, "{}", None, None, None)
    return JobDiscarded(claim=claim, task=task, attempt=1, worker_id=3, duration_s=1.0, error=error)


@pytest.mark.parametrize(
    "event",
    [
        UnknownTasks(names=(FORGED,)),
        CronItemFailed(item=FORGED, error=FORGED, retry_in_s=1.0),
        failed(FORGED, f"ValueError: {FORGED}"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_nothing_in_a_record_looks_like_another_one(event: object, caplog: pytest.LogCaptureFixture) -> None:
    """No line of it begins at the margin, and no character moves the cursor."""
    LogObserver()(event)
    (record,) = caplog.records
    first, *others = record.getMessage().split("\n")

    assert "forged" in "".join([first, *others])
    assert [] == [line for line in others if line and not line.startswith("    ")]
    assert all(char.isprintable() for line in (first, *others) for char in line)


def raised() -> ValueError:
    """An exception with a traceback."""
    try:
        raise ValueError("x")
    except ValueError as error:
        return error


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        ("ValueError: x\n\nTraceback (most recent call last):\n  of the job\n", "  of the job"),
        ("Discard: a\n\nb", "ValueError: x"),
    ],
    ids=["with a traceback", "without"],
)
def test_a_record_shows_the_traceback_that_is_stored(error: str, shown: str, caplog: pytest.LogCaptureFixture) -> None:
    """It has the frames of the handler alone, and is formatted already; handlers still get the exception."""
    event, exception = failed("t", error), raised()
    with carrying(event, exception):
        LogObserver()(event)
    (record,) = caplog.records

    assert shown == logging.Formatter("").format(record).rpartition("\n")[2]
    assert record.exc_info is not None
    assert (exception, "observer.py") == (record.exc_info[1], record.filename)


def test_a_traceback_keeps_its_lines(caplog: pytest.LogCaptureFixture) -> None:
    """It is read by people."""
    LogObserver()(failed("t", "ValueError: x\n\nTraceback:\n  File"))

    said = "job 7 (t, attempt 1 of 25) was discarded: ValueError: x\n    \n    Traceback:\n      File"
    assert [said] == [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("limit", "key", "named"),
    [
        (None, "mails", "the queue 'mails'"),
        ("calls", "acme", "the key 'acme' of the limit 'calls'"),
        ("calls", "", "the limit 'calls'"),
        (None, "", "its partition"),
    ],
)
def test_a_record_names_the_queue_or_limit_that_backs_off(
    limit: str | None, key: str, named: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A queue has no limit by name."""
    caplog.set_level(logging.INFO)
    LogObserver()(PartitionBackedOff(limit=limit, key=key, until=datetime(2026, 1, 1, tzinfo=UTC), job_id=7))

    (record,) = caplog.records
    assert f"no job of {named} starts until 2026-01-01 00:00:00+00:00: job 7 asked for that" == record.getMessage()
