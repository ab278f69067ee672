"""How large the parameters of one statement may be.

PostgreSQL ends the connection of a client that sends a message of 1 GiB, after it has read it, and its values end there
too. What becomes of a message on its way to a table takes several times its size of the server's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

from asyncq.domain.errors import InvalidJob

LARGEST_STATEMENT = 256 * 1024 * 1024
PIECE = 16 * 1024 * 1024
TOO_LARGE = "54000"

ItemT = TypeVar("ItemT")


def check_size(field: str, parameters: Iterable[Any]) -> None:
    """Refuse parameters that one statement must not carry.

    Args:
        field: The argument that they were made of, for the error.
        parameters: Texts, numbers and lists of them.

    Raises:
        InvalidJob: They are larger than 256 MiB; nothing was sent.
    """
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
    """The items at the front that one statement takes.

    Args:
        items: All items.
        most: How many at most.
        size_of: About how many bytes an item takes.

    Returns:
        The first ones, together of at most 16 MiB; at least one, if there is one.
    """
    size = 0
    for number, item in enumerate(items[:most]):
        size += size_of(item)
        if size > PIECE and number:
            return items[:number]
    return items[:most]
