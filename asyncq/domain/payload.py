"""Payloads: an add encodes a Python value as JSON text, and refuses a value that cannot be encoded or stored.

Equal values have equal texts, except for the order of the members of an object, which canonical.py sorts. So the items
of a set are sorted: their order in memory differs between processes.
"""

import copy
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, force_setattr

from asyncq.domain.base_types import WRITES_ITSELF, as_json, write_json
from asyncq.domain.errors import InvalidJob

DEFAULT_MAX_PAYLOAD = 1024 * 1024
LARGEST_PAYLOAD = 16 * 1024 * 1024

# Reads nothing, but checks that the text is JSON, and that its escapes are characters.
_check = msgspec.json.Decoder(msgspec.Raw).decode
# An even number of backslashes before it: after an odd one `u0000` is plain text.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
# Nearly all values have these types, and contain no others.
_SCALARS = frozenset({str, int, float, bool, None.__class__, bytes, datetime, date, UUID, Decimal, msgspec.UnsetType})
_SETS = (set, frozenset)
_ARRAYS: tuple[type[Any], ...] = (list, tuple, *_SETS)
_REFUSED = (TypeError, ValueError, OverflowError, RecursionError)
# msgspec writes each dataclass by itself, and asks only for other classes of pydantic.
_DATACLASSES = "pydantic.dataclasses"


def encode(value: Any, *, field: str = "payload", limit: int = DEFAULT_MAX_PAYLOAD) -> str:
    """Encode a payload that msgspec encodes, or of subclasses of str, int, datetime, ..., as JSON text; sorts sets.

    InvalidJob (GWBPL): it is not JSON-able, holds NaN, Infinity, a lone surrogate or U+0000, or is too large.
    """
    try:
        text = _written(value)
    except _REFUSED as error:
        path = "$" if isinstance(error, RecursionError) else _culprit(value)
        place = "" if path == "$" else f" at {path}"
        said = f"{field} cannot be written as JSON{place}: {error}"
        raise InvalidJob(said, code="GWBPL", field=field) from error
    if "null" in text and (path := _not_finite(value)):
        raise InvalidJob(f"{field} holds NaN or Infinity at {path}, which JSON lacks", code="GWBPL", field=field)
    check_text(text, field=field, limit=limit)
    return text


def _written(value: Any) -> str:
    # A program without dataclasses of pydantic does not pay for the search for them.
    may_hold_dataclass = _DATACLASSES in sys.modules
    try:
        # Text: looking for bytes in bytes takes ten times as long.
        text = write_json(value).decode()
    except TypeError:
        if not may_hold_dataclass:
            raise
        return write_json(_converted(value)).decode()
    if (may_hold_dataclass or "[" in text) and _must_convert(value):
        return write_json(_converted(value)).decode()
    return text


