"""Constraints of other libraries, which msgspec does not check, are checked by pydantic."""

import dataclasses
import itertools
import re
from collections.abc import Callable
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, TypedDict, TypeVar

import annotated_types
import fastapi
import msgspec
import pydantic
import pydantic.dataclasses
import pytest
import typing_extensions
from pydantic_core import core_schema

from asyncq.domain.errors import InvalidJob, TaskError
from asyncq.domain.signature import Context
from asyncq.domain.task import task

T = TypeVar("T")
Positive = Annotated[int, annotated_types.Gt(0)]
Bounded = TypeVar("Bounded", bound=Positive)  # type: ignore[valid-type]
Id = NewType("Id", Positive)  # type: ignore[valid-newtype]


class Grouped(annotated_types.GroupedMetadata):
    """A constraint that a program defines for annotated_types."""

    def __iter__(self) -> Any:
        return iter([annotated_types.Gt(0)])


class OwnSchema:
    """A constraint that a program defines for pydantic."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return core_schema.no_info_after_validator_function(refuse_negative, handler(source))


def refuse_negative(n: int) -> int:
    """A validator that a program defines."""
    if n < 0:
        raise ValueError("it is negative")
    return n


class Marker:
    """Metadata that only its owner knows."""


class Struct(msgspec.Struct):
    name: str
    n: Positive


class Deep(msgspec.Struct):
    structs: dict[str, list[Struct | None]]


class Tree(msgspec.Struct):
    children: "list[Tree]"
    n: Positive


class Box(msgspec.Struct, Generic[T]):
    item: T


class StructWithField(msgspec.Struct, kw_only=True):
    first: int
    n: int = pydantic.Field(gt=0)
    last: int = 1


@dataclasses.dataclass
class Data:
    name: str
    n: Positive = 1


@dataclasses.dataclass
class DataWithField:
    n: int = pydantic.Field(default=1, gt=0)


@pydantic.dataclasses.dataclass
class PydanticData:
    n: int


@dataclasses.dataclass
class HoldsPydanticData:
    data: PydanticData


class Typed(TypedDict):
    n: NotRequired[Positive]


class Named(NamedTuple):
    n: Positive


class NamedWithField(NamedTuple):
    n: int = pydantic.Field(gt=0)


CHECKED: list[tuple[Any, Any, str]] = [
    (Annotated[int, annotated_types.Gt(0)], -5, ""),
    (Annotated[int, annotated_types.Interval(gt=0)], -5, ""),
    (Annotated[str, annotated_types.Len(1, 5)], "", ""),
    (Annotated[str, annotated_types.Predicate(str.islower)], "A", ""),
    (Annotated[int, msgspec.Meta(ge=0), annotated_types.Gt(0)], 0, ""),
    (Annotated[int, msgspec.Meta(ge=0), annotated_types.Lt(5)], -5, ""),
    (Annotated[int, Grouped()], -5, ""),
    (Annotated[int, OwnSchema], -5, ""),
    (Annotated[int, OwnSchema()], -5, ""),
    (pydantic.PositiveInt, -5, ""),
    (pydantic.StrictInt, "5", ""),
    (pydantic.conint(gt=0), -5, ""),
    (pydantic.constr(min_length=1), "", ""),
    (pydantic.UUID4, "00000000-0000-1000-8000-000000000000", ""),
    (Annotated[int, pydantic.Field(gt=0)], -5, ""),
    (Annotated[int, pydantic.AfterValidator(refuse_negative)], -5, ""),
    (Annotated[float, pydantic.AllowInfNan(False)], "NaN", ""),  # noqa: FBT003
    (Annotated[int, fastapi.Query(gt=0)], -5, ""),
    (Positive | None, -5, ""),
    (list[Positive], [1, -5], "[1]"),
    (dict[str, tuple[Positive, ...]], {"a": [-5]}, ".a[0]"),
    (Annotated[list[Positive], msgspec.Meta(min_length=1)], [-5], "[0]"),
    (Annotated[list[Positive], msgspec.Meta(min_length=1)], [], ""),
    (Id, -5, ""),
    (Struct, {"name": "a", "n": -5}, ".n"),
    (Deep, {"structs": {"a": [None, {"name": "a", "n": -5}]}}, ".structs.a[1].n"),
    (Tree, {"n": 1, "children": [{"n": -5, "children": []}]}, ".children[0].n"),
    (Box[Positive], {"item": -5}, ".item"),
    (Box[Struct], {"item": {"name": "a", "n": -5}}, ".item.n"),
    (Box[Bounded], {"item": -5}, ".item"),
    (Data, {"name": "a", "n": -5}, ".n"),
    (list[Data], [{"name": "a", "n": -5}], "[0].n"),
    (PydanticData, {"n": "x"}, ".n"),
    (HoldsPydanticData, {"data": {"n": "x"}}, ".data.n"),
    (Typed, {"n": -5}, ".n"),
    (Named, [-5], "[0]"),
]

RULES_AS_DEFAULTS: list[tuple[Any, str]] = [
    (StructWithField, "n"),
    (DataWithField, "n"),
    (NamedWithField, "n"),
]


def handler_of(kind: Any) -> Callable[..., Any]:
    """A handler with a parameter of a type."""

    async def handler(x: Any, y: int = 0) -> None: ...

    handler.__annotations__["x"] = kind
    return handler


@pytest.mark.parametrize(("kind", "value", "place"), CHECKED, ids=itertools.count())
def test_a_constraint_that_msgspec_does_not_know_is_checked_by_pydantic(kind: Any, value: Any, place: str) -> None:
    """Otherwise it would be ignored: -5 was accepted as a PositiveInt."""
    with pytest.raises(InvalidJob, match=re.escape(f"at `$.x{place}")):
        task(name="t")(handler_of(kind)).job(value)


@pytest.mark.parametrize(("kind", "name"), RULES_AS_DEFAULTS)
def test_a_rule_in_the_place_of_the_default_of_a_field_is_refused(kind: Any, name: str) -> None:
    """An object that a program makes would have the rule itself as its value."""
    said = rf"parameter 'x': the default FieldInfo\(.* of x\.{name} would not be checked; use Annotated"
    with pytest.raises(TaskError, match=said):
        task(name="t")(handler_of(kind))


def test_a_rule_in_the_place_of_a_default_is_refused() -> None:
    """The handler would get the rule itself as its value."""
    with pytest.raises(TaskError, match=r"parameter 'n': the default FieldInfo\(.* of n would not be checked"):

        @task
        async def handler(day: str, n: int = pydantic.Field(gt=0)) -> None: ...


ACCEPTED: list[Any] = [
    Annotated[int, "a number of things"],
    Annotated[int, 1, None, ("a", "b"), {"a": 1}],
    Annotated[int, Marker(), Marker],
    Annotated[int, typing_extensions.Doc("words")],
    Annotated[int, annotated_types.doc("words")],
    Annotated[int, msgspec.Meta(gt=0, description="words")],
    Annotated[int, msgspec.Meta(gt=0), "words"],
    list[Annotated[str, "words"]],
    Literal["a", "b"],
    Annotated[Literal["Gt"], "words"],
    Box[int],
    Any,
]


@pytest.mark.parametrize("kind", ACCEPTED, ids=itertools.count())
def test_metadata_that_constrains_nothing_is_accepted(kind: Any) -> None:
    """Texts, documentation and metadata of programs do not constrain values."""
    assert ["x", "y"] == [*task(name="t")(handler_of(kind)).signature._binder.parameters]


def test_annotations_of_the_context_and_of_the_return_value_are_no_constraints() -> None:
    """Neither is decoded from a payload."""

    @task
    async def handler(n: int, ctx: Annotated[Context, annotated_types.Gt(0)]) -> pydantic.PositiveInt:
        return n

    assert '{"n":-5}' == handler.job(-5).payload


def test_constraints_of_msgspec_meta_are_checked() -> None:
    """The error of unknown constraints suggests it."""

    @task
    async def handler(n: Annotated[int, msgspec.Meta(gt=0)]) -> None: ...

    with pytest.raises(Exception, match="Expected `int` >= 1"):
        handler.job(-5)


def test_the_arguments_of_a_handler_that_pydantic_calls_are_checked_at_the_add_too() -> None:
    """A wrong payload is an error of its producer."""

    @task
    @pydantic.validate_call
    async def handler(n: pydantic.PositiveInt, more: list[pydantic.PositiveInt] | None = None) -> int:
        return n

    args, _ = handler.signature.decode('{"n": 5}', None)

    with pytest.raises(StopIteration, match="5"):
        handler(*args).send(None)
    with pytest.raises(InvalidJob, match=r"greater than 0 - at `\$\.n`"):
        handler.job(-5)
