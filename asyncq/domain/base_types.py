"""Encodes values of subclasses of str, int, float, datetime and others as values of these types.

Frameworks have such classes: markup that is a str, numbers that are floats, datetimes with more methods. msgspec
encodes exact types only. pydantic encodes values of its classes.
"""

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import msgspec


def _made_of(base: Any, *names: str) -> Callable[[Any], Any]:
    """Makes a value of a type from the attributes of an instance of a subclass."""
    attributes = [(name, getattr(base, name)) for name in names]
    return lambda value: base(**{name: attribute.__get__(value) for name, attribute in attributes})


_DAY = ("year", "month", "day")
_CLOCK = ("hour", "minute", "second", "microsecond", "tzinfo", "fold")

# The methods of the types themselves, because a subclass may override them. The types are stored here, because a
# library that freezes the clock replaces the `datetime` of a module by its own class.
_BASES: dict[type[Any], Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    bytes: bytes.__bytes__,
    bytearray: bytes,
    datetime: _made_of(datetime, *_DAY, *_CLOCK),
    date: _made_of(date, *_DAY),
    time: _made_of(time, *_CLOCK),
    timedelta: _made_of(timedelta, "days", "seconds", "microseconds"),
    Decimal: Decimal,
}


# Classes with a schema of pydantic have this attribute.
WRITES_ITSELF = "__pydantic_serializer__"


def as_json(value: Any) -> msgspec.Raw:
    """The JSON that pydantic writes for an object of such a class; TypeError with the reason if it cannot."""
    from asyncq.domain.models.adapter import written  # it imports this module

    return written(value)


def _as_base(value: Any) -> Any:
    """Convert a value of a subclass of one of the types to that type, one of pydantic to JSON."""
    kind: type[Any] = value.__class__
    for base in kind.__mro__[1:]:
        if make := _BASES.get(base):
            return make(value)
    if hasattr(kind, WRITES_ITSELF):
        return as_json(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    raise TypeError(f"Encoding objects of type {name} is unsupported")


# Encodes a value of types that msgspec encodes, and of subclasses of these, as JSON in UTF-8; raises TypeError.
write_json = msgspec.json.Encoder(enc_hook=_as_base).encode
