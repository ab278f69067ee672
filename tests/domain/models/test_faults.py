"""What pydantic would not read as it wrote it is refused when the task is made."""

import dataclasses
import warnings
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypedDict

import msgspec
import pydantic
import pydantic.dataclasses
import pytest

from asyncq.domain.errors import TaskError
from asyncq.domain.task import Task, task

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import pydantic.v1
    import pydantic.v1.dataclasses


class Secret(pydantic.BaseModel):
    password: pydantic.SecretStr


class SecretPart(pydantic.BaseModel):
    inner: list[Secret] | None = None


class SecretBytes(pydantic.BaseModel):
    key: pydantic.SecretBytes = pydantic.SecretBytes(b"")


class SecretInt(pydantic.BaseModel):
    pin: pydantic.Secret[int]


class SecretStruct(msgspec.Struct):
    password: pydantic.SecretStr


class WithSerializer(pydantic.BaseModel):
    password: pydantic.SecretStr

    @pydantic.field_serializer("password", when_used="json")
    def plain(self, value: pydantic.SecretStr) -> str:
        """What is stored."""
        return value.get_secret_value()


Plain = Annotated[pydantic.SecretStr, pydantic.PlainSerializer(lambda value: value.get_secret_value())]


class WithAnnotated(pydantic.BaseModel):
    password: Plain


class WithModelSerializer(pydantic.BaseModel):
    password: pydantic.SecretStr

    @pydantic.model_serializer
    def plain(self) -> dict[str, str]:
        """What is stored."""
        return {"password": self.password.get_secret_value()}


class Validation(pydantic.BaseModel):
    item: str = pydantic.Field(validation_alias="Item")


class Serialization(pydantic.BaseModel):
    item: str = pydantic.Field(serialization_alias="Item")


class Both(pydantic.BaseModel):
    item: str = pydantic.Field(validation_alias="Item", serialization_alias="thing")


class Path(pydantic.BaseModel):
    item: str = pydantic.Field(validation_alias=pydantic.AliasPath("items", 0))


class OnlyNames(pydantic.BaseModel, validate_by_name=True, validate_by_alias=False):
    item: str = pydantic.Field(alias="Item")


class ByName(pydantic.BaseModel, populate_by_name=True):
    item: str = pydantic.Field(validation_alias="Item")


class Equal(pydantic.BaseModel):
    item: str = pydantic.Field(validation_alias="Item", serialization_alias="Item")


class Choices(pydantic.BaseModel):
    item: str = pydantic.Field(validation_alias=pydantic.AliasChoices("thing", "item"))


class Generated(pydantic.BaseModel, alias_generator=str.upper):
    item: str


class GeneratedTwo(
    pydantic.BaseModel,
    alias_generator=pydantic.AliasGenerator(validation_alias=str.upper, serialization_alias=str.title),
):
    item: str


class Excluded(pydantic.BaseModel):
    item: str = pydantic.Field(exclude=True)


class ExcludedDefault(pydantic.BaseModel):
    item: str = pydantic.Field(default="none", exclude=True)


class ExcludedChecked(pydantic.BaseModel):
    item: Annotated[str, pydantic.AfterValidator(str.lower)] = pydantic.Field(default="none", exclude=True)


class Bytes(pydantic.BaseModel, ser_json_bytes="base64"):
    data: bytes


class SameBytes(pydantic.BaseModel, ser_json_bytes="base64", val_json_bytes="base64"):
    data: bytes


@pydantic.dataclasses.dataclass
class ExcludedData:
    item: str = pydantic.Field(exclude=True)


@pydantic.dataclasses.dataclass
class Init:
    item: dataclasses.InitVar[str]


@pydantic.dataclasses.dataclass
class AliasData:
    item: str = pydantic.Field(validation_alias="Item")


class AliasDict(TypedDict):
    item: Annotated[str, pydantic.Field(serialization_alias="Item")]


class Old(pydantic.v1.BaseModel):
    item: str


@pydantic.v1.dataclasses.dataclass
class OldData:
    item: str


class HoldsOld(pydantic.BaseModel):
    old: Any = None


class Later(pydantic.BaseModel):
    other: "NotDefined"  # type: ignore[name-defined]  # noqa: F821 - it is never defined


class Struct(msgspec.Struct):
    n: int


class Arbitrary(pydantic.BaseModel, arbitrary_types_allowed=True):
    struct: Struct | None = None


class WithClass(pydantic.BaseModel):
    kind: type[Secret]


class Lazy(pydantic.BaseModel):
    items: Iterable[int]


class Recursive(pydantic.BaseModel):
    password: pydantic.SecretStr
    children: list["Recursive"] = []


