"""Types of msgspec with a schema of pydantic in them, as types that pydantic reads and writes."""

import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

_RULES = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length")
_PRESENCE = (typing.Required, typing.NotRequired)
_OF_MODELS = ("alias", "validation_alias", "serialization_alias", "exclude")
# pydantic does not read those of Python 3.11.
_HAS_OLD_TYPED_DICTS = sys.version_info < (3, 12)


class _TypedDict(typing.TypedDict):
    """A TypedDict, for the class of its class."""


class _Field(NamedTuple):
    """A field of a class: its names in Python, in JSON and as an argument."""

    name: str
    encode_name: str
    argument: str
    kind: Any
    is_required: bool


class Records:
    """Rewrites the parts of a type that pydantic does not know: Structs, classes of attrs, `msgspec.Meta`."""

    def __init__(self, pydantic: Any) -> None:
        self._pydantic = pydantic
        self._core: Any = sys.modules["pydantic_core"].core_schema
        self._refs: dict[Any, str] = {}
        self._open: set[Any] = set()

    def rewritten(self, kind: Any) -> Any:
        """The type that pydantic reads in place of a type; the type itself if pydantic knows all of it.

        ValueError: a part of it has no such type.
        """
        if not _needs(kind, set()):
            return kind
        origin, args = typing.get_origin(kind), typing.get_args(kind)
        if origin is typing.Annotated:
            metadata = [self._constraint(given) for given in kind.__metadata__]
            return typing.Annotated[(self.rewritten(args[0]), *metadata)]
        for real in ("__supertype__", "__value__"):
            if hasattr(kind, real):
                return self.rewritten(getattr(kind, real))
        record: Any = kind if origin is None else origin
        if _is_record(record):
            return typing.Annotated[kind, _Reader(self, kind)]
        if origin in (typing.Union, types.UnionType):
            return typing.Union[tuple(self.rewritten(part) for part in args if part is not msgspec.UnsetType)]  # noqa: UP007
        return record if not args else record[tuple(self.rewritten(part) for part in args)]

    def schema(self, kind: Any, generate: Callable[[Any], Any]) -> Any:
        """The core schema of a class with fields: an object whose members are its fields."""
        core = self._core
        ref = self._refs.setdefault(kind, f"asyncq:{len(self._refs)}")
        if kind in self._open:
            return core.definition_reference_schema(ref)
        self._open.add(kind)
        try:
            fields = _fields(kind)
            for field in fields:
                self._check(kind, field)
            members = {
                field.encode_name: core.typed_dict_field(
                    generate(self.rewritten(field.kind)), required=field.is_required
                )
                for field in fields
            }
        finally:
            self._open.discard(kind)
        record: Any = typing.get_origin(kind) or kind
        config: Any = getattr(record, "__struct_config__", None)
        tag = None if config is None or config.tag is None else (config.tag_field, config.tag)
        if tag is not None:
            members[tag[0]] = core.typed_dict_field(core.literal_schema([tag[1]]), required=True)
        extra = "forbid" if config is not None and config.forbid_unknown_fields else "ignore"
        typed = core.typed_dict_schema(members, extra_behavior=extra, cls_name=record.__qualname__)
        if typing.is_typeddict(record):
            return typed | {"ref": ref}
        write = core.plain_serializer_function_ser_schema(_writer(record, fields, tag), return_schema=typed)
        return core.no_info_after_validator_function(_maker(record, fields), typed, ref=ref, serialization=write)

    def _check(self, kind: Any, field: _Field) -> None:
        """Raise ValueError for a setting of a field that counts in models only."""
        for given in getattr(field.kind, "__metadata__", ()):
            if isinstance(given, self._pydantic.fields.FieldInfo):
                found = [name for name in _OF_MODELS if getattr(given, name, None)]
                if found:
                    raise ValueError(
                        f"{found[0]}= of field {field.name!r} of {_name(kind)} is for models of pydantic only"
                    )

    def _constraint(self, given: Any) -> Any:
        if not isinstance(given, msgspec.Meta):
            return given
        if given.tz is not None:
            raise ValueError("pydantic does not check msgspec.Meta(tz=...); use pydantic.AwareDatetime")
        rules = {name: getattr(given, name) for name in _RULES if getattr(given, name) is not None}
        return self._pydantic.Field(**rules)


class _Reader:
    """The mark of a class by which pydantic finds its schema."""

    def __init__(self, records: Records, kind: Any) -> None:
        self._records = records
        self._kind = kind

    def __get_pydantic_core_schema__(self, _: Any, handler: Any) -> Any:
        return self._records.schema(self._kind, handler.generate_schema)


def _name(kind: Any) -> str:
    return (typing.get_origin(kind) or kind).__qualname__


