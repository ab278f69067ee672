"""Writes statements of sql/queries, and their parameters, for drivers other than asyncpg.

Each parameter is sent as text, and the server casts it. So neither the types that a driver knows, nor those that the
owner of a connection has registered, have an effect.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, cast

_PARAMETER = re.compile(r"\$([0-9]+)")
_SPECIAL = re.compile(r'(["\\])')


@lru_cache(1024)
def named(statement: str, form: str) -> str:
    """Replace each `$1` of a statement by a named parameter; in `form`, `{}` is the name, as in `:{}`."""
    return _PARAMETER.sub(lambda found: f"cast({form.format('p' + found[1])} as text)", statement)


def values(parameters: Iterable[Any]) -> dict[str, str | None]:
    """Return the parameters of a statement by the names that `named` gives them, as text."""
    return {f"p{number}": _text(value) for number, value in enumerate(parameters, 1)}


def _text(value: Any) -> str | None:
    """Write a value as PostgreSQL reads it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, int | float):
        return str(value)
    return "{" + ",".join(_element(each) for each in cast("Sequence[Any]", value)) + "}"


def _element(value: Any) -> str:
    text = _text(value)
    if text is None:
        return "NULL"
    return '"' + _SPECIAL.sub(r"\\\1", text) + '"' if isinstance(value, str) else text
