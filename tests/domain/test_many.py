"""Handlers of many things in one call: which outcomes they may return, and which options are refused at import."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, NewType

import msgspec
import pytest

from asyncq import Collect, ConfigurationError, InvalidJob, JobContext, JobsContext, TaskError, task
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
    """Nothing says to which items they belong."""
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


def plain(users: list[int]) -> None:
    """Could run in another process."""


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
        (plain, {"items": True, "run_in": "process"}, "items=True and run_in exclude each other"),
    ],
)
def test_what_contradicts_items_is_refused(handler: Any, options: dict[str, Any], said: str) -> None:
    """At import, with a sentence."""
    with pytest.raises(TaskError, match=said):
        task(**options)(handler)


# collect


COLLECT = Collect(max=2, within="1 s")


async def many(users: list[int], jobs: JobsContext) -> None:
    """Takes the payloads of several jobs."""


async def single(user: int) -> None:
    """Takes one."""


async def of_one(users: list[int], ctx: JobContext) -> None:
    """Has the context of one job."""


@pytest.mark.parametrize(
    ("handler", "options", "said"),
    [
        (many, {"collect": 5}, r"collect must be a Collect, as Collect\(max=100, within='2 s'\), got 5"),
        (many, {"collect": COLLECT, "queue": "q"}, "collect and queue exclude each other"),
        (many, {"collect": COLLECT, "transactional": True}, "collect and transactional exclude each other"),
        (many, {"collect": COLLECT, "items": True}, "collect and items exclude each other"),
        (many, {"collect": COLLECT, "completes": True}, "collect and completes exclude each other"),
        (plain, {"collect": COLLECT, "run_in": "process"}, "collect and run_in exclude each other"),
        (many, {"collect": COLLECT, "deadline": "1 h"}, "collect and deadline exclude each other"),
        (many, {"collect": COLLECT, "max_attempts": 1}, "collect needs max_attempts of 2 or more"),
        (default, {"collect": COLLECT}, "its parameter cannot have a default"),
        (single, {"collect": COLLECT}, "collect needs one parameter that is a list of payloads, as in"),
        (two, {"collect": COLLECT}, "collect needs one parameter that is a list of payloads, as in"),
        (of_one, {"collect": COLLECT}, "parameter 'ctx' must be a JobsContext, because of its collect"),
        (many, {}, "parameter 'jobs' must be a JobContext: it has no collect"),
    ],
)
def test_what_contradicts_collect_is_refused(handler: Any, options: dict[str, Any], said: str) -> None:
    """At import, with a sentence."""
    with pytest.raises(TaskError, match=said):
        task(**options)(handler)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max": 0, "within": 1}, "max of a Collect is a number from 1 to 10000, got 0"),
        ({"max": 10_001, "within": 1}, "max of a Collect is a number from 1 to 10000, got 10001"),
        ({"max": True, "within": 1}, "max of a Collect is a number from 1 to 10000, got True"),
        ({"max": 1, "within": 0}, "within of a Collect is 0, expected more than 0, at most 366 days"),
        ({"max": 1, "within": "soon"}, "within of a Collect must be a duration"),
    ],
)
def test_the_numbers_of_a_collect_are_checked(options: dict[str, Any], said: str) -> None:
    """They are written in code."""
    with pytest.raises(ConfigurationError, match=said):
        Collect(**options)


def test_the_payload_of_a_job_is_a_member_of_the_list() -> None:
    """A client checks it against that type, also in a copy of the task."""
    send = task(collect=COLLECT)(many)

    assert ("7", "7") == (send.job(7).payload, send.renamed("mail").job(7).payload)
    with pytest.raises(InvalidJob):
        send.job([7])  # type: ignore[arg-type]
