"""Payloads: a Python value -> JSON text at the door, JSON text -> the handler's arguments in the worker."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import msgspec

from asyncq.domain.errors import InvalidJob

DEFAULT_MAX_PAYLOAD = 1024 * 1024
LARGEST_PAYLOAD = 16 * 1024 * 1024

_encoder = msgspec.json.Encoder()


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
        encoded = _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidJob(f"{field} cannot be written as JSON: {error}", code="GWBPL", field=field) from error
    if len(encoded) > limit:
        said = f"{field} is {len(encoded)} bytes of JSON, at most {limit} are allowed (option max_payload)"
        raise InvalidJob(said, code="GWBPL", field=field, limit=limit, length=len(encoded))
    if b"null" in encoded and (path := _not_finite(value, "$")):
        raise InvalidJob(f"{field} holds NaN or Infinity at {path}, which JSON lacks", code="GWBPL", field=field)
    if b"\\u0000" in encoded and "\0" in (text := _strings(encoded)):
        raise InvalidJob(
            f"{field} holds the character U+0000 after {text[: text.index(chr(0))][-20:]!r}, which PostgreSQL cannot store",
            code="GWBPL",
            field=field,
        )
    return encoded.decode()


def decode_error(error: Exception) -> str:
    """What a decoding error says: the path of the field and what was expected there."""
    return f"the payload does not fit the task: {error}"


def _not_finite(value: Any, path: str) -> str | None:
    """The path of a number that msgspec would silently write as null."""
    if isinstance(value, float):
        return None if math.isfinite(value) else path
    if isinstance(value, Mapping):
        members: Any = value.items()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return _first(_not_finite(item, f"{path}.{key}") for key, item in members)
    if isinstance(value, list | tuple | set | frozenset):
        items: Any = enumerate(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        return _first(_not_finite(item, f"{path}[{index}]") for index, item in items)
    if isinstance(value, str | bytes | int | bool | None):
        return None
    if fields := getattr(type(value), "__struct_fields__", None) or getattr(type(value), "__dataclass_fields__", None):
        return _first(_not_finite(getattr(value, name, None), f"{path}.{name}") for name in fields)
    return None


def _first(paths: Any) -> str | None:
    return next((path for path in paths if path), None)


def _strings(encoded: bytes) -> str:
    """All strings of the JSON text, keys included, one after the other."""
    found: list[str] = []

    def collect(value: Any) -> None:
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            for key, item in value.items():  # pyright: ignore[reportUnknownVariableType]
                collect(key)
                collect(item)
        elif isinstance(value, list):
            for item in value:  # pyright: ignore[reportUnknownVariableType]
                collect(item)

    collect(json.loads(encoded))
    return "".join(found)
