"""Handlers of many things in one call: which outcomes they may return, and which options are refused at import."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, NewType

import msgspec
import pytest

from asyncq import JobContext, TaskError, task
from asyncq.domain.many import errors_of

Users = NewType("Users", list[int])
ERROR = ValueError("x")


@pytest.mark.parametrize(
    ("returned", "errors"),
    [
        (None, [None, None]),
        ([None, ERROR], [None, ERROR]),
        ((ERROR, False), [ERROR, None]),
        ([ExceptionGroup("both", [ERROR]), 0], [ExceptionGroup("both", [ERROR]), None]),
    ],
)
def test_each_outcome_is_an_exception_or_counts_as_done(returned: Any, errors: list[Any]) -> None:
    """As `asyncio.gather(..., return_exceptions=True)` returns them."""
    assert list(map(repr, errors)) == list(map(repr, errors_of(returned, 2, "items")))


@pytest.mark.parametrize("returned", [[], [None], [None] * 3, "ab", {0: None, 1: None}, {None}, 2, (n for n in "ab")])
def test_outcomes_that_fit_no_items_are_refused(returned: Any) -> None:
    """Nobody knows which of the items they are of."""
    with pytest.raises(TaskError, match="it returns None, or a list of 2 outcomes, one for each of its items"):
        errors_of(returned, 2, "items")


def test_what_only_looks_like_an_outcome_is_an_error() -> None:
    """A class was not raised, and a coroutine that was not awaited has done nothing."""
    later = asyncio.sleep(0)
    found = errors_of([ValueError, later], 2, "items")
    later.close()

    assert ["TaskError", "TaskError"] == [type(error).__name__ for error in found]


def taking(kind: Any) -> Any:
    """A handler with one parameter of a type."""

    async def send(users: Any) -> None: ...

    send.__annotations__["users"] = kind
    return send


@pytest.mark.parametrize(
    "kind", [list, list[int], Sequence[int], Annotated[list[int], msgspec.Meta(max_length=9)], Users]
)
def test_a_list_may_be_written_in_many_ways(kind: Any) -> None:
    """The parameter is the whole payload."""
    assert task(items=True)(taking(kind)).items


@pytest.mark.parametrize("kind", [int, str, Any, dict[str, int], set[int], tuple[int, int], list[int] | None])
def test_items_need_a_parameter_that_is_a_list(kind: Any) -> None:
    """The retry could not be written otherwise."""
    with pytest.raises(TaskError, match=r"items=True needs one parameter that is a list, as in"):
        task(items=True)(taking(kind))


async def two(users: list[int], dry_run: bool) -> None:
    """The payload is an object."""


async def none(ctx: JobContext) -> None:
    """The payload is ignored."""


async def default(users: list[int] = []) -> None:  # noqa: B006
    """Without a payload there is no list to write again."""


async def own(users: list[int], ctx: JobContext) -> None:
    """Calls ctx.complete."""


@pytest.mark.parametrize(
    ("handler", "options", "said"),
    [
        (two, {"items": True}, "items=True needs one parameter that is a list"),
        (none, {"items": True}, "items=True needs one parameter that is a list"),
        (own, {"items": 1}, "items must be True or False, got 1"),
        (default, {"items": True}, "its parameter cannot have a default"),
        (own, {"items": True, "completes": True}, "items=True and completes=True exclude each other"),
    ],
)
def test_what_contradicts_items_is_refused(handler: Any, options: dict[str, Any], said: str) -> None:
    """At import, with a sentence."""
    with pytest.raises(TaskError, match=said):
        task(**options)(handler)
