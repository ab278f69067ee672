"""Constraints of other libraries, which asyncq would not check, are refused at import."""

import dataclasses
import itertools
from collections.abc import Callable
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, TypedDict, TypeVar

import annotated_types
import fastapi
import msgspec
import pydantic
import pydantic.dataclasses
import pytest
import typing_extensions

from asyncq.domain.errors import TaskError
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
        return handler(source)


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


REFUSED: list[tuple[Any, str]] = [
    (Annotated[int, annotated_types.Gt(0)], r"Gt\(gt=0\) of x"),
    (Annotated[int, annotated_types.Interval(gt=0)], r"Interval\(gt=0.* of x"),
    (Annotated[str, annotated_types.Len(1, 5)], r"Len\(.* of x"),
    (Annotated[str, annotated_types.Predicate(str.islower)], r"Predicate\(.* of x"),
    (Annotated[int, msgspec.Meta(ge=0), annotated_types.Gt(0)], r"Gt\(gt=0\) of x"),
    (Annotated[int, Grouped()], ".*Grouped .* of x"),
    (Annotated[int, OwnSchema], ".*OwnSchema.* of x"),
    (Annotated[int, OwnSchema()], ".*OwnSchema.* of x"),
    (pydantic.PositiveInt, r"Gt\(gt=0\) of x"),
    (pydantic.StrictInt, r"Strict\(.* of x"),
    (pydantic.conint(gt=0), r"Interval\(gt=0.* of x"),
    (pydantic.constr(min_length=1), r"StringConstraints\(.* of x"),
    (pydantic.UUID4, r"UuidVersion\(.* of x"),
    (pydantic.Base64Bytes, r"EncodedBytes\(.* of x"),
    (Annotated[int, pydantic.Field(gt=0)], r"FieldInfo\(.* of x"),
    (Annotated[int, pydantic.AfterValidator(abs)], r"AfterValidator\(.* of x"),
    (Annotated[float, pydantic.AllowInfNan(False)], r"AllowInfNan\(.* of x"),  # noqa: FBT003
    (Annotated[int, fastapi.Query(gt=0)], r"Query\(.* of x"),
    (Positive | None, r"Gt\(gt=0\) of x"),
    (list[Positive], r"Gt\(gt=0\) of x"),
    (dict[str, tuple[Positive, ...]], r"Gt\(gt=0\) of x"),
    (Annotated[list[Positive], msgspec.Meta(min_length=1)], r"Gt\(gt=0\) of x"),
    (Id, r"Gt\(gt=0\) of x"),
    (Struct, r"Gt\(gt=0\) of x\.n"),
    (Deep, r"Gt\(gt=0\) of x\.structs\.n"),
    (Tree, r"Gt\(gt=0\) of x\.n"),
    (Box[Positive], r"Gt\(gt=0\) of x"),
    (Box[Struct], r"Gt\(gt=0\) of x\.n"),
    (StructWithField, r"the default FieldInfo\(.* of x\.n"),
    (Data, r"Gt\(gt=0\) of x\.n"),
    (list[Data], r"Gt\(gt=0\) of x\.n"),
    (DataWithField, r"the default FieldInfo\(.* of x\.n"),
    (PydanticData, "the pydantic class PydanticData of x"),
    (HoldsPydanticData, r"the pydantic class PydanticData of x\.data"),
    (Typed, r"Gt\(gt=0\) of x\.n"),
    (Named, r"Gt\(gt=0\) of x\.n"),
    (Box[Bounded], r"Gt\(gt=0\) of x"),
    (NamedWithField, r"the default FieldInfo\(.* of x\.n"),
]


def handler_of(kind: Any) -> Callable[..., Any]:
    """A handler with a parameter of a type."""

    async def handler(x: Any, y: int = 0) -> None: ...

    handler.__annotations__["x"] = kind
    return handler


@pytest.mark.parametrize(("kind", "said"), REFUSED, ids=itertools.count())
def test_a_constraint_that_msgspec_does_not_know_is_refused(kind: Any, said: str) -> None:
    """Otherwise it would be ignored: -5 was accepted as a PositiveInt."""
    with pytest.raises(
        TaskError, match=rf"task 't': parameter 'x': {said} would not be checked; use plain types and msgspec\.Meta"
    ):
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


def test_a_handler_that_pydantic_calls_checks_its_own_arguments() -> None:
    """Nothing is ignored: the job with -5 fails when it runs."""

    @task
    @pydantic.validate_call
    async def handler(n: pydantic.PositiveInt, more: list[pydantic.PositiveInt] | None = None) -> None: ...

    args, _ = handler.signature.decode('{"n": -5}', None)

    with pytest.raises(pydantic.ValidationError, match="greater than 0"):
        handler(*args).send(None)


def test_constraints_below_an_object_that_pydantic_does_not_check_are_refused() -> None:
    """It does not check objects of the class again."""

    @pydantic.validate_call
    async def handler(data: Data) -> None: ...

    with pytest.raises(TaskError, match=r"Gt\(gt=0\) of data\.n would not be checked"):
        task(handler)
