"""A worker in a program that has not set up logging says once how that is done."""

import subprocess
import sys
from pathlib import Path

import pytest
from anyio.to_thread import run_sync

from asyncq.log.hint import HINT
from tests.support.cli import environment

PROGRAM = Path(__file__).parents[1] / "support" / "log_program.py"


async def stderr_of(dsn: str, schema: str, how: str) -> str:
    """The stderr of the program."""
    words = [sys.executable, str(PROGRAM), dsn, schema, how]
    done = await run_sync(lambda: subprocess.run(words, env=environment(), capture_output=True, timeout=40))
    assert 0 == done.returncode, done.stderr.decode()
    return done.stderr.decode()


@pytest.mark.parametrize("how", ["plain", "run"])
async def test_a_worker_without_logging_prints_once_how_to_enable_it(dsn: str, schema: str, how: str) -> None:
    """Otherwise the user cannot see that it runs; two workers of a process log it once."""
    assert HINT == await stderr_of(dsn, schema, how)
    assert 1 == HINT.count("\n")


@pytest.mark.parametrize("how", ["null", "observed", "once", "no stderr"])
async def test_a_worker_with_a_log_handler_or_silenced_on_purpose_prints_no_hint(
    dsn: str, schema: str, how: str
) -> None:
    """The log handler may be of any kind; observers and scripts that run due jobs print no hint either."""
    assert "" == await stderr_of(dsn, schema, how)


async def test_a_worker_with_logging_gives_no_hint(dsn: str, schema: str) -> None:
    """Its log says enough."""
    said = await stderr_of(dsn, schema, "basic")

    assert "asyncq:worker " in said
    assert HINT not in said
