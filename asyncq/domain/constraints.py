"""Constraints of other libraries in the types of a handler: msgspec would accept them and check nothing.

Rule: metadata is a constraint if its class or a base class belongs to annotated_types or pydantic. It is one too if it
has an attribute by which other libraries define constraints for these. All other metadata is treated as documentation.
No library is imported.
"""

import dataclasses
import inspect
import typing
from collections.abc import Iterator
from typing import Any

from asyncq.domain.annotations import layers_of

_LIBRARIES = ("annotated_types", "pydantic")
_MARKS = ("__get_pydantic_core_schema__", "__is_annotated_types_grouped_metadata__")
_DOCUMENTATION = ("DocInfo",)  # of older releases of annotated_types; newer ones have it in typing_extensions
_RECORDS = ("__struct_fields__", "__dataclass_fields__", "__attrs_attrs__", "__total__", "_fields")


def unchecked(parameter: inspect.Parameter, handler: Any) -> str | None:
    """A constraint of a parameter that msgspec would not check, and its place, for an error; None if there is none.

    pydantic's `validate_call` checks its arguments itself, but not the fields of objects that exist already.
    """
    counts = not any(hasattr(layer, "raw_function") for layer in layers_of(handler))
    of_type = _of_type(parameter.name, parameter.annotation, set(), counts=counts)
    found = [*_of_default(parameter.name, parameter.default), *of_type]
    return found[0] if found else None


def _of_type(path: str, kind: Any, seen: set[Any], *, counts: bool) -> Iterator[str]:
    """Yield the constraints in a type; those outside of classes with fields only if they count."""
    origin = typing.get_origin(kind)
    if origin is typing.Literal:
        return
    if origin is typing.Annotated and counts:
        yield from (f"{_shown(given)} of {path}" for given in kind.__metadata__ if _is_constraint(given))
    for part in typing.get_args(kind):
        yield from _of_type(path, part, seen, counts=counts)
    # NewType("X", int), `type X = int` of Python 3.12, and TypeVar("X", bound=int)
    for real in ("__supertype__", "__value__", "__bound__"):
        if hasattr(kind, real):
            yield from _of_type(path, getattr(kind, real), seen, counts=counts)
    record: Any = kind if origin is None else origin
    if inspect.isclass(record) and record not in seen and any(hasattr(record, mark) for mark in _RECORDS):
        seen.add(record)
        yield from _of_record(path, record, seen)


def _of_record(path: str, kind: type[Any], seen: set[Any]) -> Iterator[str]:
    """Yield the constraints of a class with fields."""
    if hasattr(kind, "__pydantic_validator__"):
        yield f"the pydantic class {kind.__qualname__} of {path}"
    try:
        fields = typing.get_type_hints(kind, include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError):
        return  # msgspec has already refused the class, if it reads its fields
    for name, annotation in fields.items():
        yield from _of_default(f"{path}.{name}", _default(kind, name))
        yield from _of_type(f"{path}.{name}", annotation, seen, counts=True)


def _default(kind: type[Any], name: str) -> Any:
    """The default of a field; None if it has none, or a function makes it."""
    if dataclasses.is_dataclass(kind):
        return next((field.default for field in dataclasses.fields(kind) if field.name == name), None)
    if names := getattr(kind, "__struct_fields__", None):
        defaults = dict(zip(reversed(names), reversed(kind.__struct_defaults__), strict=False))
        return defaults.get(name)
    return getattr(kind, "_field_defaults", {}).get(name)


def _of_default(path: str, default: Any) -> Iterator[str]:
    """Yield a default that is a constraint instead of a value: `n: int = Field(gt=0)`."""
    if any(cls.__module__ == "pydantic.fields" for cls in type(default).__mro__):
        yield f"the default {_shown(default)} of {path}"


def _is_constraint(given: Any) -> bool:
    kind: type[Any] = given if isinstance(given, type) else given.__class__
    if kind.__name__ in _DOCUMENTATION:
        return False
    of_library = any(cls.__module__.partition(".")[0] in _LIBRARIES for cls in kind.__mro__)
    return of_library or any(hasattr(kind, mark) for mark in _MARKS)


def _shown(given: Any) -> str:
    return repr(given)[:80]
