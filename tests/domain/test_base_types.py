"""Values of subclasses of str, float, datetime, ... are written as values of these types."""

import dataclasses
import enum
import itertools
import math
from collections import OrderedDict, UserDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel

from asyncq.domain.errors import InvalidJob
from asyncq.domain.payload import encode
from asyncq.domain.task import task


class Markup(str):
    """Text of a template engine, with its own `__repr__`."""

    __slots__ = ()

    def __str__(self) -> str:
        return "another text"


class Money(int):
    def __str__(self) -> str:
        return "another text"


class Float64(float):
    def __repr__(self) -> str:
        return "np.float64(...)"


class Blob(bytes):
    def __bytes__(self) -> bytes:
        return b"another"


class Buffer(bytearray):
    pass


class Moment(datetime):
    """Shows another year than it has, as a class for other calendars."""

    @property
    def year(self) -> int:  # type: ignore[override]
        return 2569


class Day(date):
    pass


class Clock(time):
    pass


class Duration(timedelta):
    @property
    def days(self) -> int:  # type: ignore[override]
        return 7


class Amount(Decimal):
    pass


class Id(UUID):
    pass


class Level(enum.IntEnum):
    LOW = 1


class Items(list[Any]):
    pass


class Members(dict[str, Any]):
    pass


@dataclasses.dataclass
class Data:
    x: Any


class Point(msgspec.Struct):
    x: Any


class Model(BaseModel):
    name: str


class Missing:
    """A class that msgspec cannot encode."""


VALUES: list[tuple[Any, str]] = [
    (Markup("<b>"), '"<b>"'),
    (Money(5), "5"),
    (Float64(1.5), "1.5"),
    (Blob(b"\x00\xff"), '"AP8="'),
    (Buffer(b"\x00\xff"), '"AP8="'),
    (Moment(2026, 11, 20, 1, 2, 3, 4, tzinfo=UTC), '"2026-11-20T01:02:03.000004Z"'),
    (Day(2026, 11, 20), '"2026-11-20"'),
    (Clock(1, 2, 3), '"01:02:03"'),
    (Duration(days=1, seconds=2), '"P1DT2S"'),
    (Amount("1.10"), '"1.10"'),
    (Id(int=1), '"00000000-0000-0000-0000-000000000001"'),
    (Level.LOW, "1"),
    (Items([Markup("a")]), '["a"]'),
    (Members(a=Markup("a")), '{"a":"a"}'),
    (OrderedDict(b=Float64(1.0), a=1), '{"b":1.0,"a":1}'),
    (defaultdict(int, a=Money(1)), '{"a":1}'),
    ({Markup("key"): 1}, '{"key":1}'),
    ({Markup("b"), Markup("a")}, '["a","b"]'),
    ({Float64(10.0), Float64(9.0)}, "[9.0,10.0]"),
    (Point(Markup("a")), '{"x":"a"}'),
    (Data([Moment(2026, 11, 20, tzinfo=UTC)]), '{"x":["2026-11-20T00:00:00Z"]}'),
]


@pytest.mark.parametrize(("value", "expected"), VALUES, ids=[type(value).__name__ for value, _ in VALUES])
def test_a_value_is_written_as_its_base(value: Any, expected: str) -> None:
    """Its own methods do not count: the value of the base is written."""
    assert expected == encode(value)


def test_a_task_takes_such_values_for_parameters_of_the_base() -> None:
    """They have the annotated type."""

    @task
    async def send(text: str, weight: float, at: datetime) -> None:
        """A task of plain types."""

    spec = send.job(Markup("<b>"), weight=Float64(1.5), at=Moment(2026, 11, 20, tzinfo=UTC))

    assert '{"text":"<b>","weight":1.5,"at":"2026-11-20T00:00:00Z"}' == spec.payload


def test_such_a_value_can_be_meta() -> None:
    """It is written by the same rules."""

    @task
    async def send() -> None:
        """A task."""

    assert '{"trace":"x"}' == send.job().with_options(meta={"trace": Markup("x")}).meta


@pytest.mark.parametrize("number", [Float64(math.nan), Float64(math.inf)], ids=["nan", "inf"])
def test_nan_of_such_a_class_is_refused_with_its_path(number: float) -> None:
    """A NaN of a plain float is refused too."""
    with pytest.raises(InvalidJob, match=r"holds NaN or Infinity at \$\.a\[1\]"):
        encode({"a": [1.0, number]})


@pytest.mark.parametrize(
    ("value", "path", "said"),
    [
        ({"a": Missing()}, "$.a", "tests.domain.test_base_types.Missing is unsupported"),
        ([1, [2, {"b": Missing()}]], "$[1][1].b", "Missing is unsupported"),
        (Point([Missing()]), "$.x[0]", "Missing is unsupported"),
        (Data({"y": Data(Missing())}), "$.x.y.x", "Missing is unsupported"),
        ({"a": (1, deque([1]))}, "$.a[1]", "collections.deque is unsupported"),
        ({"a": UserDict()}, "$.a", "collections.UserDict is unsupported"),
        ({"a": {"b": MappingProxyType({})}}, "$.a.b", "mappingproxy is unsupported"),
        ({"a": {}.keys()}, "$.a", "dict_keys is unsupported"),
        ({"a": 1j}, "$.a", "complex is unsupported"),
        ({"a": [{(1, 2): 3}]}, "$.a[0]", "objects of type tuple is unsupported"),
        ({"a": [{"n": 10**5000}]}, "$.a[0].n", "Exceeds the limit"),
        ({"tags": {"a", "b"}, "x": Missing()}, "$.x", "Missing is unsupported"),
        ({"user": Model.model_construct(name=Missing())}, "$.user", "Missing is unsupported"),  # type: ignore[arg-type]
    ],
    ids=itertools.count(),
)
def test_a_value_without_json_is_refused_with_its_path(value: Any, path: str, said: str) -> None:
    """A payload may be large, and only one of its values wrong."""
    with pytest.raises(InvalidJob) as caught:
        encode(value)

    assert "GWBPL" == caught.value.code
    assert str(caught.value).startswith(f"payload cannot be written as JSON at {path}: ")
    assert said in str(caught.value)


def test_the_path_of_an_argument_names_it() -> None:
    """It is the parameter for which it was given."""

    @task
    async def send(text: str, extra: Any = None) -> None:
        """A task."""

    with pytest.raises(InvalidJob, match=r"cannot be written as JSON at \$\.extra\.b: "):
        send.job("x", extra={"b": Missing()})
