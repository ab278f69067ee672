"""Random JSON texts: nested, in all notations, with and without a canonical form.

Hypothesis chooses the seed of each; the rest is plain code, which makes ten times as many in the same time.
"""

import json
import struct
import unicodedata
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# NFC never changes for a character that has been assigned, but does when one is: both sides have to know it. PostgreSQL
# 15 and Python 3.11 know Unicode 14; later Pythons also have the tables of 3.2.
KNOWN = unicodedata if unicodedata.unidata_version == "14.0.0" else unicodedata.ucd_3_2_0
CODES = (*range(1, 0x40000), *range(0xE0000, 0x110000))  # The planes between have no characters.
ASSIGNED = [chr(code) for code in CODES if KNOWN.category(chr(code)) not in ("Cn", "Cs")]
CHANGING = [char for char in ASSIGNED if not char.isascii() and (KNOWN.combining(char) or KNOWN.decomposition(char))]
MARKS_OF_14 = {*range(0x898, 0x8A0), *range(0x8CA, 0x8D3), 0xC3C, 0x1715, *range(0x1AC1, 0x1ACF), 0x1DFA}
MARKS_OF_14 |= {*range(0x10F82, 0x10F86), 0x11070, 0x1E2AE}
# Where UTF-16 and code points differ in order, and where NFC has its corners.
CORNERS = "ae\u00e9\u0301\u0327\u0345\u00c5\u212b\u1100\u1161\u11a7\u11a8\uac00\uac01\ud7ff\ue000\ufb33\uffff"
CORNERS += "\U00010000\U0001d15e\U0001f600\U0010ffff"
ASCII = [chr(code) for code in range(1, 128)]
# Characters that PostgreSQL cannot store.
UNSTORABLE = ("\ud800", "a\udc00b", "\0", "\ude00\ud83d")

NOTATIONS: list[Callable[[float], str]] = [
    repr,
    lambda number: f"{number:.17g}",
    lambda number: f"{number:.15E}",
    lambda number: f"{number:.25e}",
    lambda number: f"{Decimal(number):f}" if 1e-30 < abs(number) < 1e30 else repr(number),
    lambda number: f"{number:.1f}" if abs(number) < 1e30 else repr(number),
]


def leave_out_marks_of_14() -> None:
    """From now on make no text with a mark that is new in Unicode 14: PostgreSQL 14 knows Unicode 13."""
    for chars in (ASSIGNED, CHANGING):
        chars[:] = [char for char in chars if ord(char) not in MARKS_OF_14]


def double(bits: int) -> float:
    """The double with these bits, 0 if they are no number."""
    (number,) = struct.unpack(">d", bits.to_bytes(8))
    return number if number - number == 0 else 0.0


def some_float(chance: Random) -> float:
    """Any double, or one with few digits, or a power of two or its neighbour."""
    return chance.choice(
        [
            lambda: double(chance.getrandbits(64)),
            lambda: chance.uniform(-1e6, 1e6),
            lambda: float(f"{chance.randint(-(10**17), 10**17)}e{chance.randint(-30, 30)}"),
            lambda: float(f"{chance.randint(-99, 99)}e{chance.randint(-330, 300)}"),
            lambda: double((chance.randint(0, 2046) << 52) + chance.randint(0, 2)),
        ]
    )()


def some_integer(chance: Random) -> int:
    """A small one, one of up to 66 bits, one with zeros at its end, or one close to a power of two."""
    return chance.choice(
        [
            lambda: chance.randint(-1000, 1000),
            lambda: chance.randint(-(10**15), 10**15),
            lambda: chance.getrandbits(chance.randint(50, 66)),
            lambda: chance.randint(-(10**16), 10**16) * 10 ** chance.randint(0, 10),
            lambda: 2 ** chance.randint(50, 80) + chance.randint(-3, 3),
        ]
    )()


def some_number(chance: Random) -> str:
    """A number in any notation."""
    if chance.random() < 0.4:
        return str(some_integer(chance))
    text = chance.choice(NOTATIONS)(some_float(chance))
    return text.replace("e", chance.choice("eE")) if "inf" not in text else "0"


def some_text(chance: Random) -> str:
    """A string of characters that both sides know, in any form of Unicode."""
    pool = chance.choice([ASCII, CORNERS, CHANGING, ASSIGNED, ASCII + CHANGING])
    text = "".join(chance.choices(pool, k=chance.randint(0, 6)))
    form = chance.choice(["", "NFC", "NFD"])
    return unicodedata.normalize(form, text) if form else text


def quoted(chance: Random, text: str) -> str:
    """A string as JSON: its characters escaped, or as they are where that is possible."""
    return json.dumps(text, ensure_ascii=chance.random() < 0.5 or text in UNSTORABLE)


def some_value(chance: Random, depth: int = 0) -> str:
    """A value; now and then one without a canonical form."""
    space = chance.choice(["", "", "", " ", "\n\t\r"])
    kind = chance.randint(0 if depth else 4, 9 if depth < 5 else 5)
    if kind == 0:
        text = chance.choice(["null", "true", "false"])
    elif kind <= 3:
        text = some_number(chance)
    elif kind <= 5:
        text = quoted(chance, chance.choice(UNSTORABLE) if chance.random() < 0.01 else some_text(chance))
    elif kind <= 7:
        text = "[" + f"{space},".join(some_value(chance, depth + 1) for _ in range(chance.randint(0, 4))) + f"{space}]"
    else:
        text = "{" + f",{space}".join(some_members(chance, depth)) + f"{space}}}"
    return space + text + space


def some_members(chance: Random, depth: int) -> list[str]:
    """Members of an object; a name may come twice."""
    names = [some_text(chance) for _ in range(chance.randint(0, 6))]
    if names and chance.random() < 0.2:
        names.append(chance.choice(names))
    return [f"{quoted(chance, name)}:{some_value(chance, depth + 1)}" for name in names]


chances = st.randoms(use_true_random=True)
floats = chances.map(some_float)
integers = chances.map(some_integer)
strings = chances.map(some_text)
values = chances.map(some_value)


def collect(strategy: st.SearchStrategy[Any], amount: int) -> list[Any]:
    """So many examples at once, for a test that asks a server about all of them in one round trip.

    Args:
        strategy: The source of the examples.
        amount: How many; fewer when there are not so many different ones.

    Returns:
        The examples.
    """
    found: list[Any] = []

    @settings(max_examples=amount, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def take(example: Any) -> None:
        found.append(example)

    take()
    return found
