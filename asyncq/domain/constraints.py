"""Schemas of pydantic in the types of a handler: msgspec would accept them and check nothing.

Rule: metadata is a constraint if its class or a base class belongs to annotated_types or pydantic. It is one too if it
has an attribute by which other libraries define constraints for these. All other metadata is treated as documentation.
A class has a schema if it has an attribute that pydantic sets or reads. No library is imported.
"""

import dataclasses
import inspect
import typing
from collections.abc import Iterator
from typing import Any, NamedTuple

_LIBRARIES = ("annotated_types", "pydantic")
_MARKS = ("__get_pydantic_core_schema__", "__is_annotated_types_grouped_metadata__")
_DOCUMENTATION = ("DocInfo",)  # of older releases of annotated_types; newer ones have it in typing_extensions
_RECORDS = ("__struct_fields__", "__dataclass_fields__", "__attrs_attrs__", "__total__", "_fields")
# Of models, of dataclasses, of types that define their schema, and of TypedDicts with a configuration.
_SCHEMAS = ("__pydantic_validator__", "__get_pydantic_core_schema__", "__pydantic_config__")


class Constraint(NamedTuple):
    """A part of a type that only pydantic checks, with its place, for an error."""

    text: str
    is_default: bool


def constraints_of(parameter: inspect.Parameter) -> list[Constraint]:
    """The constraints of a parameter that msgspec would not check."""
    of_default = _of_default(parameter.name, parameter.default)
    return [*of_default, *_of_type(parameter.name, parameter.annotation, set())]


def has_schema(annotation: Any) -> bool:
    """Whether a type has a schema of pydantic anywhere, so that pydantic has to read its values."""
    return any(not found.is_default for found in _of_type("", annotation, set()))


def is_of_pydantic_v1(kind: Any) -> bool:
    """Whether a class is a model or dataclass of `pydantic.v1`, whose schemas pydantic 2 does not read."""
    if not inspect.isclass(kind):
        return False
    return hasattr(kind, "__pydantic_model__") or any(cls.__module__.startswith("pydantic.v1.") for cls in kind.__mro__)


def _of_type(path: str, kind: Any, seen: set[Any]) -> Iterator[Constraint]:
    """Yield the constraints in a type."""
    origin = typing.get_origin(kind)
    if origin is typing.Literal:
        return
    if origin is typing.Annotated:
        of_type = (given for given in kind.__metadata__ if _is_constraint(given))
        yield from (Constraint(f"{_shown(given)} of {path}", is_default=False) for given in of_type)
    for part in typing.get_args(kind):
        yield from _of_type(path, part, seen)
    # NewType("X", int), `type X = int` of Python 3.12, and TypeVar("X", bound=int)
    for real in ("__supertype__", "__value__", "__bound__"):
        if hasattr(kind, real):
            yield from _of_type(path, getattr(kind, real), seen)
    record: Any = kind if origin is None else origin
    if not inspect.isclass(record) or record in seen:
        return
    seen.add(record)
    if is_of_pydantic_v1(record) or any(hasattr(record, mark) for mark in _SCHEMAS):
        # It checks its own fields.
        yield Constraint(f"the pydantic class {record.__qualname__} of {path}", is_default=False)
    elif any(hasattr(record, mark) for mark in _RECORDS):
        yield from _of_record(path, record, seen)


def _of_record(path: str, kind: type[Any], seen: set[Any]) -> Iterator[Constraint]:
    """Yield the constraints of a class with fields, and of the arguments of its generic bases."""
    for part in (part for base in getattr(kind, "__orig_bases__", ()) for part in typing.get_args(base)):
        yield from _of_type(path, part, seen)
    try:
        fields = typing.get_type_hints(kind, include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError):
        return  # msgspec has already refused the class, if it reads its fields
    for name, annotation in fields.items():
        yield from _of_default(f"{path}.{name}", _default(kind, name))
        yield from _of_type(f"{path}.{name}", annotation, seen)


def _default(kind: type[Any], name: str) -> Any:
    """The default of a field; None if it has none, or a function makes it."""
    if dataclasses.is_dataclass(kind):
        return next((field.default for field in dataclasses.fields(kind) if field.name == name), None)
    if names := getattr(kind, "__struct_fields__", None):
        defaults = dict(zip(reversed(names), reversed(kind.__struct_defaults__), strict=False))
        return defaults.get(name)
    return getattr(kind, "_field_defaults", {}).get(name)


def _of_default(path: str, default: Any) -> Iterator[Constraint]:
    """Yield a default that is a constraint instead of a value: `n: int = Field(gt=0)`."""
    if any(cls.__module__ == "pydantic.fields" for cls in type(default).__mro__):
        yield Constraint(f"the default {_shown(default)} of {path}", is_default=True)


def _is_constraint(given: Any) -> bool:
    kind: type[Any] = given if isinstance(given, type) else given.__class__
    if kind.__name__ in _DOCUMENTATION:
        return False
    of_library = any(cls.__module__.partition(".")[0] in _LIBRARIES for cls in kind.__mro__)
    return of_library or any(hasattr(kind, mark) for mark in _MARKS)


def _shown(given: Any) -> str:
    return repr(given)[:80]
