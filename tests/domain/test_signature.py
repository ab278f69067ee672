"""The signatures of handlers, and how a payload becomes the arguments of a call."""

# ruff: noqa: D103 - handlers, whose names say it

import dataclasses
import enum
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NewType, Optional, TypedDict, Union
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncq.domain.errors import InvalidJob, TaskError
from asyncq.domain.signature import Context, Signature, is_scalar

CTX = Context()


class Email(msgspec.Struct):
    to: str
    subject: str = "none"


class Options(msgspec.Struct):
    loud: bool = False


@dataclasses.dataclass
class Data:
    x: int


class Typed(TypedDict):
    x: int


class Named(NamedTuple):
    x: int


class Color(enum.Enum):
    RED = "red"


class Tree(msgspec.Struct):
    children: "list[Tree]"


UserId = NewType("UserId", int)
Payload = NewType("Payload", dict[str, int])


def call(handler: Callable[..., Any], payload: str) -> Any:
    """Call a handler with a payload, as a worker does."""
    args, kwargs = Signature(handler, "t").decode(payload, CTX)
    return handler(*args, **kwargs)


def encode(handler: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """The payload of a call, as an add makes it."""
    return Signature(handler, "t").encode_call(args, kwargs)


def invalid(handler: Callable[..., Any], *args: Any, **kwargs: Any) -> InvalidJob:
    """The error of an add for the arguments of a call."""
    with pytest.raises(InvalidJob) as caught:
        encode(handler, *args, **kwargs)
    return caught.value


# The forms. Each handler returns what it was given.

RICH = (datetime(2026, 11, 20, tzinfo=UTC), UUID(int=1), Decimal("1.10"))
EMAIL, EMAIL_JSON = Email("a@b.c"), '{"to":"a@b.c","subject":"none"}'
FORMS: list[tuple[Callable[..., Any], str, Any]] = []


def form(payload: str, expected: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Record a handler with a payload and the expected return value."""

    def note(handler: Callable[..., Any]) -> Callable[..., Any]:
        FORMS.append((handler, payload, expected))
        return handler

    return note


@form("{}", ())
def nothing() -> Any:
    return ()


@form("{}", CTX)
def context_alone(ctx: Context) -> Any:
    return ctx


@form(EMAIL_JSON, EMAIL)
def payload_alone(email: Email) -> Any:
    return email


@form(EMAIL_JSON, (EMAIL, CTX))
def payload_then_context(email: Email, ctx: Context) -> Any:
    return email, ctx


@form(EMAIL_JSON, (CTX, EMAIL))
def context_then_payload(ctx: Context, email: Email) -> Any:
    return ctx, email


@form(EMAIL_JSON, (EMAIL, CTX))
def payload_then_named_context(email: Email, *, ctx: Context) -> Any:
    return email, ctx


@form(EMAIL_JSON, (EMAIL, CTX))
def all_named(*, email: Email, ctx: Context) -> Any:
    return email, ctx


@form(EMAIL_JSON, (EMAIL, CTX))
def none_named(email: Email, ctx: Context, /) -> Any:
    return email, ctx


@form('{"day":"x"}', "x")
def one_field(day: str) -> Any:
    return day


@form('{"day":"x"}', ("x", CTX))
def one_field_then_context(day: str, ctx: Context) -> Any:
    return day, ctx


@form('{"day":"x","n":2}', ("x", 2))
def two_fields(day: str, n: int) -> Any:
    return day, n


@form('{"n":2,"day":"x"}', (CTX, "x", 2))
def context_then_fields(ctx: Context, day: str, n: int) -> Any:
    return ctx, day, n


@form('{"day":"x","n":2}', ("x", 2, CTX))
def fields_then_context(day: str, n: int, ctx: Context) -> Any:
    return day, n, ctx


@form('{"day":"x","n":2}', ("x", CTX, 2))
def context_in_the_middle(day: str, ctx: Context, n: int) -> Any:
    return day, ctx, n


@form('{"day":"x","n":2}', ("x", CTX, 2))
def fields_of_each_kind(day: str, /, ctx: Context, *, n: int) -> Any:
    return day, ctx, n


@form('{"day":"x","n":2}', ("x", 2))
def field_without_a_name(day: str, /, *, n: int) -> Any:
    return day, n


@form('{"email":' + EMAIL_JSON + ',"n":2}', (EMAIL, 2))
def a_struct_among_fields(email: Email, n: int) -> Any:
    return email, n


@form('{"day":"x"}', ("x", 1, None))
def defaults(day: str, n: int = 1, more: str | None = None) -> Any:
    return day, n, more


@form("[1,2]", [1, 2])
def a_list(numbers: list[int]) -> Any:
    return numbers


@form("[1]", [1])
def a_sequence(numbers: Sequence[int]) -> Any:
    return numbers


@form('{"a":1}', {"a": 1})
def a_dict(members: dict[str, int]) -> Any:
    return members


@form('{"x":1}', Data(1))
def a_dataclass(data: Data) -> Any:
    return data


@form('{"x":1}', {"x": 1})
def a_typed_dict(typed: Typed) -> Any:
    return typed


@form("[1]", Named(1))
def a_named_tuple(named: Named) -> Any:
    return named


@form('{"a":1}', {"a": 1})
def anything(payload: Any) -> Any:
    return payload


@form('{"a":1}', {"a": 1})
def an_object(payload: object) -> Any:
    return payload


@form('{"a":1}', ({"a": 1}, CTX))
def without_annotations(payload, ctx) -> Any:
    return payload, ctx


@form("null", None)
def an_optional_payload(email: Email | None) -> Any:
    return email


@form(EMAIL_JSON, EMAIL)
def a_spelled_out_optional(email: Optional[Email]) -> Any:  # noqa: UP045 - one of the forms
    return email


@form('{"n":null}', None)
def an_optional_field(n: Union[int, None]) -> Any:  # noqa: UP007 - one of the forms
    return n


@form('{"n":5}', 5)
def an_annotated_field(n: Annotated[int, msgspec.Meta(gt=0)]) -> Any:
    return n


@form('{"color":"red"}', Color.RED)
def an_enum_field(color: Color) -> Any:
    return color


@form('{"size":"s"}', "s")
def a_literal_field(size: Literal["s", "m"]) -> Any:
    return size


@form('{"user":5}', 5)
def a_new_type_field(user: UserId) -> Any:
    return user


@form('{"a":1}', {"a": 1})
def a_new_type_payload(payload: Payload) -> Any:
    return payload


@form('{"at":"2026-11-20T00:00:00Z","key":"00000000-0000-0000-0000-000000000001","price":"1.10"}', RICH)
def rich_scalars(at: datetime, key: UUID, price: Decimal) -> Any:
    return at, key, price


@form('{"children":[{"children":[]}]}', Tree([Tree([])]))
def a_recursive_struct(tree: Tree) -> Any:
    return tree


@pytest.mark.parametrize(("handler", "payload", "expected"), FORMS, ids=[handler.__name__ for handler, _, _ in FORMS])
def test_each_form_of_a_handler_is_called_as_it_is_written(
    handler: Callable[..., Any], payload: str, expected: Any
) -> None:
    """A single parameter that is no scalar is the payload; otherwise the parameters are its fields.

    The context is neither.
    """
    assert expected == call(handler, payload)


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (str, True),
        (int, True),
        (bytes, True),
        (bool, True),
        (date, True),
        (Color, True),
        (UserId, True),
        (int | None, True),
        (int | str, True),
        (Literal["a"] | None, True),
        (Annotated[int | None, msgspec.Meta(gt=0)], True),
        (Any, False),
        (object, False),
        (None, False),
        (dict, False),
        (list[int], False),
        (int | list[int], False),
        (Email, False),
        (Email | None, False),
        (Data, False),
        (Typed, False),
        (Named, False),
        (Mapping, False),
        (Sequence, False),
        (set[str], False),
        (tuple[int, str], False),
        (Payload, False),
        (Annotated[dict[str, int], "note"], False),
        (msgspec.Raw, False),
    ],
    ids=str,
)
def test_a_scalar_is_neither_object_nor_array(annotation: Any, expected: bool) -> None:
    """It decides whether `f(x: X)` reads `{"x": ...}` or the whole payload."""
    assert expected == is_scalar(annotation)


@pytest.mark.skipif(not hasattr(typing, "TypeAliasType"), reason="`type X = ...` came with Python 3.12")
def test_an_alias_counts_as_its_target() -> None:
    """`type Day = str` counts as str."""
    alias = typing.TypeAliasType  # pyright: ignore[reportAttributeAccessIssue]

    assert (True, False) == (is_scalar(alias("Day", str)), is_scalar(alias("Days", list[str])))


def test_the_context_is_found_in_a_subclass_and_in_a_union() -> None:
    """JobContext is one; and `ctx: JobContext | None = None` lets a test call the handler without one."""

    class Mine(Context):
        pass

    def subclass(x: int, mine: Mine) -> None: ...
    def union(x: int, ctx: Context | None = None) -> None: ...
    def annotated(x: int, ctx: Annotated[Context, "note"]) -> None: ...

    assert [True] * 3 == [Signature(handler, "t").takes_context for handler in (subclass, union, annotated)]


def test_a_parameter_called_ctx_with_a_type_of_its_own_is_a_field() -> None:
    """The name decides only without an annotation."""

    def handler(ctx: int) -> int:
        return ctx

    assert 5 == call(handler, '{"ctx":5}')


def test_two_contexts_are_refused() -> None:
    """One of them is a mistake."""

    def handler(a: Context, b: Context) -> None: ...

    with pytest.raises(TaskError, match="two parameters take the context: a and b"):
        Signature(handler, "t")


# Defaults


def test_a_missing_field_takes_the_default_of_the_handler_that_runs() -> None:
    """The default of the adding release does not count, since a deployment may have changed it."""
    assert '{"day":"x"}' == encode(defaults, "x")
    assert ("x", 1, None) == call(defaults, '{"day":"x"}')


def test_a_mutable_default_is_the_one_of_the_function() -> None:
    """The default behaves as in a plain Python call: the next job sees changes that a handler makes to it."""
    shared: list[int] = []

    def handler(day: str, numbers: list[int] = shared) -> list[int]:
        return numbers

    assert shared is call(handler, '{"day":"x"}')


def test_a_default_needs_no_json() -> None:
    """It is never sent."""
    marker = object()

    def handler(day: str, n: Any = marker) -> Any:
        return n

    assert '{"day":"x"}' == encode(handler, day="x")
    assert marker is call(handler, '{"day":"x"}')


def test_a_payload_that_was_left_out_is_its_default() -> None:
    """If `{}` is no valid payload, it means the default. `select asyncq.add_job('t')` sends it too."""
    mail = Email("default@b.c")

    def handler(email: Email = mail) -> Email:
        return email

    assert "{}" == encode(handler)
    assert mail is call(handler, "{}")


def test_an_empty_object_that_fits_is_the_payload() -> None:
    """The default is then sent, so that the two differ."""

    def handler(options: Options = Options(loud=True)) -> Options:  # noqa: B008 - the point
        return options

    assert '{"loud":true}' == encode(handler)
    assert [Options(loud=True), Options()] == [call(handler, '{"loud":true}'), call(handler, "{}")]


def test_a_payload_can_be_none_by_default() -> None:
    """An example is `f(items: list[int] | None = None)`."""

    def handler(items: list[int] | None = None) -> Any:
        return items

    assert [None, None, [1]] == [call(handler, payload) for payload in (encode(handler), "null", "[1]")]


# Payloads


def test_unknown_members_of_the_payload_are_ignored() -> None:
    """Old workers run jobs of new clients while a deploy is under way."""
    assert ("x", 2) == call(two_fields, '{"day":"x","n":2,"more":true}')
    assert EMAIL == call(payload_alone, '{"to":"a@b.c","more":1}')


@pytest.mark.parametrize(
    ("handler", "payload", "path"),
    [
        (two_fields, '{"day":"x","n":"2"}', "$.n"),
        (two_fields, '{"day":"x"}', "missing required field `n`"),
        (payload_alone, '{"to":5}', "$.to"),
        (a_list, '[1,"2"]', "$[1]"),
        (an_annotated_field, '{"n":0}', "$.n"),
        (a_literal_field, '{"size":"xl"}', "$.size"),
        (a_struct_among_fields, '{"email":{"to":null},"n":1}', "$.email.to"),
        (two_fields, "[]", "Expected `object`"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value))[:40],
)
def test_a_payload_that_does_not_fit_has_an_error_with_its_path(
    handler: Callable[..., Any], payload: str, path: str
) -> None:
    """It becomes the job's `last_error`."""
    with pytest.raises(msgspec.ValidationError) as caught:
        Signature(handler, "t").decode(payload, CTX)

    assert path in str(caught.value)


def test_a_handler_without_parameters_takes_any_payload() -> None:
    """It ignores it, as SQL callers may expect."""
    assert () == call(nothing, '{"a":1}')


# Adding


@pytest.mark.parametrize(
    ("handler", "args", "kwargs", "expected"),
    [
        (payload_alone, (EMAIL,), {}, EMAIL_JSON),
        (payload_alone, (), {"email": EMAIL}, EMAIL_JSON),
        (payload_alone, ({"to": "a@b.c"},), {}, '{"to":"a@b.c"}'),
        (payload_then_context, (EMAIL,), {}, EMAIL_JSON),
        (all_named, (), {"email": EMAIL}, EMAIL_JSON),
        (two_fields, ("x", 2), {}, '{"day":"x","n":2}'),
        (two_fields, ("x",), {"n": 2}, '{"day":"x","n":2}'),
        (two_fields, (), {"n": 2, "day": "x"}, '{"day":"x","n":2}'),
        (field_without_a_name, ("x",), {"n": 2}, '{"day":"x","n":2}'),
        (context_in_the_middle, ("x", 2), {}, '{"day":"x","n":2}'),
        (nothing, (), {}, "{}"),
        (context_alone, (), {}, "{}"),
        (a_list, ([1],), {}, "[1]"),
        (an_optional_payload, (None,), {}, "null"),
        (an_enum_field, (Color.RED,), {}, '{"color":"red"}'),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_call_becomes_a_payload(
    handler: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], expected: str
) -> None:
    """The context is left out; the fields have the order of the handler's parameters."""
    assert expected == encode(handler, *args, **kwargs)


@pytest.mark.parametrize(
    ("handler", "args", "kwargs", "said"),
    [
        (payload_alone, (), {}, "missing a required argument: 'email'"),
        (payload_alone, (EMAIL, EMAIL), {}, "too many positional arguments"),
        (payload_alone, ("a@b.c",), {}, "Expected `object`, got `str`"),
        (payload_alone, ({"to": 5},), {}, "Expected `str`, got `int` - at `$.to`"),
        (payload_then_context, (EMAIL, CTX), {}, "too many positional arguments"),
        (two_fields, ("x",), {}, "missing a required argument: 'n'"),
        (two_fields, ("x", 2, 3), {}, "too many positional arguments"),
        (two_fields, (), {"day": "x", "n": 2, "m": 3}, "there is no parameter 'm'; there are day, n"),
        (two_fields, ("x",), {"day": "x", "n": 2}, "multiple values for argument 'day'"),
        (two_fields, ("x", "2"), {}, "Expected `int`, got `str` - at `$.n`"),
        (fields_of_each_kind, ("x", 2), {}, "too many positional arguments"),
        (nothing, (1,), {}, "too many positional arguments"),
        (context_alone, (EMAIL,), {}, "too many positional arguments"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_call_that_does_not_fit_is_refused(
    handler: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], said: str
) -> None:
    """It is refused at the add, with the caller in the traceback, not hours later in the worker."""
    error = invalid(handler, *args, **kwargs)

    assert ("GWBPL", "payload") == (error.code, error.field)
    assert said in str(error)
    assert "payload of task 't': " in str(error)


def test_a_payload_above_the_limit_is_refused() -> None:
    """The client says the limit."""
    with pytest.raises(InvalidJob) as caught:
        Signature(one_field, "t").encode_call(("x" * 100,), {}, 50)

    assert (50, 110) == (caught.value.limit, caught.value.length)


def mixed(day: str, /, ctx: Context, n: int, *, more: str | None = None) -> Any:
    return day, ctx, n, more


MIXED = Signature(mixed, "t")


def optional(day: str, n: int = 1, *, more: str | None = None) -> None:
    """Take parameters with defaults, which an add may leave out."""


def named(day: str, *, n: int) -> None:
    """One parameter has to be named."""


def test_arguments_without_names_are_those_of_the_same_parameters() -> None:
    """Most calls name none, and are not bound by `inspect`."""
    calls = [
        (optional, ("d",), {"day": "d"}),
        (optional, ("d", 2), {"day": "d", "n": 2}),
        (lambda ctx, day, n: None, ("d", 2), {"day": "d", "n": 2}),
        (lambda day, ctx, n: None, ("d", 2), {"day": "d", "n": 2}),
    ]
    for handler, args, kwargs in calls:
        assert encode(handler, **kwargs) == encode(handler, *args)
    for handler, args, said in [
        (optional, (), "missing a required"),
        (optional, ("d", 1, "m"), "too many"),
        (named, ("d",), "missing a required"),
        (named, ("d", 1), "too many"),
        (mixed, ("d",), "missing a required"),
    ]:
        assert f"payload of task 't': {said}" in str(invalid(handler, *args))


@given(
    st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    st.integers(),
    st.none() | st.text(alphabet="ab"),
)
def test_the_arguments_of_a_call_are_restored(day: str, n: int, more: str | None) -> None:
    """They pass through JSON and the decoder, in each kind of parameter."""

    payload = MIXED.encode_call((day, n), {"more": more})
    args, kwargs = MIXED.decode(payload, CTX)

    assert (day, CTX, n, more) == mixed(*args, **kwargs)
