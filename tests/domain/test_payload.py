"""Values that become JSON text, and values that JSON or PostgreSQL cannot hold."""

import dataclasses
import enum
import json
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel

from asyncq.domain.errors import InvalidJob
from asyncq.domain.payload import DEFAULT_MAX_PAYLOAD, check_text, encode
from tests.support.ids import written


class Model(BaseModel):
    name: str


class Point(msgspec.Struct):
    x: float
    y: Any = None


class Renamed(msgspec.Struct, rename="camel", omit_defaults=True):
    first_name: float = 0.0


@dataclasses.dataclass
class Data:
    x: float
    y: Any = None


class Attrs:
    """A class like those of attrs, which is not installed: msgspec recognizes them by this mark."""

    @dataclasses.dataclass
    class Attribute:
        name: str

    __attrs_attrs__ = (Attribute("x"), Attribute("y"))

    def __init__(self, x: float, y: Any = None) -> None:
        self.x, self.y = x, y


class Level(enum.Enum):
    LOW = 1
    NAN = math.nan


class Missing:
    """Nothing that msgspec encodes."""


def refusal(value: Any, **options: Any) -> InvalidJob:
    """The error of the encoder for a value."""
    with pytest.raises(InvalidJob) as caught:
        encode(value, **options)
    return caught.value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, "{}"),
        ([], "[]"),
        (None, "null"),
        (5, "5"),
        ("x", '"x"'),
        ({"a": None, "b": [True, 1.5, "ü"]}, '{"a":null,"b":[true,1.5,"ü"]}'),
        (Point(1.0), '{"x":1.0,"y":null}'),
        (Renamed(2.5), '{"firstName":2.5}'),
        (Data(1.0, y=[Data(2.0)]), '{"x":1.0,"y":[{"x":2.0,"y":null}]}'),
        ((1, 2), "[1,2]"),
        ({3}, "[3]"),
        (frozenset({"a"}), '["a"]'),
        ({1: "a"}, '{"1":"a"}'),
        (datetime(2026, 11, 20, tzinfo=UTC), '"2026-11-20T00:00:00Z"'),
        (date(2026, 11, 20), '"2026-11-20"'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (Decimal("1.10"), '"1.10"'),
        (b"\x00\xff", '"AP8="'),
        (Level.LOW, "1"),
        (10**30, "1" + "0" * 30),
        (msgspec.Raw(b'{"ready": true}'), '{"ready": true}'),
    ],
    ids=written,
)
def test_any_value_that_msgspec_encodes_is_a_payload(value: Any, expected: str) -> None:
    """These are structs, dataclasses, plain containers, times, UUIDs, and raw JSON."""
    assert expected == encode(value)


NOT_FINITE: list[tuple[Any, str]] = [
    (math.nan, "$"),
    (math.inf, "$"),
    (-math.inf, "$"),
    ({"a": math.nan}, "$.a"),
    ({"a": {"b": [0.0, math.inf]}}, "$.a.b[1]"),
    ([None, math.nan], "$[1]"),
    ((1.0, (math.nan,)), "$[1][0]"),
    ({math.nan}, "$[0]"),
    (frozenset({math.inf}), "$[0]"),
    (Point(math.nan), "$.x"),
    (Point(1.0, y=Point(math.inf)), "$.y.x"),
    (Renamed(math.nan), "$.first_name"),
    (Data(1.0, y={"k": math.nan}), "$.y.k"),
    (Level.NAN, "$"),
    ({"level": Level.NAN}, "$.level"),
]


@pytest.mark.parametrize(("value", "path"), NOT_FINITE, ids=repr)
def test_nan_and_infinity_are_refused_with_their_path(value: Any, path: str) -> None:
    """They would silently be stored as null, and the handler would find None instead of a number."""
    error = refusal(value)

    assert ("GWBPL", f"payload holds NaN or Infinity at {path}, which JSON lacks") == (error.code, str(error))


def nested(depth: int, inner: Any) -> Any:
    """A value within so many lists."""
    for _ in range(depth):
        inner = [inner]
    return inner


def test_a_null_may_lie_deep() -> None:
    """The check for nulls must reach as deep as the encoder."""
    assert "[" * 400 + "null" + "]" * 400 == encode(nested(400, None))


