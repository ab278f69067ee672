"""Canonical JSON: the text of a value is that of RFC 8785, and equal values have equal texts."""

import json
import random
import shutil
import struct
import subprocess
import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncq.domain.canonical import MAX_DEPTH, NotCanonical, parse, write
from tests.support.json_texts import floats, integers, strings, values
from tests.support.vectors import CANONICAL, REFUSED, RFC_NAMES, RFC_NUMBERS, RFC_ORDER, double

NODE = shutil.which("node")
JAVASCRIPT = """
const bits = JSON.parse(require("fs").readFileSync(0, "utf8"));
const view = new DataView(new ArrayBuffer(8));
console.log(JSON.stringify(bits.map(hex => {
  view.setBigUint64(0, BigInt("0x" + hex));
  return JSON.stringify(view.getFloat64(0));
})));
"""


def canonical(text: str) -> str:
    """The canonical text of a JSON text."""
    return write(parse(text), "args")


def in_nfc(value: Any) -> Any:
    """A value with all its strings in NFC."""
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, list):
        return [in_nfc(item) for item in value]
    if isinstance(value, dict):
        return {in_nfc(name): in_nfc(item) for name, item in value.items()}
    return value


def as_javascript(doubles: Sequence[str]) -> list[str]:
    """Return the texts that JSON.stringify makes of doubles, given by their bits."""
    done = subprocess.run(
        [NODE, "-e", JAVASCRIPT], input=json.dumps(doubles), capture_output=True, text=True, check=True, timeout=50
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize(("text", "expected"), CANONICAL.items(), ids=lambda it: ascii(it)[:40])
def test_the_canonical_text(text: str, expected: str) -> None:
    """The table has the samples of RFC 8785, and special cases."""
    assert expected == canonical(text)


@pytest.mark.parametrize("text", CANONICAL, ids=lambda it: ascii(it)[:40])
def test_a_canonical_text_is_its_own_canonical_text(text: str) -> None:
    """Otherwise a payload that was stored in its canonical form would be another job."""
    assert canonical(text) == canonical(canonical(text))


@pytest.mark.parametrize(("hexadecimal", "expected"), RFC_NUMBERS.items())
def test_a_number_is_written_as_ecmascript_writes_it(hexadecimal: str, expected: str) -> None:
    """RFC 8785, appendix B."""
    assert expected == write(double(hexadecimal), "args") == canonical(repr(double(hexadecimal)))


@pytest.mark.parametrize("hexadecimal", ["7fffffffffffffff", "7ff0000000000000", "fff0000000000000"])
def test_nan_and_infinities_are_refused(hexadecimal: str) -> None:
    """They are the errors of the RFC's table."""
    with pytest.raises(NotCanonical):
        write(double(hexadecimal), "args")


def test_names_are_sorted_by_utf_16_code_units() -> None:
    """RFC 8785, section 3.2.3: the emoji comes before the ligature, although its code point is larger."""
    assert RFC_ORDER == list(json.loads(canonical(RFC_NAMES)).values())


@pytest.mark.parametrize("text", REFUSED, ids=lambda it: it[:40])
def test_a_value_without_canonical_text_is_refused(text: str) -> None:
    """Different values must have different texts, which do not depend on the writer."""
    with pytest.raises(NotCanonical):
        canonical(text)


@pytest.mark.parametrize(
    "text", ["", "{", "nul", "NaN", "[1,]", "01", '"\x01"', "'a'", "1 2", "\ufeff1", '"\ud800"'], ids=ascii
)
def test_invalid_json_is_refused(text: str) -> None:
    """The error is a sentence, not that of a library."""
    with pytest.raises(NotCanonical, match="args"):
        canonical(text)


def test_a_text_that_is_nested_beyond_the_stack_is_refused() -> None:
    """It is refused before Python's recursion limit is reached."""
    with pytest.raises(NotCanonical, match="args"):
        canonical("[" * 100_000)


def test_the_limit_of_depth_counts_arrays_and_objects() -> None:
    """The same in SQL, where the stack is shorter."""
    half = MAX_DEPTH // 2

    assert "[" * half + '{"a":' * half + "1" + "}" * half + "]" * half == canonical(
        "[" * half + '{"a":' * half + "1" + "}" * half + "]" * half
    )
    with pytest.raises(NotCanonical, match="args is nested more than 64 levels deep"):
        canonical("[" * half + '{"a":' * (half + 1) + "1" + "}" * (half + 1) + "]" * half)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("9007199254740993", "args is an integer"),
        ('{"a":[0,{"b":9007199254740993}]}', "args.a.1.b is an integer"),
        ('{"a":[0,{"b":1e400}]}', "args.a.1.b is a number beyond"),
        ('{"x":{"é":1,"e\u0301":1}}', "args.x has two members"),
    ],
)
def test_the_message_says_where(text: str, said: str) -> None:
    """The message does not quote the text: messages end up in logs, payloads must not."""
    with pytest.raises(NotCanonical, match=said):
        canonical(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": (1.0, None)}, '{"a":[1,null],"b":1}'),
        ('{"b": 1}', '{"b":1}'),
        ('"text"', '"text"'),
        (None, "null"),
    ],
    ids=repr,
)
def test_a_value_is_written_as_its_json_text_would_be(value: Any, text: str) -> None:
    """A str counts as JSON text, since payloads are stored as text."""
    assert text == write(parse(value), "args")


