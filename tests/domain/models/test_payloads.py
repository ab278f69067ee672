"""Types of pydantic as payloads and as parameters: what is stored, what a handler receives, what an add refuses."""

# ruff: noqa: D103 - handlers, whose names say it

import math
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
import pydantic
import pydantic.dataclasses
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncq.domain.cron.item import CronItem, parse_cron_items
from asyncq.domain.errors import InvalidCrontab, InvalidJob
from asyncq.domain.models.adapter import Adapter
from asyncq.domain.signature import Context
from asyncq.domain.task import Task, task

CTX = Context()


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


class Line(pydantic.BaseModel):
    name: str
    price: Decimal = Decimal("1.50")


class Order(pydantic.BaseModel):
    id: UUID = UUID(int=7)
    item: str = pydantic.Field(alias="Item", min_length=1)
    count: pydantic.PositiveInt = 1
    weight: float | None = None
    lines: list[Line] = []

    @pydantic.computed_field
    @property
    def total(self) -> Decimal:
        """A computed field is written by pydantic, and not read."""
        return sum((line.price for line in self.lines), Decimal())


class LoudOrder(Order):
    volume: int = 11


class SameOrder(Order):
    """A subclass with no field of its own."""


class Strict(pydantic.BaseModel, extra="forbid"):
    name: str


class Open(pydantic.BaseModel, extra="allow"):
    name: str


@pydantic.dataclasses.dataclass
class Point:
    x: pydantic.PositiveInt
    when: datetime = datetime(2030, 1, 1, tzinfo=UTC)


@pydantic.dataclasses.dataclass
class Deep(Point):
    z: int = 0


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"
    loud: bool = True


Pet = Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]


@task
async def confirm(order: Order, ctx: Context) -> None: ...


@task
async def refund(order: Order, amount: Annotated[Decimal, pydantic.Field(gt=0)], note: str = "") -> None: ...


def handler_of(kind: Any) -> Task[...]:
    """A task whose only parameter has a type."""

    async def handler(x: Any) -> None: ...

    handler.__annotations__["x"] = kind
    return task(handler)


def stored(known: Task[...], *args: Any, **kwargs: Any) -> Any:
    """The stored payload of a job."""
    return msgspec.json.decode(known.job(*args, **kwargs).payload)


def received(known: Task[...], payload: Any) -> Any:
    """The first argument of the handler for a stored payload."""
    text = payload if isinstance(payload, str) else msgspec.json.encode(payload).decode()
    return known.signature.decode(text, CTX)[0][0]


def again(kind: Any, value: Any) -> Any:
    """A value as the handler receives it."""
    known = handler_of(kind)
    return received(known, known.job(value).payload)


def refused(known: Task[...], *args: Any, **kwargs: Any) -> str:
    """The error of a payload that does not fit."""
    with pytest.raises(InvalidJob) as caught:
        known.job(*args, **kwargs)
    assert "GWBPL" == caught.value.code
    return str(caught.value)


def test_a_model_is_stored_by_alias_and_without_computed_fields() -> None:
    """This is what the same model reads: round_trip=True leaves computed fields out."""
    lines = [{"name": "a", "price": "1.50"}]
    expected = {"id": str(UUID(int=7)), "Item": "tea", "count": 2, "weight": None, "lines": lines}

    assert expected == stored(confirm, Order(Item="tea", count=2, lines=[Line(name="a")]))


def test_a_handler_receives_an_equal_model() -> None:
    """All values keep their types: Decimal, UUID, nested models."""
    order = Order(Item="tea", count=2, weight=0.1, lines=[Line(name="a", price=Decimal("2.10"))])

    args, _ = confirm.signature.decode(confirm.job(order).payload, CTX)

    assert (order, CTX) == args
    assert type(args[0].lines[0].price) is Decimal