def test_nan_is_found_where_it_lies_deep() -> None:
    """The error has its whole path."""
    path = "$" + "[0]" * 400 + "[1]"

    assert f"payload holds NaN or Infinity at {path}, which JSON lacks" == str(refusal(nested(400, [None, math.nan])))


@pytest.mark.parametrize("give", [encode, lambda _: check_text("[" * 50_000 + "]" * 50_000)], ids=["value", "text"])
def test_a_value_that_is_nested_too_deep_is_refused(give: Callable[[Any], Any]) -> None:
    """It is no error of Python's own."""
    with pytest.raises(InvalidJob) as caught:
        give(nested(50_000, None))

    assert "GWBPL" == caught.value.code


def test_nan_is_found_in_an_attrs_class() -> None:
    """msgspec reads its attributes as it does those of a dataclass."""
    assert "payload holds NaN or Infinity at $.y.x, which JSON lacks" == str(refusal(Attrs(1.0, y=Attrs(math.nan))))


def test_null_beside_numbers_is_fine() -> None:
    """The search for NaN begins at a null; an intended null stays."""
    assert '{"a":null,"b":"null","c":1.5}' == encode({"a": None, "b": "null", "c": 1.5})


@pytest.mark.parametrize(
    "value",
    [
        "\0",
        "a\0b",
        {"a": "\0"},
        {"a\0": 1},
        {"a": [{"b": "\\\0"}]},
        Point(1.0, y="\0"),
        "\\\\\0",
        msgspec.Raw(b'"\\u0000"'),
    ],
    ids=written,
)
def test_the_character_zero_is_refused_in_keys_and_values(value: Any) -> None:
    """PostgreSQL stores it in json, but every query into the payload would fail."""
    error = refusal(value)

    assert "GWBPL" == error.code
    assert "U+0000" in str(error)


@pytest.mark.parametrize("value", ["\\u0000", "\\\\u0000", {"\\u0000": "\\u0000"}, "\\\\\\u0000", "u0000"], ids=ascii)
def test_the_text_of_its_escape_is_fine(value: Any) -> None:
    """A backslash, a u and four zeros are six characters that can all be stored."""
    assert value == json.loads(encode(value))


def test_the_error_has_the_place_of_a_zero_and_not_its_surroundings() -> None:
    """Messages end up in logs, payloads must not."""
    said = str(refusal({"secret": "x\0"}))

    assert "payload holds U+0000, which PostgreSQL cannot store, at character 12 of its JSON text" == said


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, ["a\ud83d"], Point(1.0, y="\ud800")], ids=ascii)
def test_half_a_surrogate_pair_is_refused(value: Any) -> None:
    """It is no character, and no UTF-8."""
    assert ("GWBPL", "payload") == (refusal(value).code, refusal(value).field)


def test_a_whole_surrogate_pair_is_a_character() -> None:
    """Characters beyond U+FFFF are stored as they are."""
    assert '"😀"' == encode("\U0001f600")


def test_a_model_of_pydantic_is_written_as_its_json() -> None:
    """Web services often have models of pydantic."""
    assert '{"models":[{"name":"Ada"}]}' == encode({"models": [Model(name="Ada")]})


@pytest.mark.parametrize(
    "value",
    [Missing(), {"a": Missing()}, lambda: None, (n for n in "ab"), {(1, 2): 3}, 10**5000, object, {1: 2}.items()],
    ids=lambda value: type(value).__name__,
)
def test_a_value_without_json_is_refused(value: Any) -> None:
    """The error includes that of msgspec."""
    error = refusal(value)

    assert "GWBPL" == error.code
    assert re.match("payload cannot be written as JSON( at .+)?: .+", str(error))


def test_a_payload_that_holds_itself_is_refused() -> None:
    """The process survives."""
    loop: list[Any] = []
    loop.append(loop)

    assert "GWBPL" == refusal(loop).code


@pytest.mark.parametrize("text", [b"{", b"", b"NaN", b"{'a':1}", b"01", b"[1,]", b'"\\ud800"', b'"\t"'], ids=repr)
def test_raw_text_that_is_no_json_is_refused(text: bytes) -> None:
    """msgspec copies a Raw as it is; the server would refuse it, and the caller's transaction with it."""
    assert "payload is not JSON: " in str(refusal({"a": msgspec.Raw(text)}))


def test_raw_bytes_that_are_no_text_are_refused() -> None:
    """The error is not one of Python's own."""
    assert "GWBPL" == refusal({"a": msgspec.Raw(b'"\xff"')}).code


