"""Values that hold sets in every place where one may be."""

from typing import Any, NamedTuple
from uuid import UUID


class Pair(NamedTuple):
    left: Any
    right: Any


class Own(set[Any]):
    """Has an iteration of its own, by insertion."""

    def __init__(self, *items: Any) -> None:
        super().__init__(items)
        self.items = items

    def __iter__(self) -> Any:
        return iter(self.items)


VALUES: list[Any] = [
    {"tags": {*"abcdef"}},
    {"tags": frozenset("abcdef")},
    {*"abcdef"},
    [{*"abc"}, {*"def"}],
    ({*"abc"}, [[{*"def"}]]),
    {frozenset("abc"), frozenset("def"), frozenset("ab")},
    {(1, frozenset("abc")), (0, frozenset("def"))},
    {Pair("a", frozenset("abc")), Pair("b", frozenset("def"))},
    {"a", 1, None, 2.5, ("b", "c"), UUID(int=1), b"x"},
    {"deep": {"er": [{"tags": {*"abcdef"}}]}, "beside": {*"ab"}},
    [[[[[[[[frozenset("abcdef")]]]]]]]],
    Own(*"abcdef"),
]
