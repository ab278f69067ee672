"""Writes and reads values of a type as JSON text by pydantic."""

import functools
import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from asyncq.domain.base_types import write_json
from asyncq.domain.errors import InvalidJob
from asyncq.domain.models.faults import fault_of_schema, fault_of_type, names_of_fields
from asyncq.domain.models.records import Records
from asyncq.domain.models.values import in_order, is_json, lost_field, not_finite
from asyncq.domain.payload import DEFAULT_MAX_PAYLOAD, LARGEST_PAYLOAD, check_text, encode

T = TypeVar("T")

# pydantic's own errors are RuntimeErrors and NameErrors; a RecursionError is a RuntimeError.
_UNREADABLE = (RuntimeError, NameError, TypeError, ValueError, AttributeError)
_UNWRITABLE = (TypeError, ValueError, OverflowError, RecursionError)
_MOST_SHOWN = 3
_OLDEST = (2, 11)
# A text without these holds no NaN and no infinity, in any of pydantic's notations.
_MAY_LACK = re.compile("null|nan|inf", re.IGNORECASE)


def library() -> Any | None:
    """The module of pydantic 2 or later, if the program has imported it."""
    found = sys.modules.get("pydantic")
    return found if hasattr(found, "TypeAdapter") else None


class Unreadable(ValueError):
    """A type of pydantic cannot be read from JSON, or not what it wrote; the message has the reason."""


class Adapter:
    """Writes and reads values of one type; Unreadable if it cannot do both.

    `names` are the fields that an object may have, None for any.
    """

    def __init__(self, annotation: Any) -> None:
        pydantic = library()
        if pydantic is None:
            raise Unreadable("pydantic is not imported")
        if tuple(map(int, pydantic.VERSION.split(".")[:2])) < _OLDEST:
            raise Unreadable(f"pydantic 2.11 or later is needed, found {pydantic.VERSION}")
        if (fault := fault_of_type(annotation)) is not None:
            raise Unreadable(fault)
        try:
            self._adapter = pydantic.TypeAdapter(Records(pydantic).rewritten(annotation))
            schema: Any = self._adapter.core_schema
            fault = fault_of_schema(schema)
        except _UNREADABLE as error:
            raise Unreadable(_first_line(error)) from error
        if fault is not None:
            raise Unreadable(fault)
        self._error: type[Exception] = pydantic.ValidationError
        self.names = names_of_fields(schema)

    def decode(self, text: str | bytes | msgspec.Raw, path: str = "$") -> Any:
        """Read a value; msgspec.ValidationError with the path of the field, and without its value."""
        try:
            return self._adapter.validate_json(bytes(text) if isinstance(text, msgspec.Raw) else text)
        except self._error as error:
            # Not `from error`: its message has the value, and a payload is never logged.
            raise msgspec.ValidationError(_said(error, path)) from None

    def encode(self, value: Any, *, path: str = "$", field: str = "payload", limit: int = DEFAULT_MAX_PAYLOAD) -> str:
        """Write an instance of the type, or a value with the same JSON; `field` is its name in errors.

        InvalidJob (GWBPL): it cannot be written, holds NaN or Infinity, or a field of a subclass would be lost. Whether
        the type reads the text, `decode` says.
        """
        try:
            text = self._written(value)
        except _UNWRITABLE as error:
            if not is_json(value):
                place = "" if path == "$" else f" at {path}"
                raise _refused(field, f"cannot be written as JSON{place}: {_first_line(error)}") from error
            # A serializer of the program takes its type only.
            text = encode(value, field=field, limit=limit)
        may_lack = _MAY_LACK.search(text)
        if may_lack and (found := not_finite(value)) is not None:
            raise _refused(field, f"holds NaN or Infinity at {path}{found}, which JSON lacks")
        check_text(text, field=field, limit=limit)
        try:
            read = self.decode(text)
        except msgspec.ValidationError:
            return text
        if may_lack and (found := not_finite(read)) is not None:
            raise _refused(field, f"holds NaN or Infinity at {path}{found}, which JSON lacks")
        if (lost := lost_field(value, read)) is not None:
            place, name, reason = lost
            raise _refused(field, f"would lose field {name} at {path}{place}: {reason}")
        return text

    def _written(self, value: Any) -> str:
        def dumped(dump: Callable[..., T], **options: Any) -> T:
            return dump(value, by_alias=True, round_trip=True, warnings=False, fallback=_plain, **options)

        text = dumped(self._adapter.dump_json).decode()
        if "[" not in text:
            return text
        ordered = in_order(dumped(self._adapter.dump_python, mode="json"), value)
        return text if ordered is None else write_json(ordered).decode()


@functools.lru_cache(maxsize=1024)
def _of_class(kind: type[Any]) -> Adapter:
    return Adapter(kind)


def written(value: Any) -> msgspec.Raw:
    """Write an instance of a class of pydantic that stands in a value of other types; TypeError with the reason."""
    try:
        adapter = _of_class(value.__class__)
        text = adapter.encode(value, limit=LARGEST_PAYLOAD)
        adapter.decode(text)
    except (Unreadable, InvalidJob, msgspec.ValidationError) as error:
        raise TypeError(str(error).removeprefix("payload cannot be written as JSON: ")) from error
    return msgspec.Raw(text.encode())


def _plain(value: Any) -> Any:
    """A value of a type that pydantic does not know, as plain JSON; TypeError."""
    return msgspec.json.decode(write_json(value))


def _refused(field: str, said: str) -> InvalidJob:
    return InvalidJob(f"{field} {said}", code="GWBPL", field=field)


def _first_line(error: Exception) -> str:
    """The reason without pydantic's hints, which are further lines."""
    return str(error).partition("\n")[0] or type(error).__name__


def _said(error: Any, path: str) -> str:
    """All that does not fit, each with its path."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    said = [f"{item['msg']} - at `{path}{_steps(item['loc'])}`" for item in found[:_MOST_SHOWN]]
    more = f"; and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
    return "; ".join(said) + more


def _steps(place: tuple[int | str, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