def test_a_payload_of_exactly_the_limit_passes() -> None:
    """The limit is the last size that works; both quotes count."""
    assert 100 == len(encode("x" * 98, limit=100))


def test_a_payload_above_the_limit_is_refused_with_both_sizes() -> None:
    """The message names the option that raises the limit."""
    error = refusal("x" * 99, limit=100)

    assert ("GWBPL", "payload", 100, 101) == (error.code, error.field, error.limit, error.length)
    assert "payload is 101 bytes of JSON, at most 100 are allowed (option max_payload)" == str(error)


def test_the_limit_counts_bytes_not_characters() -> None:
    """The network and the table hold bytes."""
    assert 102 == refusal("ü" * 50, limit=100).length


def test_the_limit_is_one_mebibyte_by_default() -> None:
    """More belongs into a table, with its id in the payload."""
    assert (1024 * 1024, 1024 * 1024 + 2) == (DEFAULT_MAX_PAYLOAD, refusal("x" * 1024 * 1024).length)


def test_the_error_names_the_argument() -> None:
    """`meta` is encoded by the same rules."""
    assert ("meta", "meta holds NaN or Infinity at $.a, which JSON lacks") == (
        refusal({"a": math.nan}, field="meta").field,
        str(refusal({"a": math.nan}, field="meta")),
    )


# check_text: payloads that are JSON text already


@pytest.mark.parametrize("text", ["{}", "[]", "null", " {} ", '{"a": 1e400}', '"\\\\u0000"', '"ü"', '"\\u0001"'])
def test_json_text_passes_as_it_is(text: str) -> None:
    """Spaces and numbers beyond Python's floats included."""
    assert check_text(text) is None


@pytest.mark.parametrize(
    "text",
    ["", "{", "NaN", "{'a':1}", "[1,]", "{} {}", "\ufeff{}", '"\\u0000"', '"\\ud800"', '"\ud800"', None, {}, b"{}"],
    ids=ascii,
)
def test_a_text_that_is_no_json_is_refused(text: Any) -> None:
    """It is refused before the round trip."""
    with pytest.raises(InvalidJob) as caught:
        check_text(text)

    assert "GWBPL" == caught.value.code


def test_the_size_of_text_is_that_of_its_utf8() -> None:
    """The limit of values counts UTF-8 too."""
    with pytest.raises(InvalidJob) as caught:
        check_text('"üü"', limit=5)

    assert (5, 6) == (caught.value.limit, caught.value.length)


# Any value: stored and read back it is equal, or it was refused

text = st.text(max_size=8) | st.sampled_from(["\0", "\\u0000", "\\\0", "\ud800", "null", "😀"])
scalars = st.none() | st.booleans() | st.integers() | st.floats() | text
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4))


def anywhere(value: Any, test: Callable[[Any], bool]) -> bool:
    """Whether a test holds somewhere in a value, keys included."""
    if isinstance(value, dict):
        return any(anywhere(part, test) for pair in value.items() for part in pair)
    if isinstance(value, list):
        return any(anywhere(part, test) for part in value)
    return test(value)


def unstorable(value: Any) -> bool:
    """Whether json or jsonb of PostgreSQL cannot hold a value."""
    if isinstance(value, float):
        return not math.isfinite(value)
    return isinstance(value, str) and bool(re.search("[\0\ud800-\udfff]", value))


@given(values)
@example({"a": "\\u0000", "b": None})
@example(["\\\0"])
@example(1e308)
@example(-0.0)
def test_an_accepted_value_is_read_back_and_a_refused_one_could_not_be_stored(value: Any) -> None:
    """The check must refuse nothing that works, and accept nothing that does not."""
    try:
        back = json.loads(encode(value))
    except InvalidJob:
        assert anywhere(value, unstorable)
    else:
        assert not anywhere(value, unstorable)
        assert value == back


@given(values)
def test_the_text_of_an_accepted_value_is_accepted(value: Any) -> None:
    """A spec whose payload was encoded by us passes the check of texts."""
    try:
        encoded = encode(value)
    except InvalidJob:
        return

    assert check_text(encoded) is None


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_written_so_that_numeric_holds_it(number: float) -> None:
    """jsonb keeps numbers as numeric: exact, but neither NaN nor Infinity."""
    assert number == float(Decimal(encode(number)))
