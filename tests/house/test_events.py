"""Each event has a sentence in the log, is emitted, and says in its docstring when.

Its fields are in the table of docs/guide/events.md, which test_docs.py compares.
"""

import ast
import inspect
import logging
import re
import typing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import asyncq
from asyncq.domain import events
from asyncq.domain.events import Event, JobEvent, carrying
from asyncq.domain.job import Claim
from asyncq.log.observer import LogObserver

PACKAGE = Path(asyncq.__file__).parent
KINDS = [
    kind
    for kind in vars(events).values()
    if inspect.isclass(kind) and issubclass(kind, Event) and kind not in (Event, JobEvent)
]
SECRET = "payload-key-flag-or-meta"
CLAIM = Claim(7, 1, "q", 3, 2, 25, 0, 0, 0, 0, 0, 0, SECRET, f'["{SECRET}"]', SECRET, SECRET, None)
SAMPLES: dict[Any, Any] = {
    int: 3,
    float: 1.25,
    str: "words",
    bool: True,
    tuple[int, ...]: tuple(range(12)),
    tuple[str, ...]: ("a", "b"),
    dict[str, int]: {"words": 3},
    int | None: 3,
    str | None: "words",
    datetime: datetime(2026, 7, 1, tzinfo=UTC),
    Claim: CLAIM,
}


def sample(kind: type[Event]) -> Event:
    """An event of a type, with a value for each field."""
    fields = typing.get_type_hints(kind)
    return kind(**{name: SAMPLES[fields[name]] for name in kind.__struct_fields__})


def logged(kind: type[Event], caplog: pytest.LogCaptureFixture) -> logging.LogRecord:
    """The log record of an event."""
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "asyncq"):
        LogObserver()(sample(kind))
    (record,) = caplog.records
    return record


def emitted() -> set[str]:
    """The names of events that the package makes, or passes on to be made."""
    found: set[str] = set()
    for path in PACKAGE.glob("engine/**/*.py"):
        calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
        for call in calls:
            found |= {node.id for node in (call.func, *call.args) if isinstance(node, ast.Name)}
    return found


def test_an_event_has_a_sentence_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """One line that says everything, with the event's name as a field."""
    for kind in KINDS:
        record = logged(kind, caplog)

        assert ("asyncq", kind.__name__) == (record.name, vars(record)["asyncq_event"])
        assert re.fullmatch(r"\w.{15,}", record.getMessage())


def test_a_sentence_holds_no_payload_key_flag_or_meta(caplog: pytest.LogCaptureFixture) -> None:
    """Logs are read by more people than the database; not even the fields of the record hold them."""
    for kind in KINDS:
        record = logged(kind, caplog)

        assert SECRET not in record.getMessage() + str({**vars(record), "args": ()})


def test_a_sentence_holds_the_words_of_the_event(caplog: pytest.LogCaptureFixture) -> None:
    """The log must contain the error of the event."""
    for kind in KINDS:
        fields = typing.get_type_hints(kind)
        texts = {name for name in kind.__struct_fields__ if fields[name] is str and name != "task"}

        assert not texts or "words" in logged(kind, caplog).getMessage()


def test_the_template_of_a_sentence_is_the_same_for_all_events_of_a_type(caplog: pytest.LogCaptureFixture) -> None:
    """Error trackers group records by it: one `%s` for all would make one group of everything."""
    for kind in KINDS:
        record = logged(kind, caplog)

        words = re.sub(r"%[.\d]*[a-z]", "", record.msg)
        assert re.search(r"[a-z]{4,}", words)
        assert not re.search(r"\d|words|broken", words)
        assert isinstance(record.args, tuple)


def test_the_fields_of_a_record_are_names_that_no_formatter_uses(caplog: pytest.LogCaptureFixture) -> None:
    """A field `event` would take the place of the message in structlog."""
    usual = vars(logging.makeLogRecord({})).keys() | {"message"}
    fields = {kind: vars(logged(kind, caplog)).keys() - usual for kind in KINDS}

    ours = {"asyncq_event", "job_id", "task", "attempt", "queue", "worker_id", "duration_s"}
    assert {} == {kind: names for kind, names in fields.items() if not names <= ours}


def test_an_event_can_be_encoded_and_has_plain_fields() -> None:
    """It is sent to other processes; an exception is no field, since few can be encoded or compared."""
    for kind in KINDS:
        event = sample(kind)
        with carrying(event, ValueError("broken")):
            encoded = msgspec.json.encode(event)

        assert event == msgspec.json.decode(encoded, type=kind)
        assert event.exception is None


def test_a_record_about_a_job_carries_its_run(caplog: pytest.LogCaptureFixture) -> None:
    """A log search by these fields finds all lines of a job."""
    for kind in JobEvent.__subclasses__():
        record = vars(logged(kind, caplog))

        names = ("job_id", "task", "attempt", "queue", "worker_id", "duration_s")
        took_s = 1.25 if "duration_s" in kind.__struct_fields__ else None
        assert (kind, 7, "words", 3, "q", 3, took_s) == (kind, *(record.get(name) for name in names))


def test_an_event_documents_when_it_is_emitted() -> None:
    """Its docstring is one sentence about that."""
    said = {kind: kind.__dict__["__doc__"] for kind in KINDS}

    assert {} == {kind: words for kind, words in said.items() if not re.fullmatch(r"[A-Z].{15,}\.", words, re.DOTALL)}


def test_every_event_is_emitted() -> None:
    """An event that is never emitted would be a false promise."""
    assert set() == {kind.__name__ for kind in KINDS} - emitted()


def test_a_job_that_ends_well_is_quiet() -> None:
    """Its events are built only if the log is at DEBUG or an observer wants them: at 10,000 jobs a second it shows."""
    logger = logging.getLogger("asyncq")
    before = logger.level
    try:
        logger.setLevel(logging.INFO)
        at_info = set(LogObserver().wants)
        logger.setLevel(logging.DEBUG)
        at_debug = set(LogObserver().wants)
    finally:
        logger.setLevel(before)

    quiet = {events.JobsFetched, events.JobStarted, events.JobCompleted, events.JobSnoozed}
    assert (set(KINDS) - quiet, set(KINDS)) == (at_info, at_debug)


def test_an_observer_that_failed_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once as ERROR, where that is decided."""
    event = sample(events.ObserverFailed)
    with carrying(event, ValueError("broken")):
        LogObserver()(event)
    (record,) = caplog.records

    assert logging.ERROR == record.levelno
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ValueError)


def test_long_lists_of_ids_are_cut(caplog: pytest.LogCaptureFixture) -> None:
    """A worker that dies with 10,000 claims is one line."""
    assert "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more" in logged(events.GraceExceeded, caplog).getMessage()
