"""Payloads: a Python value -> JSON text at the door, and what is no JSON or cannot be stored is refused there."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any

import msgspec

from asyncq.domain.errors import InvalidJob

DEFAULT_MAX_PAYLOAD = 1024 * 1024
LARGEST_PAYLOAD = 16 * 1024 * 1024

_encode = msgspec.json.Encoder().encode
# Reads nothing, but checks that the text is JSON, and that its escapes are characters.
_check = msgspec.json.Decoder(msgspec.Raw).decode
# An even number of backslashes before it: after an odd one `u0000` is plain text.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def encode(value: Any, *, field: str = "payload", limit: int = DEFAULT_MAX_PAYLOAD) -> str:
    """Encode a payload as JSON text.

    Args:
        value: Anything that msgspec encodes: structs, dataclasses, dicts, lists, datetimes, UUIDs, ...
        field: The name of the argument, for the error.
        limit: The largest size in bytes.

    Returns:
        The JSON text.

    Raises:
        InvalidJob: With code GWBPL: the value is not JSON-able, holds NaN, Infinity, a lone surrogate or U+0000, or is
            too large.
    """
    try:
        # Text: looking for bytes in bytes takes ten times as long.
        text = _encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        dumped = '; give its model_dump(mode="json")' if hasattr(value, "model_dump") else ""
        raise InvalidJob(f"{field} cannot be written as JSON: {error}{dumped}", code="GWBPL", field=field) from error
    if "null" in text and (path := _not_finite(value)):
        raise InvalidJob(f"{field} holds NaN or Infinity at {path}, which JSON lacks", code="GWBPL", field=field)
    check_text(text, field=field, limit=limit)
    return text


def size_of(text: str) -> int:
    """How many bytes of UTF-8 a text is; a lone surrogate is a UnicodeEncodeError."""
    return len(text) if text.isascii() else len(text.encode())


def check_text(text: str, *, field: str = "payload", limit: int = DEFAULT_MAX_PAYLOAD) -> None:
    """Check a payload that is JSON text already.

    Args:
        text: The text.
        field: The name of the argument, for the error.
        limit: The largest size in bytes of UTF-8.

    Raises:
        InvalidJob: With code GWBPL: it is no JSON, holds a lone surrogate or U+0000, is too large or nested too deep.
    """
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidJob(f"{field} must be JSON text, got {text!r}", code="GWBPL", field=field)
    try:
        size = size_of(text)
        _check(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise InvalidJob(f"{field} is no JSON: {error}", code="GWBPL", field=field) from error
    except RecursionError as error:
        raise InvalidJob(f"{field} is nested too deep to be read", code="GWBPL", field=field) from error
    if size > limit:
        said = f"{field} is {size} bytes of JSON, at most {limit} are allowed (option max_payload)"
        raise InvalidJob(said, code="GWBPL", field=field, limit=limit, length=size)
    if "\\u0000" in text and (found := _NUL.search(text)):
        # Where, not what: messages end up in logs, payloads must not.
        place = found.end() - len("\\u0000")
        said = f"{field} holds U+0000, which PostgreSQL cannot store, at character {place} of its JSON text"
        raise InvalidJob(said, code="GWBPL", field=field)


def _not_finite(value: Any) -> str | None:
    """The path of a number that msgspec would silently write as null."""
    # Not by recursion: a value may be nested deeper than this.
    start: tuple[str, Any] = ("$", value)
    within: list[Iterator[tuple[str, Any]]] = [iter([start])]
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
