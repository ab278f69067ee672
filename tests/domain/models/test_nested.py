"""Types of pydantic inside types of msgspec and of the standard library, at any depth."""

import dataclasses
import enum
import re
import sys
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Annotated, Any, Generic, NamedTuple, NewType, NotRequired, TypedDict, TypeVar
from uuid import UUID

import attrs
import msgspec
import pydantic
import pydantic.dataclasses
import pytest
from typing_extensions import TypeAliasType

from asyncq.domain.errors import InvalidJob, TaskError
from asyncq.domain.payload import encode
from asyncq.domain.task import Task, task

T = TypeVar("T")
Positive = Annotated[int, pydantic.Field(gt=0)]
Id = NewType("Id", Positive)  # type: ignore[valid-newtype]


class Order(pydantic.BaseModel):
    item: str = pydantic.Field(alias="Item")
    count: pydantic.PositiveInt = 1


class LoudOrder(Order):
    volume: int = 1


@pydantic.dataclasses.dataclass
class Point:
    x: Positive


@pydantic.dataclasses.dataclass
class Parcel:
    """msgspec writes dataclasses by itself: without aliases, and not at all with a field such as this path."""

    weight: Decimal = pydantic.Field(default=Decimal(1), alias="Weight")
    place: PurePosixPath = PurePosixPath("/")


@pydantic.dataclasses.dataclass
class Tag:
    name: str = pydantic.Field(alias="Name")


@dataclasses.dataclass
class Cart:
    parcel: Any


class Basket(msgspec.Struct):
    parcel: Any


class Batch(msgspec.Struct):
    orders: list[Order]
    name: str = "none"


class LoudBatch(Batch):
    volume: int = 1


class Renamed(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    first_point: Point
    more_points: dict[str, Point] = {}


class Constrained(msgspec.Struct, frozen=True):
    n: Positive
    text: Annotated[str, msgspec.Meta(min_length=2, pattern="^a")] = "ab"


class Holder(msgspec.Struct):
    batch: Batch
    constrained: Constrained | None = None


class Tree(msgspec.Struct):
    n: Positive
    children: list["Tree"] = []


class Box(msgspec.Struct, Generic[T]):
    content: T


class OrderBox(Box[Order]):
    pass


class Circle(msgspec.Struct, tag=True):
    radius: Positive


class Square(msgspec.Struct, tag=True):
    side: Positive


class Left(msgspec.Struct, tag_field="side", tag="l"):
    n: Positive


class Right(msgspec.Struct, tag_field="side", tag="r"):
    n: Positive


class Optional(msgspec.Struct):
    order: Order | msgspec.UnsetType = msgspec.UNSET
    n: int = 0


class Checked(msgspec.Struct):
    n: Positive

    def __post_init__(self) -> None:
        if self.n == 13:
            raise ValueError("13 is unlucky")
        if self.n == 14:
            raise TypeError("14 too")


class Array(msgspec.Struct, array_like=True):
    order: Order


@dataclasses.dataclass
class Data:
    order: Order
    name: str = "none"


@dataclasses.dataclass
class DataOfStructs:
    batch: Batch
    names: list[str] = dataclasses.field(default_factory=list)


class Typed(TypedDict):
    order: Order
    n: NotRequired[Positive]


class TypedOfStructs(TypedDict):
    batch: Batch
    n: NotRequired[int]


class Named(NamedTuple):
    order: Order
    n: int = 0


class NamedOfStructs(NamedTuple):
    batch: Batch


@attrs.define
class Attrs:
    order: Order
    _secret: int = 5
    names: list[str] = attrs.field(factory=list)


@attrs.define
class PlainAttrs:
    n: int


def handler_of(kind: Any) -> Task[...]:
    """A task whose only parameter has a type."""

    async def handler(x: Any) -> None: ...

    handler.__annotations__["x"] = kind
    return task(handler)


def stored(kind: Any, value: Any) -> Any:
    """The stored payload of a job."""
    return msgspec.json.decode(handler_of(kind).job(value).payload)


def again(kind: Any, value: Any) -> Any:
    """A value as the handler receives it."""
    known = handler_of(kind)
    return known.signature.decode(known.job(value).payload, None)[0][0]


def refused(kind: Any, value: Any) -> str:
    """The error of a payload that does not fit."""
    with pytest.raises(InvalidJob) as caught:
        handler_of(kind).job(value)
    return str(caught.value)


ORDER = Order(Item="tea", count=2)
VALUES: list[tuple[Any, Any]] = [
    (Batch, Batch([ORDER])),
    (list[Batch], [Batch([ORDER], "a"), Batch([])]),
    (Batch | None, None),
    (Batch | Point, Point(1)),
    (Point | Batch, Batch([ORDER])),
    (dict[str, Batch], {"a": Batch([ORDER])}),
    (tuple[Batch, int], (Batch([]), 5)),
    (Renamed, Renamed(Point(1), {"a": Point(2)})),
    (Constrained, Constrained(1, "abc")),
    (Holder, Holder(Batch([ORDER]), Constrained(1))),
    (Holder, Holder(Batch([ORDER]))),
    (Tree, Tree(1, [Tree(2, [Tree(3)])])),
    (Box[Order], Box(ORDER)),
    (Box[list[Positive]], Box([1])),
    (Box[Point], Box(Point(1))),
    (OrderBox, OrderBox(ORDER)),
    (Circle | Square, Square(1)),
    (list[Circle | Square], [Square(1), Circle(2)]),
    (Left | Right, Right(1)),
    (Right | Left, Right(1)),
    (Optional, Optional()),
    (Optional, Optional(ORDER)),
    (Checked, Checked(1)),
    (Data, Data(ORDER)),
    (DataOfStructs, DataOfStructs(Batch([ORDER]), ["a"])),
    (Typed, {"order": ORDER}),
    (Typed, {"order": ORDER, "n": 5}),
    (TypedOfStructs, {"batch": Batch([ORDER]), "n": 5}),
    (TypedOfStructs, {"batch": Batch([ORDER])}),
    (Named, Named(ORDER, 5)),
    (Attrs, Attrs(ORDER, 6, ["a"])),
    (Id, 5),
    (list[Id], [5]),
    (Annotated[list[Batch], msgspec.Meta(min_length=1)], [Batch([])]),
]


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=str)
def test_types_with_pydantic_inside_make_the_round_trip(kind: Any, value: Any) -> None:
    """The class with fields may be one of msgspec, attrs or the standard library."""
    found = again(kind, value)

    assert (value, type(value)) == (found, type(found))


