"""Handlers that no other process can run are refused at import, those that none can import by the worker."""

import sys
import types
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from asyncq import ConfigurationError, JobContext, TaskError, Timeout, Worker, resource, task, use
from asyncq.domain.address import Address
from tests.support import process_tasks

DSN = "postgresql://nobody@localhost:1/nowhere"


@resource
async def opened() -> Any:
    """A resource."""
    yield 1


async def coroutine() -> None:
    """A coroutine function."""


def with_context(ctx: JobContext) -> None:
    """A function with a context."""


def with_resource(pool: Any = use(opened)) -> None:
    """A function with a resource."""


def plain() -> None:
    """A function that another process can import."""


def local() -> Callable[[], None]:
    """A function inside of another one."""

    def inner() -> None:
        pass

    return inner


@pytest.mark.parametrize(
    ("handler", "options", "said"),
    [
        (plain, {"run_in": "fork"}, "run_in is 'fork', expected 'process'"),
        (coroutine, {}, "a coroutine function runs in the event loop"),
        (with_context, {}, "a handler in another process has no context"),
        (with_resource, {}, "a handler in another process takes no resources: leave 'pool' out"),
        (lambda: None, {"name": "x"}, "another process cannot import .*<lambda>"),
        (local(), {}, "another process cannot import .*local.<locals>.inner"),
        (partial(plain), {}, "another process cannot import functools.partial"),
        ("".join, {"name": "x"}, "another process cannot import <built-in method join"),
        (plain, {"transactional": True}, "a transactional handler is a coroutine function"),
        (plain, {"completes": True}, "completes=True is for handlers that call ctx.complete"),
        (plain, {"timeout": Timeout(soft=1)}, "which a handler in another process lacks"),
    ],
)
def test_a_handler_that_no_process_can_run_is_refused_at_import(
    handler: Any, options: dict[str, Any], said: str
) -> None:
    """The first job would be too late."""
    with pytest.raises(TaskError, match=said):
        task(**{"run_in": "process", **options})(handler)


def test_a_process_may_have_a_hard_time_limit() -> None:
    """It can be killed, unlike a thread."""
    assert Address(__name__, "plain") == task(run_in="process", timeout="30 s")(plain).address


@pytest.mark.parametrize(
    "of", [process_tasks.compute, process_tasks.who.renamed("other"), task(run_in="process")(plain)]
)
def test_a_worker_accepts_what_another_process_can_import(of: Any) -> None:
    """A static method, a task with another name, and a function that is no task in its module."""
    assert Worker(DSN, [of]) is not None


def test_a_function_of_the_program_itself_is_refused() -> None:
    """To import it, another process would have to run the program."""

    def alone() -> None:
        pass

    alone.__module__, alone.__qualname__ = "__main__", "alone"
    found = task(run_in="process")(alone)

    with pytest.raises(TaskError, match=r"belongs to the program itself \(__main__\): move it into a module"):
        Worker(DSN, [found])


def test_a_function_that_its_module_does_not_have_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name leads to something else there."""
    module = types.ModuleType("elsewhere")
    monkeypatch.setitem(sys.modules, "elsewhere", module)

    def gone() -> None:
        pass

    gone.__module__, gone.__qualname__ = "elsewhere", "gone"
    found = task(run_in="process")(gone)

    with pytest.raises(TaskError, match=r"task 'gone': another process cannot import elsewhere\.gone"):
        Worker(DSN, [found])


def test_a_packed_program_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its executable is no interpreter."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)

    with pytest.raises(ConfigurationError, match="run_in='process' of task 'who' needs Linux or macOS, and a Python"):
        Worker(DSN, [process_tasks.who])
