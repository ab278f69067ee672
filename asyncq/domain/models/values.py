"""Looks into values that pydantic writes: for sets, numbers without JSON, and fields that a type does not write."""

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec

from asyncq.domain.payload import rank

# Nearly all values have these types, and contain no others.
_SCALARS = frozenset({str, int, bool, None.__class__, bytes, datetime, date, UUID})
_LEAVES = _SCALARS | {float, Decimal}
_SETS = (set, frozenset)


def is_a(value: Any, kind: Any) -> bool:
    """`isinstance`, after which a type checker still takes the value for anything."""
    return isinstance(value, kind)


def fields_of(value: Any) -> Sequence[str]:
    """The names of the fields of an object; a model may have more of them than its class."""
    names = _fields_of_class(value.__class__)
    extra = getattr(value, "__pydantic_extra__", None)
    return (*names, *extra) if extra else names


@functools.lru_cache(maxsize=1024)
def _fields_of_class(kind: type[Any]) -> tuple[str, ...]:
    if hasattr(kind, "__attrs_attrs__"):
        found: Any = kind.__attrs_attrs__
        return tuple(field.name for field in found)
    if hasattr(kind, "__pydantic_fields__"):
        return tuple(kind.__pydantic_fields__)
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    return tuple(getattr(kind, "__struct_fields__", ()))


def is_json(value: Any) -> bool:
    """Whether a value is JSON already, and no object of a class."""
    if is_a(value, dict | list):
        return all(is_json(item) for _, item in _parts(value))
    return value is None or value.__class__ in (str, int, float, bool, msgspec.Raw)


def not_finite(value: Any) -> str | None:
    """The path of a number that JSON lacks, from the value on; empty for the value itself."""
    if is_a(value, Enum):
        value = value.value
    if is_a(value, float):
        return None if math.isfinite(value) else ""
    if is_a(value, Decimal):
        return None if value.is_finite() else ""
    for key, item in _parts(value):
        if item.__class__ not in _SCALARS and (found := not_finite(item)) is not None:
            return _step(key) + found
    return None


def lost_field(value: Any, read: Any) -> tuple[str, str, str] | None:
    """A field of a value that is not in the value that was read from its JSON: where it is, its name, the reason."""
    if is_a(value, dict) and is_a(read, dict):
        unknown = value.keys() - read.keys()
        if unknown:
            return "", f"{min(unknown, key=str)!r}", "its type does not have it"
        pairs: Any = ((key, item, read[key]) for key, item in value.items())
    elif is_a(value, _SETS) and is_a(read, _SETS):
        kept = {item.__class__: item for item in read}
        pairs = (("...", item, kept.get(item.__class__, next(iter(read), None))) for item in value)
    elif is_a(value, list | tuple) and is_a(read, list | tuple):
        pairs = ((index, item, other) for index, (item, other) in enumerate(zip(value, read, strict=False)))
    else:
        names, others = fields_of(value), fields_of(read)
        if not others:
            return None  # A validator or serializer of the program made another kind of value.
        if names != others and (lost := [name for name in names if name not in others]):
            kinds = f"{value.__class__.__qualname__} is read as {read.__class__.__qualname__}"
            return "", f"{lost[0]!r}", f"{kinds}; annotate the subclass, or a union with it"
        if is_a(value, Mapping):
            names = [name for name in others if name in value]
        pairs = ((name, *_both(value, read, name)) for name in names)
    for key, item, other in pairs:
        if item.__class__ not in _LEAVES and (found := lost_field(item, other)) is not None:
            return _step(key) + found[0], *found[1:]
    return None


def _both(value: Any, read: Any, name: str) -> tuple[Any, Any]:
    item: Any = value[name] if is_a(value, Mapping) else getattr(value, name, None)
    return item, getattr(read, name, None)


def _step(key: Any) -> str:
    return f"[{key}]" if is_a(key, int) or key == "..." else f".{key}"


def in_order(written: Any, value: Any) -> Any | None:
    """JSON that pydantic wrote, with the items of its sets sorted; None if there is no set.

    Their order in memory differs between processes, and equal values have equal texts.
    """
    found = _in_order(written, value)
    return None if found is written else found


def _in_order(written: Any, value: Any) -> Any:
    if getattr(value, "__pydantic_root_model__", False):
        value = value.root
    if is_a(written, list):
        if is_a(value, _SETS):
            return sorted(written, key=rank)
        if is_a(value, list | tuple) and len(value) == len(written):
            items = [_in_order(item, other) for item, other in zip(written, value, strict=True)]
            return items if any(new is not old for new, old in zip(items, written, strict=True)) else written
    if is_a(written, dict):
        # The keys of a dict may be written as other texts.
        is_dict = is_a(value, dict) and len(value) == len(written)
        others = dict(zip(written, value.values(), strict=True)) if is_dict else dict(_written_names(value))
        members = {name: _in_order(item, others.get(name)) for name, item in written.items()}
        return members if any(members[name] is not written[name] for name in members) else written
    return written


def _written_names(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of an object by their names in JSON."""
    fields = getattr(value.__class__, "__pydantic_fields__", {})
    encoded: dict[str, str] = dict(
        zip(getattr(value, "__struct_fields__", ()), getattr(value, "__struct_encode_fields__", ()), strict=True)
    )
    for name in fields_of(value):
        alias = fields[name].serialization_alias if name in fields else encoded.get(name)
        yield alias or name, getattr(value, name, None)


def _parts(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield what a value holds, each with its key, index or name."""
    if is_a(value, str | bytes | bytearray):
        return
    if is_a(value, Mapping):
        yield from value.items()
    elif is_a(value, list | tuple | set | frozenset):
        yield from enumerate(value)
    else:
        yield from ((name, getattr(value, name, None)) for name in fields_of(value))