def test_what_pydantic_reads_inside_a_struct_is_stored_as_pydantic_writes_it() -> None:
    """Models by alias, fields of Structs by their names in JSON, with their tag, without what is unset."""
    assert {"orders": [{"Item": "tea", "count": 2}], "name": "none"} == stored(Batch, Batch([ORDER]))
    assert {"firstPoint": {"x": 1}, "morePoints": {}} == stored(Renamed, Renamed(Point(1)))
    assert [{"type": "Square", "side": 1}] == stored(list[Circle | Square], [Square(1)])
    assert {"n": 0} == stored(Optional, Optional())


REFUSED: list[tuple[Any, Any, str]] = [
    (Batch, {"orders": [{"Item": 5}]}, "valid string - at `$.orders[0].Item`"),
    (Batch, {"name": "a"}, "Field required - at `$.orders`"),
    (Holder, {"batch": {"orders": []}, "constrained": {"n": 0}}, "greater than 0 - at `$.constrained.n`"),
    (Constrained, {"n": 1, "text": "a"}, "at least 2 characters - at `$.text`"),
    (Constrained, {"n": 1, "text": "bb"}, "match pattern '^a' - at `$.text`"),
    (Renamed, {"firstPoint": {"x": 1}, "other": 1}, "there is no field 'other'"),
    (list[Renamed], [{"firstPoint": {"x": 1}, "other": 1}], "not permitted - at `$[0].other`"),
    (Tree, Tree(1, [Tree(2, [Tree(-3)])]), "greater than 0 - at `$.children[0].children[0].n`"),
    (Box[list[Positive]], Box([0]), "greater than 0 - at `$.content[0]`"),
    (OrderBox, {"content": {}}, "Field required - at `$.content.Item`"),
    (Checked, Checked, "unsupported"),
    (Checked, {"n": 13}, "13 is unlucky - at `$`"),
    (Checked, {"n": 14}, "14 too - at `$`"),
    (Data, Data(5), "at `$.order`"),  # type: ignore[arg-type]
    (DataOfStructs, {"batch": {"orders": 1}}, "valid array - at `$.batch.orders`"),
    (Typed, {"order": ORDER, "m": 1}, "would lose field 'm' at $: its type does not have it"),
    (list[Batch], [{"orders": [ORDER], "m": 1}], "Batch has no field 'm'"),
    (TypedOfStructs, {"n": 1}, "Field required - at `$.batch`"),
    (Attrs, {"order": 1}, "at `$.order`"),
    (Batch, Batch([LoudOrder(Item="a")]), "would lose field 'volume' at $.orders[0]: LoudOrder is read as Order"),
    (Batch, LoudBatch([]), "would lose field 'volume' at $: LoudBatch is read as Batch"),
    (list[Batch], [LoudBatch([])], "would lose field 'volume' at $[0]"),
]