@given(values)
def test_a_canonical_text_means_the_same_value(text: str) -> None:
    """It loses only differences that NFC and doubles cannot represent."""
    try:
        written = canonical(text)
    except NotCanonical:
        return

    assert in_nfc(json.loads(text, parse_int=float)) == json.loads(written, parse_int=float)
    assert written == canonical(written)


@given(st.dictionaries(strings, st.integers(0, 9), max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_members_does_not_count(members: dict[str, int], chance: random.Random) -> None:
    """JSON objects have none."""
    shuffled = list(members.items())
    chance.shuffle(shuffled)

    def outcome(value: dict[str, int]) -> str:
        try:
            return canonical(json.dumps(value))
        except NotCanonical:
            return "refused"

    assert outcome(members) == outcome(dict(shuffled))


@given(st.one_of(st.integers(), integers))
def test_an_integer_keeps_its_value_or_is_refused(number: int) -> None:
    """Rounded, two ids would be one."""
    try:
        text = canonical(str(number))
    except NotCanonical:
        assert abs(number) > 2**53
    else:
        assert number == Decimal(text)


@pytest.mark.skipif(NODE is None, reason="node is not on the PATH")
def test_numbers_are_written_as_node_writes_them() -> None:
    """An independent implementation of the same rule: all powers of two and ten, and their neighbours."""
    doubles = [2.0**power for power in range(-1074, 1024)] + [float(f"1e{power}") for power in range(-323, 309)]
    hexadecimal = [near(number, step) for number in doubles for step in (-1, 0, 1)]

    assert [write(double(number), "args") for number in hexadecimal] == as_javascript(hexadecimal)


@pytest.mark.slow
@pytest.mark.skipif(NODE is None, reason="node is not on the PATH")
def test_random_numbers_are_written_as_node_writes_them() -> None:
    """100,000 doubles, each bit by chance."""
    chance = random.Random()
    hexadecimal = [f"{number:016x}" for number in (chance.getrandbits(64) for _ in range(100_000)) if is_finite(number)]

    assert [write(double(number), "args") for number in hexadecimal] == as_javascript(hexadecimal)


@given(floats)
def test_a_number_comes_back_from_its_text(number: float) -> None:
    """The text has the fewest digits that restore it."""
    assert number == float(write(number, "args"))


def near(number: float, step: int) -> str:
    """The bits of a positive double, or of a neighbour."""
    (found,) = struct.unpack(">Q", struct.pack(">d", number))
    return f"{max(found + step, 0):016x}"


def is_finite(number: int) -> bool:
    """Whether these bits are a number."""
    return (number >> 52) & 0x7FF != 0x7FF