def test_a_payload_is_checked_by_pydantic_when_it_is_added_and_when_it_is_read() -> None:
    """The error has the path of the field, and not its value: messages are logged."""
    said = refused(confirm, {"Item": "tea", "lines": [{"name": "a"}, {"name": 5}]})

    with pytest.raises(msgspec.ValidationError) as caught:
        confirm.signature.decode('{"Item":"tea","count":-5771}', CTX)

    assert "payload of task 'confirm': Input should be a valid string - at `$.lines[1].name`" == said
    assert "Input should be greater than 0 - at `$.count`" == str(caught.value)
    assert caught.value.__cause__ is None


def test_all_that_does_not_fit_is_named_up_to_three() -> None:
    """One attempt tells a user what to correct."""
    said = refused(confirm, {"Item": "", "count": 0, "weight": "x", "id": 1, "lines": 1})

    assert 3 == said.count(" - at `$.")
    assert said.endswith("; and 2 more")


def test_an_instance_that_was_changed_is_checked() -> None:
    """pydantic does not check assignments unless it is asked to."""
    order = Order(Item="tea")
    order.count = -1
    wrong = Point(1)
    wrong.x = "x"  # type: ignore[assignment]

    assert "at `$.count`" in refused(confirm, order)
    assert "at `$.x`" in refused(handler_of(Point), wrong)


def test_a_dict_with_the_same_json_is_accepted() -> None:
    """As with a msgspec.Struct; its members are named by alias."""
    assert {"Item": "tea", "lines": [{"name": "a", "price": "1.50"}]} == stored(
        confirm, {"Item": "tea", "lines": [Line(name="a")]}
    )


def test_a_field_that_the_model_does_not_have_is_refused_at_the_add_and_ignored_by_the_worker() -> None:
    """A producer has a typing error; a worker may be older than the producer."""
    said = refused(confirm, {"Item": "tea", "cuont": 2})

    assert said == "payload of task 'confirm': there is no field 'cuont'; did you mean 'count'?"
    assert 1 == received(confirm, {"Item": "tea", "cuont": 2}).count


def test_a_model_that_forbids_extra_fields_refuses_them_in_the_worker_too() -> None:
    """The model's word wins over lenient running."""
    with pytest.raises(msgspec.ValidationError, match=r"Extra inputs are not permitted - at `\$\.more`"):
        received(handler_of(Strict), {"name": "a", "more": 1})


def test_a_model_that_allows_extra_fields_keeps_them() -> None:
    """The add refuses none of them, and the handler receives them."""
    model = Open(name="a", more=[1])  # type: ignore[call-arg]

    assert model == again(Open, model)
    assert {"name": "a", "more": 1} == stored(handler_of(Open), {"name": "a", "more": 1})


def test_parameters_of_both_libraries_are_fields_of_one_payload() -> None:
    """Each library reads its own, and errors have the path in the payload."""
    known = {"order": Order(Item="tea").model_dump(mode="json", by_alias=True, round_trip=True), "amount": "1.50"}

    assert known | {"note": "x"} == stored(refund, Order(Item="tea"), Decimal("1.50"), "x")
    assert known == stored(refund, amount=Decimal("1.50"), order=Order(Item="tea"))
    args, _ = refund.signature.decode(msgspec.json.encode(known).decode(), None)
    assert (Order(Item="tea"), Decimal("1.50"), "") == args
    assert "greater than 0 - at `$.amount`" in refused(refund, Order(Item="tea"), Decimal(-1))
    assert "greater than 0 - at `$.order.count`" in refused(refund, {"Item": "a", "count": 0}, Decimal(1))
    assert "Expected `str`, got `int` - at `$.note`" in refused(refund, Order(Item="tea"), Decimal(1), 5)
    assert "missing a required argument: 'amount'" in refused(refund, Order(Item="tea"))


def test_a_parameter_that_is_not_given_has_its_default() -> None:
    """It is the default itself, which is not stored."""
    default = Order(Item="tea")

    async def handler(
        day: str, order: Order = default, n: pydantic.PositiveInt = 1, *, m: pydantic.PositiveInt
    ) -> None: ...

    known = task(handler)

    assert {"day": "x", "m": 2} == stored(known, "x", m=2)
    args, named = known.signature.decode('{"day":"x","m":2}', None)
    assert args[1] is default
    assert (("x", default, 1), {"m": 2}) == (args, named)


