"""The flags that a worker forbids now: a list, or the result of a function of the user."""

from typing import Any

from asyncq.domain.errors import AsyncqError
from asyncq.domain.options import ForbiddenFlags, are_flags
from asyncq.engine.base import user_code


async def current_flags(forbidden: ForbiddenFlags) -> list[str] | None:
    """The flags that are forbidden now, or None. If cancelled, the user's function is too, and is not awaited."""
    if not callable(forbidden):
        return list(forbidden) if forbidden else None
    flags: Any = await user_code.call(forbidden)
    if isinstance(flags, user_code.Raised):
        raise AsyncqError(f"forbidden_flags failed, so nothing is fetched: {flags.error!r}") from flags.error
    if flags is not None and not are_flags(flags):
        said = "forbidden_flags must return a list of str that PostgreSQL can store, so nothing is fetched"
        raise AsyncqError(f"{said}: it returned {flags!r}")
    return [*flags] if flags else None
