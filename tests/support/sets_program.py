"""Prints the JSON of values that contain sets; the order of a set depends on PYTHONHASHSEED."""

import dataclasses
import enum
from typing import Any

import msgspec

from asyncq.domain.payload import encode
from asyncq.domain.unique import UniquePolicy
from tests.support.sets import VALUES


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"
    BLUE = "blue"


class Tags(msgspec.Struct, frozen=True, rename="camel", tag=True, omit_defaults=True):
    all_tags: frozenset[Any]
    note: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Data:
    tags: frozenset[str]


OF_CLASSES: list[Any] = [
    Tags(frozenset("abcdef")),
    {Tags(frozenset("abc")), Tags(frozenset("def")), Tags(frozenset("ghi"))},
    Data(frozenset("abcdef")),
    [Data(frozenset("abcdef")), {Data(frozenset("abc")), Data(frozenset("def"))}],
    {*Color},
    {"at": {"colors": {*Color}, "tags": Tags(frozenset("abcdef"))}},
]

if __name__ == "__main__":
    for value in [*VALUES, *OF_CLASSES]:
        print(encode(value), UniquePolicy(keys=["args"]).key(type="t", args=value))
    print(UniquePolicy(keys={"type", "args", "queue"}, args_keys={*"abcdef"}, states={"available", "active"}))