def test_a_whole_payload_may_have_a_default() -> None:
    """The empty payload means the default, if the model does not accept it."""
    default = Order(Item="tea")

    async def handler(order: Order = default) -> None: ...

    known = task(handler)

    assert {} == stored(known)
    assert received(known, "{}") is default


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Point, Point(3)),
        (Order | None, None),
        (Order | None, Order(Item="tea")),
        (list[Order], [Order(Item="tea")]),
        (dict[str, Point], {"a": Point(1)}),
        (dict[int, Line], {5: Line(name="a")}),
        (tuple[Point, Line], (Point(1), Line(name="a"))),
        (Pet, Dog(loud=False)),
        (list[Pet], [Cat(lives=1), Dog()]),
        (Cat | Point, Point(1)),
        (pydantic.RootModel[list[int]], pydantic.RootModel[list[int]]([1, 2])),
        (pydantic.RootModel[int], pydantic.RootModel[int](5)),
        (Annotated[list[int], pydantic.Field(min_length=1)], [1]),
        (Annotated[Order, pydantic.Field(description="words")], Order(Item="tea")),
        (pydantic.PositiveInt, 5),
        (pydantic.HttpUrl, pydantic.HttpUrl("https://example.org/a")),
        (pydantic.AwareDatetime, datetime(2030, 1, 1, tzinfo=UTC)),
        (pydantic.Json[list[int]], [1, 2]),
        (Annotated[timedelta, pydantic.Field(gt=timedelta())], timedelta(days=1, microseconds=5)),
        (Annotated[Size, pydantic.Field(description="words")], Size.LARGE),
        (Annotated[bytes, pydantic.Field(min_length=1)], "ä".encode()),
        (pydantic.Base64Bytes, b"\xff\x00"),
    ],
    ids=str,
)
def test_types_that_pydantic_can_adapt_make_the_round_trip(kind: Any, value: Any) -> None:
    """As a whole payload, or, if they are scalars, as a parameter."""
    assert value == again(kind, value)


def test_a_number_that_json_lacks_is_refused_at_the_add() -> None:
    """pydantic would write null, which is another valid value of an optional field."""
    assert (
        refused(confirm, Order(Item="tea", weight=math.nan))
        == "payload holds NaN or Infinity at $.weight, which JSON lacks"
    )
    assert "at $.lines[0].price" in refused(
        confirm, Order(Item="tea", lines=[Line.model_construct(name="a", price=Decimal("Infinity"))])
    )
    assert "at $.amount" in refused(refund, Order(Item="tea"), Decimal("NaN"))
    assert "at $.more" in refused(handler_of(Open), Open(name="a", more=math.inf))  # type: ignore[call-arg]
    assert "at $.weight" in refused(confirm, {"Item": "tea", "weight": "NaN"})


class Constants(pydantic.BaseModel, ser_json_inf_nan="constants"):
    x: float


class Strings(pydantic.BaseModel, ser_json_inf_nan="strings"):
    x: float


@pytest.mark.parametrize("model", [Constants, Strings])
def test_a_setting_of_the_model_for_such_numbers_changes_nothing(model: Any) -> None:
    """Other languages that read the payload have no such numbers either."""
    assert "NaN or Infinity at $.x" in refused(handler_of(model), model(x=-math.inf))


