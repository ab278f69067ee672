"""Every worker of a process receives a signal, and earlier signal handlers are restored."""

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import anyio
import pytest

from asyncq import task
from asyncq.domain.events import WorkerStarted, WorkerStopping
from asyncq.engine.signals import StoppedEarly, early_signals, signals
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen
from tests.support.waiting import wait_until

BOTH = (signal.SIGTERM, signal.SIGINT)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in BOTH}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@task
async def nothing() -> None:
    """Nothing."""


async def test_the_signal_handlers_of_before_are_back_afterwards() -> None:
    """A service that runs a worker for a while keeps its own."""

    def mine(*args: object) -> None:
        pass

    asked: list[str] = []
    signal.signal(signal.SIGTERM, mine)
    with signals(asked.append):
        signal.raise_signal(signal.SIGTERM)
        await wait_until(lambda: bool(asked), description="the signal")

    assert (["SIGTERM"], mine) == (asked, signal.getsignal(signal.SIGTERM))


async def test_earlier_signal_handlers_of_the_event_loop_are_restored() -> None:
    """A service that has its own way to stop, and runs a worker once, is still stopped by a signal."""
    asked: list[str] = []
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, asked.append, "the service")
    try:
        with signals(lambda name: None):
            pass
        signal.raise_signal(signal.SIGTERM)
        await wait_until(lambda: bool(asked), description="the signal")
    finally:
        loop.remove_signal_handler(signal.SIGTERM)

    assert ["the service"] == asked


