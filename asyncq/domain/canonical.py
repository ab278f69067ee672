"""Writes JSON values as canonical text: RFC 8785, with strings in Unicode's form NFC. Equal values have equal texts.

sql/functions/unique/canonical.sql has the same rules: it accepts, refuses and writes the same, to the byte.
"""

import sys
from collections.abc import Collection, Iterable
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any
from unicodedata import normalize

import msgspec

from asyncq.domain.errors import InvalidJob
from asyncq.domain.payload import check_text, encode

MAX_DEPTH = 64

# msgspec refuses 1e400 even in a member that is not used; Python reads it as infinity, which is refused below.
_decoder = msgspec.json.Decoder(float_hook=float)
# All integers up to this one are doubles, and JSON writes none of them with an exponent.
_EXACT = 2**53


class NotCanonical(ValueError):
    """A value without a canonical text; the message has the place and the reason."""


def parse(value: Any, *, field: str = "args") -> Any:
    """Read a JSON text, or that of any other Python value: numbers without a fraction and exponent are int.

    Of members with the same name the last one counts. NotCanonical: the text is not valid JSON, or has a lone surrogate
    or U+0000; or the value cannot be encoded, or has NaN or Infinity.
    """
    try:
        if isinstance(value, str):
            check_text(value, field=field, limit=sys.maxsize)
        else:
            value = encode(value, field=field, limit=sys.maxsize)
        return _decoder.decode(value)
    except InvalidJob as error:
        raise NotCanonical(str(error)) from error
    except (msgspec.MsgspecError, RecursionError) as error:
        raise NotCanonical(f"{field} cannot be read: {error}") from error


def write(value: Any, path: str, depth: int = 0, only: Collection[str] | None = None) -> str:
    """The canonical text of a value, or of the members `only`, which are in NFC and must exist.

    NotCanonical, with the path: an integer that no double equals, names that are equal in NFC, or over 64 levels.

    Source: RFC 8785, section 3.2; NFC and the refusals are the Open Job Spec's and ours.
    """
    kind = value.__class__
    if kind is str:
        return quote(value)
    if kind is int:
        return _integer(value, path)
    if kind is float:
        return _number(value, path)
    if kind is dict or kind is list:
        if depth >= MAX_DEPTH:
            raise NotCanonical(f"{path.partition('.')[0]} is nested more than {MAX_DEPTH} levels deep")
        return _object(value, path, depth, only) if kind is dict else _array(value, path, depth)
    return "null" if value is None else "true" if value else "false"


def quote(text: str) -> str:
    """Write a string in NFC as JSON, with only the escapes that are needed."""
    return encode_basestring(_nfc(text))


def nfc_names(value: Any) -> set[str]:
    """The names of an object's members in NFC; none if the value is not an object."""
    return {_nfc(name) for name in value} if value.__class__ is dict else set()


def _nfc(text: str) -> str:
    return text if text.isascii() else normalize("NFC", text)


def _array(value: list[Any], path: str, depth: int) -> str:
    return "[" + ",".join([write(item, f"{path}.{index}", depth + 1) for index, item in enumerate(value)]) + "]"


def _object(value: dict[str, Any], path: str, depth: int, only: Collection[str] | None) -> str:
    # Nearly all names are ASCII, and ASCII is in NFC.
    named = value if all(map(str.isascii, value)) else {_nfc(name): item for name, item in value.items()}
    if len(named) != len(value):
        raise NotCanonical(f"{path} has two members whose names are the same text in Unicode's form NFC")
    texts = [
        f"{encode_basestring(name)}:{write(named[name], f'{path}.{name}', depth + 1)}"
        for name in _ordered(named if only is None else only)
    ]
    return "{" + ",".join(texts) + "}"


def _ordered(names: Collection[str]) -> Iterable[str]:
    """Sort names by their UTF-16 code units: by code points U+10000 would come after U+E000, not before it."""
    if len(names) < 2:
        return names
    if all(map(str.isascii, names)):
        return sorted(names)
    return sorted(names, key=lambda name: name.encode("utf-16-be"))


def _integer(value: int, path: str) -> str:
    """Write an integer; refuse one that is not a double: JCS would write 9007199254740993 as ...992."""
    if -_EXACT <= value <= _EXACT:
        return str(value)
    try:
        text = _number(float(value), path)
    except OverflowError:
        raise _too_large(path) from None
    if Decimal(text) != value:
        said = "is an integer that the numbers of JSON cannot hold exactly (above 2^53); send it as a string"
        raise NotCanonical(f"{path} {said}")
    return text


def _number(value: float, path: str) -> str:
    """Write a number as ECMAScript's Number::toString does; `repr` has the same digits in another layout."""
    if not value:
        return "0"
    text = repr(value)
    digits, exponential, power = text.partition("e")
    if not exponential:
        if text[-1] in "fn":  # inf, nan
            raise _too_large(path)
        return text.removesuffix(".0")
    exponent = int(power)
    if not -7 < exponent < 21:
        return f"{digits}e{exponent:+d}"
    sign = "-" if value < 0 else ""
    digits = digits.lstrip("-").replace(".", "")
    return f"{sign}{digits:0<{exponent + 1}}" if exponent > 0 else f"{sign}0.{'0' * (-exponent - 1)}{digits}"


def _too_large(path: str) -> NotCanonical:
    return NotCanonical(f"{path} is a number beyond the limit of JSON, 1.8e308; send it as a string")
