"""Equal values have the same JSON in every process, with any order of their sets in memory."""

import dataclasses
import itertools
import os
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from asyncq.domain.errors import InvalidJob
from asyncq.domain.payload import encode
from asyncq.domain.unique import UniquePolicy
from tests.support.sets import Own

SEEDS = ("0", "1", "2", "3")


class Renamed(msgspec.Struct, rename="camel", tag=True, omit_defaults=True):
    all_tags: set[str]
    is_new: bool = False
    runs: int = 0

    def __post_init__(self) -> None:
        self.runs += 1


class Row(msgspec.Struct, array_like=True):
    tags: set[str]
    note: str = "n"


@dataclasses.dataclass
class Data:
    tags: set[str]
    rest: Any = msgspec.UNSET


class Listed(list[Any]):
    """A list whose iteration differs from its items."""

    def __iter__(self) -> Any:
        return iter([9, 9])


class Mapped(dict[str, Any]):
    """Shows other members than it has."""

    def items(self) -> Any:
        return [("z", 9)]

    def values(self) -> Any:
        return [9]


def test_every_process_writes_a_value_with_sets_alike() -> None:
    """Under a policy that compares arguments, two processes would otherwise add the same job twice."""
    program = [sys.executable, "-m", "tests.support.sets_program"]
    running = [
        subprocess.Popen(program, env=os.environ | {"PYTHONHASHSEED": seed}, stdout=subprocess.PIPE, text=True)
        for seed in SEEDS
    ]
    said = [process.communicate()[0].splitlines() for process in running]

    assert said[0]
    assert [said[0]] * len(SEEDS) == said


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"tags": {"b", "a", "c"}}, '{"tags":["a","b","c"]}'),
        ({10, 9, 2.5, -1}, "[-1,2.5,9,10]"),
        ({None, "a", 3}, '[3,"a",null]'),
        ({frozenset({2, 1}), frozenset({1})}, "[[1,2],[1]]"),
        (Renamed({"b", "a"}), '{"type":"Renamed","allTags":["a","b"],"runs":1}'),
        (Row({"b", "a"}), '[["a","b"],"n"]'),
        (Data({"b", "a"}), '{"tags":["a","b"]}'),
        (Data({"b", "a"}, rest=({"d", "c"},)), '{"tags":["a","b"],"rest":[["c","d"]]}'),
        ({"z": 1, "a": {"y": 1, "b": {2, 1}}}, '{"z":1,"a":{"y":1,"b":[1,2]}}'),
        ([Listed([2, 1]), Mapped(b=1, a=2), {2, 1}], '[[2,1],{"b":1,"a":2},[1,2]]'),
        (Own("b", "a"), '["a","b"]'),
        ([[], {1}, set(), {"a": []}], '[[],[1],[],{"a":[]}]'),
    ],
    ids=itertools.count(),
)
def test_the_items_of_a_set_are_sorted_and_nothing_else_is(value: Any, expected: str) -> None:
    """Numbers are sorted by value, others by text. Members, lists and structs are written as without a set."""
    assert expected == encode(value)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({1, 12, 10**16}, {1.0, 12, 1e16}),
        ({2, 10.0}, {2.0, 10}),
        ({"tags": {"a", "b"}, "n": 1}, {"n": 1, "tags": {"b", "a"}}),
        ([{"b": 1, "a": {1, 2}}], [{"a": {2, 1}, "b": 1}]),
        (Own(3, 1, 2), Own(2, 1, 3)),
    ],
    ids=itertools.count(),
)
def test_equal_values_have_one_key(one: Any, other: Any) -> None:
    """Integers are equal to floats, and dicts are equal in any order of their members."""
    policy = UniquePolicy(keys=["args"])

    assert one == other
    assert policy.key(type="t", args=one) == policy.key(type="t", args=other)


def test_a_set_below_many_lists_is_found() -> None:
    """The search is no recursion."""
    value: Any = {"b", "a"}
    for _ in range(300):
        value = [value]

    assert "[" * 300 + '["a","b"]' + "]" * 300 == encode(value)


def test_a_value_stays_as_it_was() -> None:
    """The order is that of the text: the caller's objects do not change."""
    value = Renamed({"b", "a"})
    encode(value)

    assert ({"b", "a"}, 1) == (value.all_tags, value.runs)


def test_a_set_is_found_in_a_refused_value_too() -> None:
    """Other faults of the value are still reported."""
    with pytest.raises(InvalidJob, match=r"NaN or Infinity at \$\.n"):
        encode({"tags": {"b", "a"}, "n": float("nan")})
