"""Arrays of numbers as texts, in the statements of a worker's every day.

The driver asks the catalog about the type of an array before it sends or reads the first one on a connection: eight
milliseconds of the server, for each connection of each worker that starts.
"""

from __future__ import annotations

from collections.abc import Iterable


def array_text(numbers: Iterable[int]) -> str:
    """An array as PostgreSQL reads it."""
    return "{" + ",".join(map(str, numbers)) + "}"


def array_numbers(text: str) -> list[int]:
    """An array as PostgreSQL writes it."""
    return [int(number) for number in text[1:-1].split(",") if number]