def test_a_subclass_whose_fields_would_be_lost_is_refused() -> None:
    """pydantic writes the fields of the annotated class only, without a warning."""
    said = "field 'volume' at $: LoudOrder is read as Order; annotate the subclass, or a union with it"

    assert f"payload would lose {said}" == refused(confirm, LoudOrder(Item="tea"))
    assert "'volume' at $.order:" in refused(refund, LoudOrder(Item="tea"), Decimal(1))
    assert "'volume' at $[1]:" in refused(handler_of(list[Order]), [Order(Item="a"), LoudOrder(Item="a")])
    assert "'z' at $.a:" in refused(handler_of(dict[str, Point]), {"a": Deep(1)})
    assert "'volume' at $:" in refused(handler_of(Order | None), LoudOrder(Item="a"))
    assert "'title' at $[...]:" in refused(handler_of(set[Base]), {Base(name="a"), Named(name="b")})
    assert "'more' at $:" in refused(handler_of(Base), Extra(name="a", more=1))  # type: ignore[call-arg]


class Base(pydantic.BaseModel, frozen=True):
    name: str


class Named(Base, frozen=True):
    title: str = ""


class Extra(Base, extra="allow"):
    pass


def test_a_subclass_that_loses_nothing_is_accepted() -> None:
    """The handler receives the class of its annotation, or the member of the union."""
    assert Order(Item="tea") == received(confirm, confirm.job(SameOrder(Item="tea")).payload)
    assert LoudOrder(Item="tea") == again(LoudOrder | Order, LoudOrder(Item="tea"))
    assert {Base(name="a"), Base(name="b")} == again(set[Base], {Base(name="a"), Base(name="b")})


def test_a_validator_may_make_a_value_of_another_kind() -> None:
    """Then nothing is lost: the program wants it so."""
    known = handler_of(Annotated[Base, pydantic.AfterValidator(lambda base: base.name)])

    assert "a" == received(known, known.job(Named(name="a")).payload)


def test_a_model_in_a_payload_of_another_type_is_written_by_pydantic() -> None:
    """A dict takes any object. The same rules hold for the model."""
    known = handler_of(dict[str, Any])

    assert {"order": {"name": "a", "price": "1.50"}} == stored(known, {"order": Line(name="a")})
    assert "$.order" in refused(known, {"order": Open(name="a", more=math.nan)})  # type: ignore[call-arg]
    assert "would lose field 'volume' at $.order" in refused(known, {"x": Holder(order=LoudOrder(Item="a"))})
    assert "is a secret" in refused(known, {"x": pydantic.SecretStr("x")})
    assert "valid decimal" in refused(known, {"x": Line.model_construct(name="a", price="b")})  # type: ignore[arg-type]


class Holder(pydantic.BaseModel):
    order: Order


class Tags(pydantic.BaseModel):
    names: set[str] = pydantic.Field(default=set(), alias="Names")
    groups: list[frozenset[int]] = []


class TagsByName(msgspec.Struct, rename="camel"):
    tags_by_name: dict[int, tuple[Tags, ...]]


def test_the_items_of_a_set_are_sorted() -> None:
    """Their order in memory differs between processes, and unique jobs compare payloads."""
    names = {f"name {n}" for n in range(50)}

    expected = {"Names": sorted(names), "groups": [[1, 32, 64]]}
    tags = Tags(Names=names, groups=[frozenset({64, 1, 32})])

    assert expected == stored(handler_of(Tags), tags)
    assert {"a": expected} == stored(handler_of(dict[str, Tags]), {"a": tags})
    assert {"tagsByName": {"1": [expected]}} == stored(handler_of(TagsByName), TagsByName({1: (tags,)}))
    assert sorted(names) == stored(handler_of(pydantic.RootModel[set[str]]), pydantic.RootModel[set[str]](names))


def test_a_value_that_pydantic_cannot_write_is_refused() -> None:
    """The error has pydantic's reason."""
    assert "payload cannot be written as JSON: " in refused(handler_of(Open), Open(name="a", more=object()))  # type: ignore[call-arg]
    assert "invalid utf-8" in refused(handler_of(Blob), Blob(data=b"\xff"))
    assert "cannot store" in refused(confirm, Order(Item="\0"))
    assert "surrogates" in refused(confirm, Order.model_construct(item="\ud800"))


class Blob(pydantic.BaseModel):
    data: bytes


