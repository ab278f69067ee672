"""What is inside of an exception group."""

from __future__ import annotations

from typing import cast


def innermost(error: BaseException) -> BaseException:
    """The error itself, out of groups that hold nothing else: it says more than they do."""
    while len(parts := _parts(error)) == 1:
        error = parts[0]
    return error


def _parts(error: BaseException) -> tuple[BaseException, ...]:
    """What a group holds; nothing of any other error."""
    if isinstance(error, BaseExceptionGroup):
        return cast("BaseExceptionGroup[BaseException]", error).exceptions
    return ()
