"""What pydantic would not read as it wrote it: refused when a handler is registered.

Pydantic describes a type by nested dicts, its core schema, where the settings of models, dataclasses and TypedDicts
have one form.
"""

import inspect
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from asyncq.domain.constraints import is_of_pydantic_v1
from asyncq.domain.models.values import is_a

# These hold no schemas, or such that neither writes nor reads JSON.
_SKIPPED = frozenset(
    ["metadata", "config", "default", "serialization", "expected", "computed_fields", "python_schema", "strict_schema"]
)
_WITH_CONFIG = ("model", "dataclass", "typed-dict")
_OBJECTS = ("is-instance", "is-subclass", "callable")
_WITH_FIELDS = ("model-fields", "dataclass-args", "typed-dict")

_Schema = Mapping[str, Any]


def fault_of_type(annotation: Any) -> str | None:
    """What is wrong with a class in a type, as a sentence: a model of `pydantic.v1`."""
    old = next((kind for kind in _classes(annotation, set()) if is_of_pydantic_v1(kind)), None)
    if old is None:
        return None
    return (
        f"{old.__qualname__} is a model of pydantic.v1, which pydantic 2 does not read; make it a model of pydantic 2"
    )


def fault_of_schema(schema: _Schema) -> str | None:
    """Why values would not be read as they were written, as a sentence; None if they are."""
    return next(_faults(schema, "a value", {}, set()), None)


def names_of_fields(schema: _Schema) -> set[str] | None:
    """The names in JSON that fields of an object may have; None for any, and if the type is no class with fields."""
    definitions = {item["ref"]: item for item in schema.get("definitions", ())}
    config: _Schema = {}
    while (kind := schema.get("type")) not in _WITH_FIELDS:
        if kind == "definition-ref" and schema["schema_ref"] in definitions:
            schema = definitions[schema["schema_ref"]]
        elif kind in ("definitions", "model", "dataclass", "function-after"):
            config = schema.get("config", config)
            schema = schema["schema"]
        else:
            return None
    extra = schema.get("extra_behavior") or config.get("extra_fields_behavior")
    if extra == "allow":
        return None
    return {name for field, item in _fields(schema) for name in _first_names(field, item, config)}


def _faults(schema: Any, where: str, config: _Schema, seen: set[int]) -> Iterator[str]:
    """Yield the faults of a schema and of those in it; `where` is the field that has it."""
    if is_a(schema, list | tuple):
        for item in schema:
            yield from _faults(item, where, config, seen)
    if not is_a(schema, Mapping) or id(schema) in seen:
        return
    seen.add(id(schema))
    kind = schema.get("type")
    serialization: _Schema = schema.get("serialization") or {}
    function = serialization.get("function")
    if _is_secret(function):
        yield f"{where} is a secret, which pydantic writes as asterisks; give it a serializer, as @field_serializer"
    if serialization.get("type") == "function-plain" and not _is_own(function):
        return  # The program writes it.
    if serialization.get("type") == "function-wrap" and kind not in _WITH_CONFIG:
        return
    if kind in _WITH_CONFIG:
        config = schema.get("config") or {}
    if kind == "bytes" and config.get("ser_json_bytes", "utf8") != config.get("val_json_bytes", "utf8"):
        yield f"{where} is written and read differently: set ser_json_bytes and val_json_bytes to one value"
    if kind == "generator":
        yield f"{where} is an Iterable, which pydantic checks only when the handler iterates over it; use list"
    if kind in _WITH_FIELDS:
        owner = schema.get("model_name") or schema.get("dataclass_name") or schema.get("cls_name") or "the type"
        for name, field in _fields(schema):
            at = f"field {name!r} of {owner}"
            yield from _faults_of_field(name, field, at, config)
            yield from _faults(field["schema"], at, config, seen)
        yield from _faults(schema.get("extras_schema"), where, config, seen)
        return
    for key, item in schema.items():
        if key not in _SKIPPED:
            yield from _faults(item, where, config, seen)


def _faults_of_field(name: str, field: _Schema, at: str, config: _Schema) -> Iterator[str]:
    inner: _Schema = field["schema"]
    while inner.get("type") in ("default", "nullable"):
        inner = inner["schema"]
    if inner.get("type") in _OBJECTS:
        yield f"{at} is an object that pydantic does not read from JSON; give its type a schema, or make it a model"
    is_required = field["required"] if "required" in field else field["schema"].get("type") != "default"
    if is_required and (field.get("serialization_exclude") or field.get("init_only")):
        reason = "exclude=True leaves it out" if field.get("serialization_exclude") else "an InitVar is not written"
        yield f"{at} is required, but {reason}; give it a default"
        return
    written = field.get("serialization_alias") or name
    names = _names(name, field, config)
    if written not in names:
        said = " or ".join(map(repr, sorted(names))) or "a path"
        yield f"{at} is written as {written!r}, but read as {said}; give both one name by alias="


def _fields(schema: _Schema) -> list[tuple[str, _Schema]]:
    fields: Any = schema["fields"]
    return [*fields.items()] if is_a(fields, Mapping) else [(field["name"], field) for field in fields]


def _names(name: str, field: _Schema, config: _Schema) -> set[str]:
    """The names in JSON by which a field is read; a path of several steps is none."""
    alias: Any = field.get("validation_alias")
    if alias is None:
        return {name}
    paths: Any = [[alias]] if is_a(alias, str) else alias
    if paths and not is_a(paths[0], list):
        paths = [paths]
    found = {path[0] for path in paths if len(path) == 1} if config.get("validate_by_alias", True) else set[str]()
    is_by_name = config.get("validate_by_name") or config.get("populate_by_name")
    return found | {name} if is_by_name else found


def _first_names(name: str, field: _Schema, config: _Schema) -> set[str]:
    """The names of the members of an object that a field may be read from, also by a path."""
    alias: Any = field.get("validation_alias")
    deep = {path[0] for path in alias if is_a(path, list)} if is_a(alias, list) else set[str]()
    return _names(name, field, config) | deep | ({alias[0]} if is_a(alias, list) and not deep else set())


def _is_secret(function: Any) -> bool:
    return getattr(function, "__module__", "") == "pydantic.types" and "secret" in getattr(function, "__name__", "")


def _is_own(function: Any) -> bool:
    return getattr(function, "__module__", "").startswith("asyncq.")


def _classes(kind: Any, seen: set[Any]) -> Iterator[type[Any]]:
    """Yield the classes in a type, also those of its fields."""
    for part in typing.get_args(kind):
        yield from _classes(part, seen)
    for real in ("__supertype__", "__value__"):
        if hasattr(kind, real):
            yield from _classes(getattr(kind, real), seen)
    record: Any = typing.get_origin(kind) or kind
    if not inspect.isclass(record) or record in seen:
        return
    seen.add(record)
    yield record
    fields: Any = getattr(record, "__pydantic_fields__", None)
    if is_a(fields, Mapping):
        hints: Any = [field.annotation for field in fields.values()]
    else:
        hints = _hints(record)
    for hint in hints:
        yield from _classes(hint, seen)


def _hints(kind: Any) -> list[Any]:
    try:
        return [*typing.get_type_hints(kind).values()]
    except (NameError, TypeError, AttributeError, SyntaxError):
        return []
