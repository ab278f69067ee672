"""Limits the time of a test and of its teardown, also if a coroutine hangs.

pytest-timeout raises an exception once, wherever the main thread is. That is not enough here: anyio runs all tests and
async fixtures in one task. The exception leaves the event loop, but the coroutine that hangs keeps the task, and the
teardowns wait behind it for ever. And a test that failed has no time limit any more.

So this task is cancelled and replaced when a time is over, and each teardown has a time limit of its own. The alarm
repeats, since a callback of the event loop may have swallowed the exception.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
from collections.abc import Generator, Iterator
from types import FrameType
from typing import Any

import pytest
import pytest_timeout
from anyio import pytest_plugin

TEARDOWN_S = 120.0
"""For the teardown of a test; the last one stops servers."""
AGAIN_S = 30.0
"""Between two alarms. A test that was cancelled may take as long to end, before its fixtures are torn down."""

_cancelled = set[asyncio.Task[Any]]()


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: pytest_timeout.Settings) -> Generator[None, object, object]:
    """Let the alarm of pytest-timeout be ours, if it is one."""
    done = yield
    if settings.method == "signal" and threading.current_thread() is threading.main_thread():
        _set_alarm(settings.timeout, f"{item.nodeid} took over {settings.timeout:g} s")
    return done


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Let a cancelled test end first, and limit the teardown."""
    _set_alarm(TEARDOWN_S, f"the teardown of {item.nodeid} took over {TEARDOWN_S:g} s")
    try:
        for task in [*_cancelled]:
            _cancelled.remove(task)
            task.get_loop().run_until_complete(asyncio.wait({task}, timeout=AGAIN_S))
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _set_alarm(seconds: float, message: str) -> None:
    def ring(_number: int, _frame: FrameType | None) -> None:
        if not pytest_timeout.is_debugging():
            pytest.fail(f"{message}\n{_replace_task()}")

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_S)


def _replace_task() -> str:
    """Cancel the task of tests and fixtures, and let the next one begin a new task; says where it waited."""
    runner: Any = pytest_plugin._current_runner
    task: asyncio.Task[Any] | None = runner and runner._runner_task
    if task is None or task.done():
        return ""
    # The frame of anyio's own loop is the first one.
    places = [*_places(task.get_coro())][1:]
    task.cancel()
    _cancelled.add(task)
    runner._send_stream.close()
    runner._runner_task = None
    return "\n".join(["The coroutine waited here:", *places])


def _places(coroutine: Any) -> Iterator[str]:
    """The lines at which a coroutine and those that it awaits have stopped, the innermost last."""
    while coroutine is not None:
        if (frame := getattr(coroutine, "cr_frame", None) or getattr(coroutine, "ag_frame", None)) is not None:
            yield f"  {frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"
            coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "ag_await", None)
        else:  # The step of an async generator, such as a fixture, does not name its generator.
            coroutine = next((each for each in gc.get_referents(coroutine) if hasattr(each, "ag_frame")), None)
