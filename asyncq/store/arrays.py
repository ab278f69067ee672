"""Arrays of numbers as texts, in the statements of a worker's every day.

The driver asks the catalog about the type of an array before it sends or reads the first one on a connection: eight
milliseconds of the server, for each connection of each worker that starts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Literal


def array_text(numbers: Iterable[int]) -> str:
    """An array as PostgreSQL reads it."""
    return "{" + ",".join(map(str, numbers)) + "}"


def array_numbers(text: str) -> list[int]:
    """An array as PostgreSQL writes it."""
    return [int(number) for number in text[1:-1].split(",") if number]


def sent_numbers(sent: bytes, kind: Literal["h", "i", "q"]) -> tuple[int, ...]:
    """An array with at least one element and without nulls, as `array_send` tells it.

    Args:
        sent: Three words that say what it is, its length and its first index, then each element behind its own length.
        kind: Of smallint, int or bigint, as `struct` names them; moments are bigints too, see `moment.py`.
    """
    count = int.from_bytes(sent[12:16], "big")
    # By hundreds: `struct` keeps what it has made of a format, which is large, and would of each length.
    whole = -(-count // 100) * 100
    element = f"4x{kind}"
    padded = sent.ljust(20 + whole * struct.calcsize(">" + element), b"\0")
    return struct.unpack_from(">" + element * whole, padded, 20)[:count]
