"""The field names of payloads: an add refuses a field that its handler does not read.

A worker ignores such a field, because the job may come from another release that knows it.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import inspect as kinds

from asyncq.domain.errors import InvalidJob
from asyncq.domain.hints import hint

# Each recurring job has this field for its slot; a caller may add such a payload again.
MARK = "_cron"

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Fields:
    """The fields that payloads of a task may have; None allows any."""

    def __init__(self, names: Iterable[str] | None, task: str) -> None:
        self._task = task
        self._names = None if names is None else [*names]
        self._known: msgspec.json.Decoder[Any] | None = None
        if self._names is not None:
            # This decodes no values, and finds an unknown name within a fraction of a microsecond.
            wanted = {f"field_{at}": name for at, name in enumerate({*self._names, MARK})}
            fields = [(field, msgspec.Raw, msgspec.UNSET) for field in wanted]
            known = msgspec.defstruct("Known", fields, rename=wanted, forbid_unknown_fields=True, gc=False)
            self._known = msgspec.json.Decoder(known)

    def check(self, payload: str) -> None:
        """Raise InvalidJob (GWBPL) for an unknown field of a payload; values that are not objects are accepted."""
        if self._known is None:
            return
        try:
            self._known.decode(payload)
        except msgspec.ValidationError:
            if payload.lstrip().startswith("{"):
                self.check_names(_members.decode(payload))

    def check_names(self, given: Iterable[str], kind: str = "field") -> None:
        """Raise InvalidJob (GWBPL) with the nearest known name for an unknown name; `kind` is the noun for it."""
        for name in given:
            if name != MARK and (fault := self.fault_of(name, kind)):
                raise InvalidJob(f"payload of task {self._task!r}: {fault}", code="GWBPL", field="payload")

    def fault_of(self, name: str, kind: str = "field") -> str | None:
        """The sentence that refuses a name, with the nearest known one; None if payloads may have it."""
        if self._names is None or name in self._names:
            return None
        there = f"there are {', '.join(self._names)}" if self._names else "it takes none"
        return f"there is no {kind} {name!r}" + (hint(name, self._names) or f"; {there}")


def names_in(info: Any) -> set[str] | None:
    """The names in JSON that fields of a type may have; None if any name is allowed."""
    if isinstance(info, kinds.Metadata):
        return names_in(info.type)
    if isinstance(info, kinds.UnionType):
        found = [names_in(member) for member in info.types]
        return None if None in found else {name for names in found if names is not None for name in names}
    if isinstance(info, kinds.StructType | kinds.DataclassType | kinds.TypedDictType):
        tag = {info.tag_field} if isinstance(info, kinds.StructType) and info.tag_field else set[str]()
        return tag | {field.encode_name for field in info.fields}
    is_open = isinstance(info, kinds.AnyType | kinds.DictType | kinds.RawType | kinds.CustomType)
    return None if is_open else set()


def has_path(info: Any, path: Sequence[str]) -> bool:
    """Whether values of a type may have a member at a path of names in JSON, from the outer one to the inner one."""
    if not path:
        return True
    if isinstance(info, kinds.Metadata):
        return has_path(info.type, path)
    if isinstance(info, kinds.UnionType):
        return any(has_path(member, path) for member in info.types)
    name, *rest = path
    if isinstance(info, kinds.DictType):
        return has_path(info.value_type, rest)
    if isinstance(info, kinds.StructType | kinds.DataclassType | kinds.TypedDictType):
        if isinstance(info, kinds.StructType) and name == info.tag_field:
            return not rest
        return any(field.encode_name == name and has_path(field.type, rest) for field in info.fields)
    return isinstance(info, kinds.AnyType | kinds.RawType | kinds.CustomType)
