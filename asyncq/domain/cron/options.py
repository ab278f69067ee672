"""The options of a line, `?fill=2d&max=10`: names and values of a text -> the fields of a `CronItem`."""

import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

from asyncq.domain.cron.overlap import OVERLAPS
from asyncq.domain.duration import parse_time_phrase
from asyncq.domain.hints import hint
from asyncq.domain.job import JobKeyMode

_IDENTIFIER = re.compile(r"[_a-zA-Z][-_a-zA-Z0-9]*")
_DIGITS = re.compile(r"[0-9]{1,9}")
_SIGNED = re.compile(r"-?[0-9]{1,9}")
_QUEUE = re.compile(r"[-a-zA-Z0-9_:]+")


class Option(NamedTuple):
    """An option of a line, or its fault. The column counts from 0; `field` is empty if `CronItem` has none for it."""

    column: int
    field: str
    value: Any = None
    fault: str = ""


def read_options(text: str) -> Iterator[Option]:
    """Yield the options of a line in their order: the text after the `?`, in the syntax of URLs.

    Source: the section "Recurring tasks" in the README of graphile-worker; `tz`, `flags` and `overlap` are ours.
    """
    seen: dict[str, str] = {}
    column = 0
    for part in text.split("&"):
        option = _read(column, part)
        if option.field in seen:
            yield Option(column, "", fault=f"{_name(part)!r} is given twice, first as {seen[option.field]!r}")
        else:
            yield option
        if option.field:
            seen.setdefault(option.field, _name(part))
        column += len(part) + 1


def _name(part: str) -> str:
    return part.partition("=")[0]


def _read(column: int, part: str) -> Option:
    name, equals, raw = part.partition("=")
    if not name or not equals:
        return Option(column, "", fault=f"{part!r} is not an option, expected name=value")
    if name not in _OPTIONS:
        said = hint(name, _OPTIONS) or f"; expected one of {', '.join(_OPTIONS)}"
        return Option(column, "", fault=f"there is no option {name!r}{said}")
    field, read = _OPTIONS[name]
    try:
        return Option(column, field, read(unquote_plus(raw, errors="strict")))
    except UnicodeDecodeError:
        return Option(column, field, fault=f"{name} is {raw!r}, expected percent-encoded UTF-8")
    except ValueError as error:
        return Option(column, field, fault=f"{name}: {error}")


def _like(pattern: re.Pattern[str], expected: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        if not pattern.fullmatch(value):
            raise ValueError(f"{value[:40]!r} cannot be used, expected {expected}")
        return value

    return read


def _number(pattern: re.Pattern[str], expected: str) -> Callable[[str], int]:
    read = _like(pattern, expected)
    return lambda value: int(read(value))


def _flags(value: str) -> tuple[str, ...]:
    names = tuple(value.split(","))
    if "" in names:
        raise ValueError(f"{value[:40]!r} cannot be used, expected names with commas between them")
    return names


def _one_of(words: Collection[str]) -> Callable[[str], str]:
    def read(value: str) -> str:
        for word in words:
            if word == value:
                return word
        raise ValueError(f"{value[:40]!r} is unknown, expected {', '.join(words)}")

    return read


_MODE = _one_of(tuple(JobKeyMode))


_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "id": ("identifier", _like(_IDENTIFIER, "a letter or _, then letters, digits, _ and -")),
    "fill": ("fill", parse_time_phrase),
    "max": ("max_attempts", _number(_DIGITS, "a number of 1 to 32767")),
    "queue": ("queue", _like(_QUEUE, "letters, digits, _, - and :")),
    "priority": ("priority", _number(_SIGNED, "a number of -32768 to 32767")),
    "jobKey": ("job_key", str),
    "job_key": ("job_key", str),
    "jobKeyMode": ("job_key_mode", _MODE),
    "job_key_mode": ("job_key_mode", _MODE),
    "tz": ("tz", str),
    "flags": ("flags", _flags),
    "overlap": ("overlap", _one_of(OVERLAPS)),
}