async def test_a_signal_handler_that_python_does_not_know_becomes_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was set by C code cannot be put back; a signal ends the process afterwards, as it would anywhere."""
    real: Any = signal.signal

    def without_a_word(number: int, handler: Any) -> None:
        real(number, handler)

    with monkeypatch.context() as patch:
        patch.setattr(signal, "signal", without_a_word)
        with signals(lambda name: None):
            pass

    assert [signal.SIG_DFL, signal.default_int_handler] == [signal.getsignal(number) for number in BOTH]


async def test_outside_of_the_main_thread_signals_are_not_handled() -> None:
    """Python allows handlers there only; a worker in a thread is stopped by `stop()`."""

    async def enter() -> str:
        with signals(lambda name: None):
            return "entered"

    assert "entered" == await anyio.to_thread.run_sync(lambda: asyncio.run(enter()))


async def test_a_worker_in_a_thread_may_outlive_the_one_that_receives_signals() -> None:
    """It receives no signals, and must not restore handlers that belong to the main thread."""
    entered, leave = threading.Event(), threading.Event()

    async def outlive() -> str:
        with signals(lambda name: None):
            entered.set()
            await anyio.to_thread.run_sync(leave.wait)
        return "left"

    before = signal.getsignal(signal.SIGTERM)
    ended: list[str] = []

    async def in_a_thread() -> None:
        ended.append(await anyio.to_thread.run_sync(lambda: asyncio.run(outlive())))

    async with anyio.create_task_group() as group:
        with signals(lambda name: None):
            group.start_soon(in_a_thread)
            await anyio.to_thread.run_sync(entered.wait)
        after = signal.getsignal(signal.SIGTERM)
        leave.set()

    assert (["left"], before) == (ended, after)


async def test_one_signal_stops_all_workers_of_a_process(make_worker: MakeWorker, seen: Seen) -> None:
    """The order in which the workers started does not matter."""
    async with anyio.create_task_group() as group:
        group.start_soon(make_worker(nothing).run)
        group.start_soon(make_worker(nothing).run)
        await seen.wait_for(WorkerStarted, 2)
        signal.raise_signal(signal.SIGTERM)

    assert ["SIGTERM", "SIGTERM"] == [event.reason for event in seen.of(WorkerStopping)]


@pytest.mark.parametrize("leaves", [0, 1])
async def test_a_worker_that_ends_leaves_the_signals_to_the_other(leaves: int) -> None:
    """The order of the starts does not matter. Without a handler a signal would end the process and its jobs."""
    signal.signal(signal.SIGTERM, lambda *_: None)  # so that an unhandled signal does not end this process
    asked: list[list[str]] = [[], []]
    blocks = [signals(each.append) for each in asked]
    for block in blocks:
        block.__enter__()
    blocks[leaves].__exit__(None, None, None)
    try:
        signal.raise_signal(signal.SIGTERM)
        await wait_until(lambda: bool(asked[1 - leaves]), description="the signal")
    finally:
        blocks[1 - leaves].__exit__(None, None, None)

    assert ([], ["SIGTERM"]) == (asked[leaves], asked[1 - leaves])


# Handlers that were set before are called too


async def test_the_handler_of_before_is_called_too() -> None:
    """A web server in whose lifespan a worker runs has to end at the first SIGTERM."""
    called: list[int] = []
    asked: list[str] = []
    for number in BOTH:
        signal.signal(number, lambda number, _: called.append(number))
    with signals(asked.append):
        for number in BOTH:
            signal.raise_signal(number)
        await wait_until(lambda: len(asked) == 2, description="the signals")

    assert (["SIGTERM", "SIGINT"], list(BOTH)) == (asked, called)


async def test_two_workers_call_the_handler_of_before_once() -> None:
    """A server may count signals: the second one ends it by force."""
    called: list[int] = []
    asked: list[str] = []
    signal.signal(signal.SIGTERM, lambda number, _: called.append(number))
    with signals(asked.append), signals(asked.append):
        signal.raise_signal(signal.SIGTERM)
        await wait_until(lambda: len(asked) == 2, description="the signal")

    assert [signal.SIGTERM] == called


@pytest.mark.parametrize("number", BOTH, ids=str)
async def test_a_handler_that_calls_the_one_before_it_is_called_once(number: signal.Signals) -> None:
    """It was set while a worker ran, before a second worker: each replaced the handler of the other."""
    called: list[int] = []
    asked: list[str] = []
    signal.signal(number, signal.SIG_IGN)
    with signals(asked.append):
        ours: Any = signal.getsignal(number)

        def chained(number: int, frame: Any) -> None:
            called.append(number)
            ours(number, frame)

        signal.signal(number, chained)
        with signals(lambda name: None):
            signal.raise_signal(number)
            await wait_until(lambda: bool(asked), description="the signal")

    assert [number] == called


def test_the_handler_of_asyncio_run_is_not_called() -> None:
    """It would cancel the main task, which may have more to do than the worker; that one stops in order."""
    asked: list[str] = []
    signal.signal(signal.SIGINT, signal.default_int_handler)

    async def main() -> str:
        with signals(asked.append):
            signal.raise_signal(signal.SIGINT)
            await wait_until(lambda: bool(asked), description="the signal")
        return "went on"

    assert ("went on", ["SIGINT"]) == (asyncio.run(main()), asked)


@pytest.mark.parametrize("before", [signal.SIG_DFL, signal.SIG_IGN, signal.default_int_handler], ids=str)
async def test_a_handler_of_python_or_of_the_system_is_not_called(before: Any) -> None:
    """The worker stops in order; they would end the process at once, or do nothing."""
    asked: list[str] = []
    signal.signal(signal.SIGINT, before)
    with signals(asked.append):
        signal.raise_signal(signal.SIGINT)
        await wait_until(lambda: bool(asked), description="the signal")

    assert ["SIGINT"] == asked


# Signals that come before a worker


async def test_a_signal_from_before_the_worker_reaches_it() -> None:
    """It arrived after the tasks were loaded, and before the event loop ran."""
    asked: list[str] = []
    with early_signals() as early:
        signal.raise_signal(signal.SIGTERM)
        with signals(asked.append):
            pass
        left = early.names

    assert (["SIGTERM"], []) == (asked, left)


@pytest.mark.parametrize("number", BOTH, ids=str)
def test_a_signal_interrupts_long_imports(number: signal.Signals) -> None:
    """An import of the user's; also where that makes another error of it, or none."""

    def rename() -> None:
        try:
            signal.raise_signal(number)
        except BaseException:  # noqa: BLE001 - as such code would
            raise ValueError("the import failed") from None

    def swallow() -> None:
        with suppress(BaseException):
            signal.raise_signal(number)

    stopped: list[str] = []
    for work in (rename, swallow, lambda: signal.raise_signal(number)):
        with early_signals() as early:
            try:
                with early.interrupt():
                    work()
            except StoppedEarly as error:
                stopped.append(str(error))

    assert [number.name] * 3 == stopped


def test_a_signal_from_before_the_work_lets_it_not_begin() -> None:
    """The command was still reading its options."""
    began: list[str] = []
    with early_signals() as early:
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(StoppedEarly, match="SIGTERM"), early.interrupt():
            began.append("began")

    assert [] == began


def test_without_a_worker_the_handlers_of_before_are_back() -> None:
    """The command failed before it had a worker to run."""
    before = [signal.getsignal(number) for number in BOTH]
    with early_signals():
        during = [signal.getsignal(number) for number in BOTH]

    assert (before, False) == ([signal.getsignal(number) for number in BOTH], during == before)
