"""Ctrl-C during a coroutine of a command."""

import asyncio
import signal

import pytest

from asyncq.cli.finish import finish


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