@dataclasses.dataclass
class FieldDefault:
    n: int = pydantic.Field(default=1, gt=0)


def handler_of(kind: Any) -> Task[...]:
    """A task whose only parameter has a type."""

    async def handler(x: Any) -> None: ...

    handler.__annotations__["x"] = kind
    return task(handler)


def refused(kind: Any) -> str:
    """The error of a type."""
    with pytest.raises(TaskError) as caught:
        handler_of(kind)
    said = str(caught.value)
    assert said.startswith("task 'handler': parameter 'x'")
    return said


SECRET = "is a secret, which pydantic writes as asterisks; give it a serializer"
REFUSED: list[tuple[Any, str]] = [
    (Secret, f"field 'password' of Secret {SECRET}"),
    (list[Secret], f"field 'password' of Secret {SECRET}"),
    (Secret | None, f"field 'password' of Secret {SECRET}"),
    (SecretPart, f"field 'password' of Secret {SECRET}"),
    (SecretBytes, f"field 'key' of SecretBytes {SECRET}"),
    (SecretInt, f"field 'pin' of SecretInt {SECRET}"),
    (SecretStruct, f"field 'password' of SecretStruct {SECRET}"),
    (Recursive, f"field 'password' of Recursive {SECRET}"),
    (pydantic.SecretStr, f"a value {SECRET}"),
    (Validation, "field 'item' of Validation is written as 'item', but read as 'Item'; give both one name by alias="),
    (Serialization, "field 'item' of Serialization is written as 'Item', but read as 'item'"),
    (Both, "field 'item' of Both is written as 'thing', but read as 'Item'"),
    (Path, "field 'item' of Path is written as 'item', but read as a path"),
    (OnlyNames, "field 'item' of OnlyNames is written as 'Item', but read as 'item'"),
    (GeneratedTwo, "field 'item' of GeneratedTwo is written as 'Item', but read as 'ITEM'"),
    (AliasData, "field 'item' of AliasData is written as 'item', but read as 'Item'"),
    (AliasDict, "serialization_alias= of field 'item' of AliasDict is for models of pydantic only"),
    (Excluded, "field 'item' of Excluded is required, but exclude=True leaves it out; give it a default"),
    (ExcludedData, "field 'item' of ExcludedData is required, but exclude=True leaves it out"),
    (Init, "field 'item' of Init is required, but an InitVar is not written; give it a default"),
    (
        Bytes,
        "field 'data' of Bytes is written and read differently: set ser_json_bytes and val_json_bytes to one value",
    ),
    (Old, "Old is a model of pydantic.v1, which pydantic 2 does not read; make it a model of pydantic 2"),
    (list[Old], "Old is a model of pydantic.v1"),
    (OldData, "OldData is a model of pydantic.v1"),
    (Later, "is not fully defined"),
    (Arbitrary, "field 'struct' of Arbitrary is an object that pydantic does not read from JSON"),
    (WithClass, "field 'kind' of WithClass is an object that pydantic does not read from JSON"),
    (Lazy, "field 'items' of Lazy is an Iterable, which pydantic checks only when the handler iterates"),
    (FieldDefault, "the default FieldInfo("),
]


@pytest.mark.parametrize(("kind", "said"), REFUSED, ids=str)
def test_a_type_that_cannot_make_the_round_trip_is_refused_with_a_sentence(kind: Any, said: str) -> None:
    """It names the field, and what to do."""
    found = refused(kind)

    assert said in found
    assert "\n" not in found


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        (WithSerializer, lambda: WithSerializer(password=pydantic.SecretStr("x"))),
        (WithAnnotated, lambda: WithAnnotated(password=pydantic.SecretStr("x"))),
        (WithModelSerializer, lambda: WithModelSerializer(password=pydantic.SecretStr("x"))),
        (ByName, lambda: ByName(item="x")),
        (Equal, lambda: Equal(Item="x")),
        (Choices, lambda: Choices(item="x")),
        (Generated, lambda: Generated(ITEM="x")),
        (ExcludedDefault, ExcludedDefault),
        (ExcludedChecked, ExcludedChecked),
        (SameBytes, lambda: SameBytes(data=b"\xff")),
    ],
)
def test_a_type_that_makes_the_round_trip_is_accepted(kind: Any, make: Callable[[], Any]) -> None:
    """Each is like one that is refused, with the correction that the error suggests."""
    known = handler_of(kind)

    assert make() == known.signature.decode(known.job(make()).payload, None)[0][0]


def test_a_model_of_pydantic_v1_in_a_field_is_refused() -> None:
    """pydantic 2 only warns about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = pydantic.create_model("Model", old=(Old, ...))

    assert "Old is a model of pydantic.v1" in refused(model)
