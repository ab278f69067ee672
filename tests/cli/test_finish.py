"""Ctrl-C during a coroutine of a command."""

import asyncio
import signal
import threading
import time

import pytest

from asyncq.cli.finish import finish
from tests.support.waiting import LIMIT_S


def call_fails() -> None:
    """As asyncpg on a late answer."""
    raise AttributeError("late")


@pytest.mark.parametrize("is_interrupted", [True, False])
def test_only_what_fails_after_an_interrupt_is_not_reported(
    is_interrupted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A driver may fail on the late answer to a statement that was cancelled."""

    async def work() -> str:
        if is_interrupted:
            signal.raise_signal(signal.SIGINT)
        asyncio.get_running_loop().call_soon(call_fails)
        await asyncio.sleep(0.01)
        return "done"

    if is_interrupted:
        with pytest.raises(KeyboardInterrupt):
            finish(work())
    else:
        assert "done" == finish(work())

    assert (not is_interrupted) == ("late" in caplog.text)


def test_an_interrupt_that_does_not_wake_the_event_loop_ends_the_work() -> None:
    """The system may give it to another thread, or to the first one just before that waits."""

    def interrupt() -> None:
        time.sleep(0.1)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    async def work() -> None:
        threading.Thread(target=interrupt).start()
        await asyncio.sleep(LIMIT_S)

    began_at = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        finish(work())

    assert time.monotonic() - began_at < LIMIT_S / 2