def check_text(text: str, *, field: str = "payload", limit: int = DEFAULT_MAX_PAYLOAD) -> None:
    """Check a payload that is already JSON text; the limit is in bytes of UTF-8.

    InvalidJob (GWBPL): it is not JSON, has a lone surrogate or U+0000, is too large or nested too deep.
    """
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidJob(f"{field} must be JSON text, got {text!r}", code="GWBPL", field=field)
    try:
        size = len(text) if text.isascii() else len(text.encode())
        _check(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise InvalidJob(f"{field} is not JSON: {error}", code="GWBPL", field=field) from error
    except RecursionError as error:
        raise InvalidJob(f"{field} is nested too deep to be read", code="GWBPL", field=field) from error
    if size > limit:
        option = "max_result" if field == "result" else "max_payload"
        said = f"{field} is {size} bytes of JSON, at most {limit} are allowed (option {option})"
        raise InvalidJob(said, code="GWBPL", field=field, limit=limit, length=size)
    if "\\u0000" in text and (found := _NUL.search(text)):
        # The place, not the text: messages are logged, and payloads must not be.
        place = found.end() - len("\\u0000")
        said = f"{field} holds U+0000, which PostgreSQL cannot store, at character {place} of its JSON text"
        raise InvalidJob(said, code="GWBPL", field=field)


def _not_finite(value: Any) -> str | None:
    """The path of a number that msgspec would silently write as null."""
    # Not by recursion: a value may be nested deeper than this.
    within: list[Iterator[tuple[str, Any]]] = [iter([("$", value)])]
    while within:
        if (found := next(within[-1], None)) is None:
            within.pop()
            continue
        path, item = found
        if isinstance(item, Enum):
            item = item.value
        kind: type[Any] = item.__class__
        if issubclass(kind, float):
            if not math.isfinite(item):
                return path
        elif not issubclass(kind, str | bytes | int | None):
            within.append(_members(path, kind, item))
    return None


def _must_convert(value: Any) -> bool:
    """Whether a value that msgspec has encoded contains a set with several items, or a dataclass of pydantic."""
    # One loop, no recursion: a value may be nested deeper than Python's limit, and calls would cost more than encoding.
    within: list[Any] = [value]
    while within:
        item = within.pop()
        kind: type[Any] = item.__class__
        if kind is dict:
            parts: Iterable[Any] = item.values()
        elif kind is list:
            parts = item
        elif issubclass(kind, Struct):
            parts = astuple(item)
        elif _is_converted(kind, item):
            return True
        else:
            parts = _parts(kind, item)
        for part in parts:
            if type(part) not in _SCALARS:
                within.append(part)  # noqa: PERF401 - `extend` takes several times as long for a few parts
    return False


def _is_converted(kind: type[Any], item: Any) -> bool:
    if issubclass(kind, _SETS):
        return len(item) > 1 or kind not in _SETS
    return hasattr(kind, "__dataclass_fields__") and hasattr(kind, WRITES_ITSELF)


def _parts(kind: type[Any], value: Any) -> Iterable[Any]:
    """The values in a value, as msgspec writes them: it calls the `__iter__` of a subclass for sets only."""
    for base in _ARRAYS:
        if issubclass(kind, base):
            return value if base in _SETS else base.__iter__(value)
    if issubclass(kind, dict):
        return dict[Any, Any].values(value)
    if issubclass(kind, Enum):
        return (value.value,)
    return [getattr(value, name, None) for name in _fields(kind)]


def _converted(value: Any) -> Any:
    """A value with sorted lists in place of its sets, and with the JSON that pydantic writes for its objects."""
    kind: type[Any] = value.__class__
    if kind in _SCALARS:
        return value
    if hasattr(kind, WRITES_ITSELF):
        return as_json(value)
    if issubclass(kind, dict):
        return {key: _converted(item) for key, item in dict[Any, Any].items(value)}
    if issubclass(kind, _ARRAYS):
        items = [_converted(item) for item in _parts(kind, value)]
        return sorted(items, key=rank) if issubclass(kind, _SETS) else items
    if issubclass(kind, Enum):
        return _converted(value.value)
    if issubclass(kind, Struct):
        # A copy keeps the names and tags of the members, and does not run `__post_init__`.
        struct = copy.copy(value)
        for name in struct.__struct_fields__:
            force_setattr(struct, name, _converted(getattr(value, name)))
        return struct
    members = {name: _converted(getattr(value, name, msgspec.UNSET)) for name in _fields(kind)}
    return {name: item for name, item in members.items() if item is not msgspec.UNSET} if members else value


def rank(item: Any) -> tuple[bool, Any, bytes]:
    """The sort key of an item of a set: numbers by value, since 1 equals 1.0; then the others by their text."""
    is_number = isinstance(item, int | float) and not isinstance(item, bool)
    return (False, item, b"") if is_number else (True, 0, write_json(item))


def _culprit(value: Any) -> str:
    """The path of the innermost value that msgspec cannot encode although it can encode its parts."""
    path = "$"
    while True:
        for inner, item in _members(path, value.__class__, value):
            try:
                write_json(item)
            except _REFUSED:
                path, value = inner, item
                break
        else:
            return path


def _members(path: str, kind: type[Any], value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object or array holds, each with its path."""
    if issubclass(kind, Mapping):
        yield from ((f"{path}.{key}", item) for key, item in value.items())
    elif issubclass(kind, list | tuple | set | frozenset):
        yield from ((f"{path}[{index}]", item) for index, item in enumerate(value))
    else:
        yield from ((f"{path}.{name}", getattr(value, name, None)) for name in _fields(kind))


def _fields(kind: type[Any]) -> Iterable[str]:
    """The fields of a struct, a dataclass or an attrs class."""
    if hasattr(kind, "__attrs_attrs__"):
        return [field.name for field in kind.__attrs_attrs__]
    return getattr(kind, "__struct_fields__", ()) or getattr(kind, "__dataclass_fields__", ())
