"""Resources are checked at import, and no payload has them."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from asyncq import ConfigurationError, InvalidJob, JobContext, Resource, TaskError, Worker, resource, task, use


class Pool:
    """What a resource opens."""


@resource
async def open_pool() -> AsyncGenerator[Pool]:
    """Opened for a worker."""
    yield Pool()


@resource(scope="job")
async def open_session(pool: Pool = use(open_pool)) -> AsyncGenerator[list[Pool]]:
    """Opened for each job."""
    yield [pool]


@resource
async def open_http(engine: str) -> AsyncIterator[str]:
    """Takes the value of the lifespan."""
    yield engine


class Order(msgspec.Struct):
    """A payload."""

    item: str


async def whole(order: Order, pool: Pool = use(open_pool)) -> None:
    """A payload and a resource."""


async def fields(day: str, pool: Pool = use(open_pool), dry_run: bool = False) -> None:
    """A field behind a resource."""


async def with_context(ctx: JobContext, day: str, *, pool: Pool = use(open_pool)) -> None:
    """The context, a field, a resource."""


async def only(pool: Pool = use(open_pool), ctx: JobContext | None = None) -> None:
    """No payload."""


@pytest.mark.parametrize(
    ("handler", "args", "payload", "expected"),
    [
        (whole, (Order("tea"),), '{"item":"tea"}', ((Order("tea"),), {})),
        (fields, ("today",), '{"day":"today"}', (("today",), {"dry_run": False})),
        (with_context, ("today",), '{"day":"today"}', (("ctx", "today"), {})),
        (only, (), "{}", ((), {"ctx": "ctx"})),
    ],
)
def test_a_payload_has_no_resource(
    handler: Callable[..., Any], args: tuple[Any, ...], payload: str, expected: tuple[Any, Any]
) -> None:
    """The parameters beside it are read from the payload as without it; those behind it are passed by name."""
    made = task(handler)

    assert payload == made.job(*args).payload
    assert expected == made.signature.decode(payload, "ctx")
    assert {"pool": open_pool} == made.signature.uses


def test_a_job_cannot_be_given_a_resource() -> None:
    """Its value would have to be JSON."""
    with pytest.raises(InvalidJob, match="there is no parameter 'pool'"):
        task(fields).job(day="today", pool=Pool())


def test_a_direct_call_without_the_value_says_what_is_missing() -> None:
    """Only a worker opens resources; a test passes the value."""
    with pytest.raises(AttributeError, match=r"only a worker opens resource open_pool: pass the value in a direct"):
        use(open_pool).execute  # type: ignore[attr-defined]  # noqa: B018


async def plain() -> None:
    """No generator."""


async def two_needed(engine: str, other: str) -> AsyncIterator[None]:
    """Which one is the lifespan's value?"""
    yield


async def all_of_them(**rest: Any) -> AsyncIterator[None]:
    """Nothing can be passed."""
    yield


async def of_a_job(session: list[Pool] = use(open_session)) -> AsyncIterator[None]:
    """Outlives what it uses."""
    yield


@pytest.mark.parametrize(
    ("function", "scope", "expected"),
    [
        (plain, "worker", "resource plain: a resource is an async generator function: async def, with a yield"),
        (
            two_needed,
            "job",
            "only one parameter without a default can receive the value of the lifespan, and there are",
        ),
        (all_of_them, "job", "resource all_of_them: parameter 'rest' cannot be passed by name"),
        (of_a_job, "worker", "resource of_a_job is opened once for a worker, and cannot use open_session, which is op"),
        (two_needed, "run", "resource two_needed: scope must be 'worker' or 'job', got 'run'"),
    ],
)
def test_a_resource_that_cannot_be_opened_is_refused_at_import(function: Any, scope: Any, expected: str) -> None:
    """Otherwise each attempt of each job would fail."""
    with pytest.raises(TaskError) as caught:
        Resource(function, scope)

    assert expected in str(caught.value)


def in_a_thread(session: Any = use(open_session)) -> None:
    """A plain function."""


async def by_position(pool: Any = use(open_pool), /) -> None:
    """Nothing can be passed by name."""


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (in_a_thread, "a plain function runs in a thread, and resource open_session of its job is opened in the event"),
        (by_position, "parameter 'pool': a resource is passed by name, and so it cannot be positional only"),
    ],
)
def test_a_handler_that_cannot_get_its_resource_is_refused_at_import(
    handler: Callable[..., Any], expected: str
) -> None:
    """A sentence names the handler's parameter or resource."""
    with pytest.raises(TaskError) as caught:
        task(handler)

    assert expected in str(caught.value)


def test_use_takes_a_resource_only() -> None:
    """The decorator was forgotten."""
    with pytest.raises(TaskError, match=r"use\(\) takes a function that is decorated with @resource, got <function"):
        use(plain)  # type: ignore[arg-type]


@resource
async def open_around(pool: Pool = use(open_pool)) -> AsyncIterator[Pool]:
    """Wraps another one."""
    yield pool


@resource(scope="job")
async def fake_session() -> AsyncIterator[Pool]:
    """Of a job."""
    yield Pool()


@task
async def uses_around(pool: Pool = use(open_around)) -> None:
    """Uses a resource that uses another one."""


@task
async def uses_http(http: str = use(open_http)) -> None:
    """Needs a lifespan."""


@task
def sync(pool: Pool = use(open_pool)) -> None:
    """A plain function with a resource of the worker."""


@pytest.mark.parametrize(
    ("used", "overrides", "expected"),
    [
        (uses_around, {open_pool: open_around}, "these resources use each other: open_around -> open_around"),
        (uses_around, {open_pool: fake_session}, "cannot use fake_session, which is opened for each job"),
        (sync, {open_pool: fake_session}, "task 'sync': a plain function runs in a thread, and resource fake_session"),
        (uses_http, {}, "parameter 'engine' of resource open_http receives the value of the lifespan, and this worker"),
        (sync, {plain: 5}, "overrides: <function plain at"),
        (sync, {open_pool: all_of_them}, "overrides: decorate all_of_them with @resource"),
        (sync, [open_pool], "overrides must be a dict of resources, got [<Resource open_pool>]"),
    ],
    ids=["cycle", "scope", "thread", "lifespan", "no resource", "undecorated", "no dict"],
)
def test_resources_that_do_not_fit_together_are_refused_when_the_worker_is_made(
    used: Any, overrides: Any, expected: str
) -> None:
    """An override may bring what the import could not see."""
    with pytest.raises(ConfigurationError) as caught:
        Worker("postgresql:///none", [used], overrides=overrides)

    assert expected in str(caught.value)
