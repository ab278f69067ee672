"""Looks into values that pydantic writes: for sets, numbers without JSON, and fields that a type does not write."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from enum import Enum
from typing import Any

import msgspec

from asyncq.domain.payload import rank

_SCALARS = (str, bytes, bytearray, int, None.__class__)
_SETS = (set, frozenset)


def is_a(value: Any, kind: Any) -> bool:
    """`isinstance`, after which a type checker still takes the value for anything."""
    return isinstance(value, kind)


def fields_of(value: Any) -> list[str]:
    """The names of the fields of an object; a model may have more of them than its class."""
    kind: type[Any] = value.__class__
    if hasattr(kind, "__attrs_attrs__"):
        return [field.name for field in kind.__attrs_attrs__]
    if hasattr(kind, "__pydantic_fields__"):
        return [*kind.__pydantic_fields__, *(getattr(value, "__pydantic_extra__", None) or ())]
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    return [*getattr(kind, "__struct_fields__", ())]


def is_json(value: Any) -> bool:
    """Whether a value is JSON already, and no object of a class."""
    if is_a(value, dict | list):
        return all(is_json(item) for _, item in _parts(value))
    return value is None or value.__class__ in (str, int, float, bool, msgspec.Raw)


def not_finite(value: Any, path: str) -> str | None:
    """The path of a number that JSON lacks."""
    if is_a(value, Enum):
        value = value.value
    if is_a(value, float):
        return None if math.isfinite(value) else path
    if is_a(value, Decimal):
        return None if value.is_finite() else path
    return next((found for step, item in _parts(value) if (found := not_finite(item, path + step)) is not None), None)


def lost_field(value: Any, read: Any, path: str) -> str | None:
    """A field of a value that the value which was read from its JSON does not have, with its place."""
    if is_a(value, dict) and is_a(read, dict) and (unknown := value.keys() - read.keys()):
        return f"field {min(unknown, key=str)!r} at {path}, which its type does not have"
    names = fields_of(value)
    if lost := [name for name in names if name not in {*fields_of(read)}]:
        if not fields_of(read):
            return None  # A validator or serializer of the program made another kind of value.
        kinds = f"{value.__class__.__qualname__} is read as {read.__class__.__qualname__}"
        return f"field {lost[0]!r} at {path}: {kinds}; annotate the subclass, or a union with it"
    if is_a(value, _SETS) and is_a(read, _SETS):
        kept = {item.__class__: item for item in read}
        pairs = [("[...]", item, kept.get(item.__class__, next(iter(read), None))) for item in value]
    else:
        others = dict(_parts(read))
        pairs = [(step, item, others[step]) for step, item in _parts(value) if step in others]
    found = (lost_field(item, other, path + step) for step, item, other in pairs)
    return next((lost for lost in found if lost is not None), None)


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


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a value holds, each with its step of a path."""
    if is_a(value, _SCALARS):
        return
    if is_a(value, Mapping):
        yield from ((f".{key}", item) for key, item in value.items())
    elif is_a(value, list | tuple | set | frozenset):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    else:
        yield from ((f".{name}", getattr(value, name, None)) for name in fields_of(value))