def _needs(kind: Any, seen: set[Any]) -> bool:
    """Whether a type has a part that pydantic does not know, or whose rules it ignores."""
    if kind is msgspec.UnsetType or any(isinstance(given, msgspec.Meta) for given in getattr(kind, "__metadata__", ())):
        return True
    if typing.get_origin(kind) is typing.Literal:
        return False
    if any(_needs(part, seen) for part in typing.get_args(kind)):
        return True
    if any(hasattr(kind, real) and _needs(getattr(kind, real), seen) for real in ("__supertype__", "__value__")):
        return True
    record: Any = typing.get_origin(kind) or kind
    if not inspect.isclass(record) or record in seen:
        return False
    seen.add(record)
    if _is_of_msgspec(record) or (_HAS_OLD_TYPED_DICTS and type(record) is type(_TypedDict)):
        return True
    fields = [] if hasattr(record, "__pydantic_core_schema__") else _hints(record)
    return any(_needs(part, seen) for part in fields)


def _is_of_msgspec(kind: type[Any]) -> bool:
    """Whether msgspec knows a class with fields, and pydantic does not."""
    if hasattr(kind, "__get_pydantic_core_schema__"):
        return False
    return issubclass(kind, msgspec.Struct) or hasattr(kind, "__attrs_attrs__")


def _is_record(kind: Any) -> bool:
    return inspect.isclass(kind) and (
        _is_of_msgspec(kind) or dataclasses.is_dataclass(kind) or typing.is_typeddict(kind) or hasattr(kind, "_fields")
    )


def _hints(kind: Any) -> list[Any]:
    if not _is_record(kind):
        return []
    try:
        return [*typing.get_type_hints(kind, include_extras=True).values()]
    except (NameError, TypeError, AttributeError, SyntaxError):
        return []


def _fields(kind: Any) -> list[_Field]:
    """The fields of a class; ValueError if it is written as an array, or is generic and no Struct."""
    record: Any = typing.get_origin(kind) or kind
    if issubclass(record, msgspec.Struct):
        if record.__struct_config__.array_like:
            raise ValueError(f"{record.__qualname__} is array_like, and has a type of pydantic in it")
        return [
            _Field(field.name, field.encode_name, field.name, field.type, field.required)
            for field in msgspec.structs.fields(kind)
        ]
    if hasattr(record, "_fields") or record is not kind:
        what = "a NamedTuple" if hasattr(record, "_fields") else "generic"
        raise ValueError(f"{record.__qualname__} is {what}, and has types of pydantic and msgspec; use a Struct")
    hints = typing.get_type_hints(record, include_extras=True)
    if typing.is_typeddict(record):
        required = record.__required_keys__
        return [_Field(name, name, name, _without_presence(hint), name in required) for name, hint in hints.items()]
    if hasattr(record, "__attrs_attrs__"):
        nothing = sys.modules["attr"].NOTHING
        return [
            _Field(field.name, field.name, field.alias, hints[field.name], field.default is nothing)
            for field in record.__attrs_attrs__
            if field.init
        ]
    missing = dataclasses.MISSING
    return [
        _Field(field.name, field.name, field.name, hints[field.name], field.default is field.default_factory is missing)
        for field in dataclasses.fields(record)
        if field.init
    ]


def _without_presence(hint: Any) -> Any:
    return typing.get_args(hint)[0] if typing.get_origin(hint) in _PRESENCE else hint


def _writer(kind: type[Any], fields: list[_Field], tag: tuple[str, Any] | None) -> Callable[[Any], Any]:
    """Makes the members of an object, for pydantic to write them; another value stays what it is."""
    names = [(field.name, field.encode_name) for field in fields]
    tags = {} if tag is None else dict([tag])
    known = {*tags, *(encoded for _, encoded in names)}

    def write(value: Any) -> Any:
        if not isinstance(value, kind):
            # pydantic would leave out names that it does not know, as it does for TypedDicts.
            given: Any = value
            if isinstance(value, dict) and (unknown := given.keys() - known):
                raise TypeError(f"{kind.__qualname__} has no field {min(unknown, key=str)!r}")
            return given
        members = {encoded: getattr(value, name) for name, encoded in names}
        return tags | {name: item for name, item in members.items() if item is not msgspec.UNSET}

    return write


def _maker(kind: type[Any], fields: list[_Field]) -> Callable[[dict[str, Any]], Any]:
    """Makes an object of members that pydantic has read."""
    arguments = {field.encode_name: field.argument for field in fields}

    def make(members: dict[str, Any]) -> Any:
        given = {arguments[name]: item for name, item in members.items() if name in arguments}
        try:
            return kind(**given)
        except TypeError as error:  # as msgspec: `__post_init__` may raise it for a wrong value
            raise ValueError(str(error)) from error

    return make
