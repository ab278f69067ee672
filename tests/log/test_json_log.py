"""The JSON log: each record is one line of valid JSON."""

import io
import json
import logging
import math
import sys
import types
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any, NoReturn

import pytest
from opentelemetry.trace import INVALID_SPAN_CONTEXT, NonRecordingSpan, SpanContext, use_span

from asyncq.cli.logs import DEEPEST, JsonFormatter, TextFormatter


class Mute:
    """An object whose `__str__` fails."""

    def __str__(self) -> str:
        raise ValueError("no words")

    __repr__ = __str__


class Broken(Mapping[str, int]):
    """A mapping that fails when it is read."""

    def __getitem__(self, name: str) -> int:
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        raise OSError("away")

    def __len__(self) -> int:
        return 1


class BrokenSpan(NonRecordingSpan):
    """A span without a context."""

    def __init__(self) -> None:
        super().__init__(INVALID_SPAN_CONTEXT)

    def get_span_context(self) -> SpanContext:
        raise OSError("away")


class Level(IntEnum):
    """A number with a name."""

    HIGH = 3


def nested(depth: int) -> list[Any]:
    """Lists in lists."""
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


CYCLE: dict[str, Any] = {}
CYCLE["self"] = CYCLE
FIELDS: dict[str, tuple[Any, Any]] = {
    "nan": (math.nan, "nan"),
    "infinity in a list": ([1, -math.inf], [1, "-inf"]),
    "tuple keys": ({(1, 2): 3}, {"(1, 2)": 3}),
    "keys of other types": ({None: 1, 2: 3}, {"None": 1, "2": 3}),
    "a set": ({7}, [7]),
    "bytes": (b"x", "b'x'"),
    "a mute object": (Mute(), "<its __str__ raised ValueError>"),
    "a mute object in a list": ([Mute()], ["<its __str__ raised ValueError>"]),
    "a broken mapping": (Broken(), None),
    "a huge number": (10**5000, "<its __str__ raised ValueError>"),
    "a lone surrogate": ("\ud800", "\ud800"),
    "line ends": ("a\nb\u2028c\x85d", "a\nb\u2028c\x85d"),
    "an enum": (Level.HIGH, 3),
    "true": (True, True),
    "a float": (1.5, 1.5),
}


def line_of(**record: Any) -> dict[str, Any]:
    """A record as the formatter writes it, read again; it is one line, in ASCII."""
    written = JsonFormatter().format(logging.makeLogRecord({"msg": "said", "levelname": "INFO", **record}))

    def refuse(constant: str) -> NoReturn:
        raise AssertionError(f"{constant} is no JSON")

    assert written.isascii()
    assert [written] == written.splitlines()
    return json.loads(written, parse_constant=refuse)


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_of_any_value_is_written(name: str) -> None:
    """It is written as JSON, or else as text."""
    given, expected = FIELDS[name]
    line = line_of(field=given)

    assert "said" == line["message"]
    assert expected in (line["field"], None)


@pytest.mark.parametrize("value", [CYCLE, nested(DEEPEST + 5), nested(100_000)], ids=["cycle", "deep", "deepest"])
def test_a_value_without_an_end_is_cut(value: Any) -> None:
    """Values that are nested too deeply become text."""
    assert "field" in line_of(field=value)


def test_a_message_whose_arguments_do_not_fit_is_written() -> None:
    """The record is not lost."""
    assert "%d jobs ('x',)" == line_of(msg="%d jobs", args=("x",))["message"]
    assert line_of(msg="%s", args=(Mute(),))["message"].startswith("%s ")


def test_fields_with_the_names_of_the_formatter_are_kept() -> None:
    """They get another name, so that neither is lost."""
    line = line_of(level="gold", time=3, exception="none")

    assert ("info", "gold", 3, "none") == (
        line["level"],
        line["extra_level"],
        line["extra_time"],
        line["extra_exception"],
    )


def test_a_record_has_the_ids_of_the_active_span() -> None:
    """A line leads to its trace, and a field that the record has already is kept."""
    span = NonRecordingSpan(SpanContext(0xABC, 0xDEF, is_remote=False))
    with use_span(span):
        line, own = line_of(), line_of(trace_id="mine")

    assert (f"{0xABC:032x}", f"{0xDEF:016x}") == (line["trace_id"], line["span_id"])
    assert "mine" == own["trace_id"]
    assert not {"trace_id", "span_id"} & line_of().keys()


def test_a_span_that_fails_loses_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """The span may be the user's own, and the module may be in the middle of its import."""
    with use_span(BrokenSpan()):
        assert "said" == line_of()["message"]
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", types.ModuleType("opentelemetry.trace"))

    assert "said" == line_of()["message"]


def test_the_stack_is_written() -> None:
    """It comes from `stack_info=True`."""
    assert "Stack" in line_of(sinfo=None, stack_info="Stack (most recent call last):")["stack"]


def test_a_line_is_valid_on_a_stream_of_any_encoding() -> None:
    """Standard error of a C locale would write escapes of Python's."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="backslashreplace")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    handler.handle(logging.makeLogRecord({"msg": "é 日", "levelname": "INFO"}))
    stream.seek(0)

    assert "é 日" == json.loads(stream.read())["message"]


def text_of_failure(level: int, **fields: Any) -> str:
    """A record with a traceback, as text."""
    try:
        raise ValueError("x\n2026-01-01 00:00:00.000 ERROR forged")
    except ValueError:
        record = logging.makeLogRecord(
            {"msg": "said", "levelno": level, "name": "asyncq", "exc_info": sys.exc_info(), **fields}
        )
    return TextFormatter().format(record)


def test_a_traceback_in_the_text_cannot_pass_for_another_record() -> None:
    """All its lines begin with blanks."""
    first, *others = text_of_failure(logging.ERROR, asyncq_event="JobDiscarded").split("\n")

    assert first.endswith("said")
    assert any("forged" in line for line in others)
    assert [] == [line for line in others if not line.startswith("    ")]


def test_the_text_about_a_retry_is_one_line() -> None:
    """Its record carries the exception for error trackers; a program's own warning shows it."""
    assert "\n" not in text_of_failure(logging.WARNING, asyncq_event="JobRetried")
    assert "ValueError" in text_of_failure(logging.WARNING)
