"""Limits the size of the parameters of one statement.

PostgreSQL ends the connection of a client that sends a message of 1 GiB, after it has read it, and no value may be
larger. Until a message is in a table, the server needs several times its size in memory.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

from asyncq.domain.errors import InvalidJob

LARGEST_STATEMENT = 256 * 1024 * 1024
PIECE = 16 * 1024 * 1024
TOO_LARGE = "54000"

ItemT = TypeVar("ItemT")


def check_size(field: str, parameters: Iterable[Any]) -> None:
    """Raise InvalidJob for parameters of more than 256 MiB, before they are sent."""
    size = sum(map(_size, parameters))
    if size > LARGEST_STATEMENT:
        raise InvalidJob(
            f"{field} are {size} bytes for one statement, at most {LARGEST_STATEMENT} are allowed: make several calls",
            code=TOO_LARGE,
            field=field,
            limit=LARGEST_STATEMENT,
            length=size,
        )


def _size(parameter: Any) -> int:
    if isinstance(parameter, str):
        return len(parameter) if parameter.isascii() else len(parameter.encode(errors="surrogatepass"))
    if isinstance(parameter, list | tuple):
        return sum(map(_size, cast("Sequence[Any]", parameter)))
    return 8


def first_piece(items: Sequence[ItemT], most: int, size_of: Callable[[ItemT], int]) -> Sequence[ItemT]:
    """Return the first items, at most `most` and 16 MiB together by an estimate, for one statement; at least one."""
    size = 0
    for number, item in enumerate(items[:most]):
        size += size_of(item)
        if size > PIECE and number:
            return items[:number]
    return items[:most]