@pytest.mark.parametrize(("kind", "value", "said"), REFUSED, ids=str)
def test_a_value_that_does_not_fit_is_refused_with_its_path(kind: Any, value: Any, said: str) -> None:
    """pydantic checks all of a type that has one of its schemas anywhere, also rules of msgspec."""
    assert said in refused(kind, value)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Array, "Array is array_like, and has a type of pydantic in it"),
        (NamedOfStructs, "NamedOfStructs is a NamedTuple"),
        (Annotated[pydantic.AwareDatetime, msgspec.Meta(tz=True)], "use pydantic.AwareDatetime"),
        (tuple[Order, msgspec.Raw], "msgspec.Raw"),
    ],
)
def test_a_type_that_pydantic_cannot_read_is_refused_at_import(kind: Any, said: str) -> None:
    """Otherwise all its jobs would fail."""
    with pytest.raises(TaskError) as caught:
        handler_of(kind)

    assert said in str(caught.value)


class Plain(msgspec.Struct):
    n: int


@dataclasses.dataclass
class PlainData:
    n: int


class PlainDict(TypedDict):
    n: int


class Size(enum.Enum):
    SMALL = "s"


PlainId = NewType("PlainId", int)


@pytest.mark.parametrize(
    ("kind", "value", "wrong"),
    [
        (Plain, Plain(5), {"n": "5"}),
        (PlainAttrs, PlainAttrs(5), {"n": "5"}),
        (PlainData, PlainData(5), {"n": "5"}),
        (PlainDict, {"n": 5}, {"n": "5"}),
        (PlainId, 5, "5"),
        (Size, Size.SMALL, "x"),
        (Decimal, Decimal("1.50"), "x"),
        (UUID, UUID(int=1), "x"),
        (list[Plain], [Plain(5)], [{"n": "5"}]),
        (Annotated[int, msgspec.Meta(gt=0)], 5, "5"),
    ],
    ids=str,
)
def test_types_without_pydantic_are_read_by_msgspec(kind: Any, value: Any, wrong: Any) -> None:
    """Nothing changes for them, although pydantic is imported: msgspec is strict, where pydantic takes "5" for 5."""
    known = handler_of(kind)

    assert "pydantic" in sys.modules
    assert value == again(kind, value)
    assert isinstance(known.signature._decoder, msgspec.json.Decoder)
    assert "Invalid" in refused(kind, wrong) or "Expected" in refused(kind, wrong)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Parcel(Weight=Decimal(2)), {"Weight": "2", "place": "/"}),
        ({"a": [Parcel()]}, {"a": [{"Weight": "1", "place": "/"}]}),
        (Cart(Parcel()), {"parcel": {"Weight": "1", "place": "/"}}),
        (Basket({1: (Parcel(),)}), {"parcel": {"1": [{"Weight": "1", "place": "/"}]}}),
        ({"a": Basket(Tag(Name="b"))}, {"a": {"parcel": {"Name": "b"}}}),
        ([Point(1), {3, 1}], [{"x": 1}, [1, 3]]),
    ],
    ids=["itself", "dict", "dataclass", "struct", "alias", "sets"],
)
def test_pydantic_writes_its_dataclasses_where_no_type_names_them(value: Any, expected: Any) -> None:
    """Adds by name have no types, nor has a parameter that takes anything."""

    @task
    async def take(value: Any) -> None: ...

    assert expected == msgspec.json.decode(encode(value)) == msgspec.json.decode(take.job(value).payload)


def test_a_dataclass_that_pydantic_cannot_write_is_refused_with_its_place() -> None:
    """The rules are those of a parameter with this type."""
    with pytest.raises(InvalidJob, match=r"payload cannot be written as JSON.*greater than 0"):
        encode({"a": dataclasses.replace(Point(1)), "b": [_changed(Point(1), x=-1)]})


def test_a_payload_that_holds_itself_is_refused() -> None:
    """The search for dataclasses must end."""
    endless: list[Any] = [object()]
    endless.append(endless)

    with pytest.raises(InvalidJob, match="cannot be written as JSON"):
        encode(endless)


Loud = TypeAliasType("Loud", Positive)
Orders = TypeAliasType("Orders", list[Order])
Maybe = TypeAliasType("Maybe", Order | None)


@pytest.mark.parametrize(
    ("kind", "value", "bad", "path"),
    [
        (Loud, 3, -3, "$.x"),
        (list[Loud], [3], [-3], "$[0]"),
        (Orders, [Order(Item="a")], [{"Item": "a", "count": 0}], "$[0].count"),
        (Maybe, Order(Item="a"), {"Item": "a", "count": 0}, "$.count"),
    ],
    ids=["rule", "list", "models", "union"],
)
def test_an_alias_of_a_type_is_read_as_the_type(kind: Any, value: Any, bad: Any, path: str) -> None:
    """`type X = ...` of Python 3.12 makes such an object, which hides what is in it."""

    async def take(x: Any) -> None: ...

    take.__annotations__["x"] = kind
    known = task(take)

    assert ((value,), {}) == known.signature.decode(known.job(value).payload, None)
    with pytest.raises(InvalidJob, match=re.escape(f"`{path}`")):
        known.job(bad)


def _changed(point: Point, x: int) -> Point:
    point.x = x
    return point
