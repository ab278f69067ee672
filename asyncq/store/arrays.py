"""Arrays of numbers as texts, for the statements that workers run often.

The driver looks up the type of an array before it sends or reads the first one on a connection. That costs the server
eight milliseconds for each new connection; a text costs nothing.
"""

import struct
from collections.abc import Iterable
from typing import Literal


def array_text(numbers: Iterable[float | None]) -> str:
    """Write an array as PostgreSQL reads it; None is null."""
    return "{" + ",".join(map(str, numbers)).replace("None", "null") + "}"


def array_numbers(text: str) -> list[int]:
    """Read an array as PostgreSQL writes it."""
    return [int(number) for number in text[1:-1].split(",") if number]


def sent_numbers(sent: bytes, kind: Literal["h", "i", "q"]) -> tuple[int, ...]:
    """Read the binary output of `array_send`, for an array that has elements and no nulls.

    It has three words for the type, then the array's length and first index, then each element after its length. The
    kinds are smallint, int and bigint, as `struct` names them; moments are bigints too, see `moment.py`.
    """
    count = int.from_bytes(sent[12:16], "big")
    # `struct` caches each compiled format, which is large: rounding to hundreds limits the number of formats.
    whole = -(-count // 100) * 100
    element = f"4x{kind}"
    padded = sent.ljust(20 + whole * struct.calcsize(">" + element), b"\0")
    return struct.unpack_from(">" + element * whole, padded, 20)[:count]