def test_a_payload_has_at_most_the_allowed_size() -> None:
    """The limit is that of all payloads."""
    with pytest.raises(InvalidJob, match="at most 100 are allowed"):
        confirm.signature.encode_call((Order(Item="x" * 100),), {}, 100)
    with pytest.raises(InvalidJob, match="at most 200 are allowed"):
        refund.signature.encode_call((Order(Item="x" * 100), Decimal(1)), {}, 200)


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@given(
    st.builds(
        Order,
        Item=names,
        id=st.uuids(),
        count=st.integers(1, 2**60),
        weight=st.none() | st.floats(allow_nan=False, allow_infinity=False),
        lines=st.lists(st.builds(Line, name=names, price=st.decimals(allow_nan=False, allow_infinity=False))),
    )
)
def test_what_is_read_is_what_was_written(order: Order) -> None:
    """For any values of the fields."""
    assert order == again(Order, order)


PROGRAM = """
import dataclasses, sys
from typing import Annotated, Any, TypedDict
import msgspec, asyncq, asyncq.testing
from asyncq.domain.adding import make_spec

class Email(msgspec.Struct):
    to: Annotated[str, msgspec.Meta(min_length=1)]

@dataclasses.dataclass
class Data:
    n: int

class Row(TypedDict):
    n: int

@asyncq.task
async def send(email: Email) -> None: ...
@asyncq.task
async def plot(data: Data, row: Row, more: list[Any]) -> None: ...

send.signature.decode(send.job(Email("a")).payload, None)
plot.signature.decode(plot.job(Data(1), {"n": 1}, []).payload, None)
try:
    send.job({"to": ""})
except asyncq.InvalidJob:
    pass
try:
    send.job(object())
except asyncq.InvalidJob:
    pass
assert not [name for name in sys.modules if name.partition(".")[0].startswith("pydantic")]
"""


def test_a_program_without_pydantic_does_not_import_it() -> None:
    """It is no dependency: it is found in `sys.modules`."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)

    assert (0, "") == (done.returncode, done.stderr)


UNCHECKED = """
import annotated_types, typing
import asyncq

try:
    @asyncq.task
    async def handler(x: typing.Annotated[int, annotated_types.Gt(0)]) -> None: ...
except asyncq.TaskError as error:
    print(error)
"""


def test_a_constraint_is_refused_if_pydantic_is_not_imported() -> None:
    """Nothing would check it."""
    done = subprocess.run([sys.executable, "-c", UNCHECKED], capture_output=True, text=True)

    assert (
        "task 'handler': parameter 'x': Gt(gt=0) of x would not be checked, because pydantic is not imported; import "
        "it, or use msgspec.Meta, as in Annotated[int, msgspec.Meta(gt=0)]\n"
    ) == done.stdout


Hidden = Annotated[pydantic.SecretStr, pydantic.PlainSerializer(lambda value: value.get_secret_value())]


def test_a_value_that_is_json_already_needs_no_serializer_of_the_program() -> None:
    """An add by name, and a recurring item, have the JSON, and not the type."""
    known = handler_of(Hidden)

    assert {"x": "a"} == stored(known, "a") == stored(known, pydantic.SecretStr("a"))


def test_a_recurring_item_has_such_a_payload() -> None:
    """Its members are checked by pydantic when the item is made; each of its jobs gets a member more."""
    item = CronItem(refund, "* * * * *", payload={"order": Order(Item="tea"), "amount": 5})

    parse_cron_items([item])

    with pytest.raises(InvalidCrontab, match=r"greater than 0 - at `\$\.amount`"):
        CronItem(refund, "* * * * *", payload={"order": Order(Item="tea"), "amount": -5})


def test_the_error_of_another_value_than_a_payload_names_it() -> None:
    """Results are written by the same rules."""
    adapter = Adapter(Base)

    with pytest.raises(InvalidJob, match=r"^result would lose field 'title' at \$: ") as caught:
        adapter.encode(Named(name="a"), field="result")

    assert "result" == caught.value.field
