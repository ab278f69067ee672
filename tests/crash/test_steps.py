"""SIGKILL of the worker around a step: the next run knows what was committed."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from asyncq import Client
from tests.engine.test_shutdown import ROOT, Program
from tests.support import step_program
from tests.support.effects import Effects

pytestmark = [
    pytest.mark.crash,
    pytest.mark.leaves_something,  # a killed worker
]


@asynccontextmanager
async def process(dsn: str, schema: str, when: str) -> AsyncIterator[Program]:
    """A worker that kills itself at a moment; killed at the end if it still runs."""
    words = ["-m", "tests.support.step_program", dsn, schema, when]
    started = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=PIPE, cwd=ROOT)
    try:
        yield Program(started)
    finally:
        if started.returncode is None:
            started.kill()
        await started.communicate()


@pytest.mark.parametrize(
    ("kind", "when", "calls", "kept"),
    [
        # It wrote in a transaction of its own: it is done twice.
        ("step", "before", 2, 2),
        ("step", "after", 1, 1),
        ("tx_step", "before", 2, 1),
        ("tx_step", "after", 1, 1),
    ],
)
async def test_a_worker_is_killed_around_a_step(
    client: Client, db: asyncpg.Connection, dsn: str, schema: str, kind: str, when: str, calls: int, kept: int
) -> None:
    """After the commit it is not called again. Before it, the function is, and what a tx_step wrote is gone."""
    effects = Effects(db, schema)
    await effects.create()
    try:
        job = await client.add_job(step_program.handle, kind)
        async with process(dsn, schema, when) as first:
            output, _ = await first.process.communicate()
        async with process(dsn, schema, "never") as second:
            await second.says("event JobCompleted")
        written = await effects.kept()
    finally:
        await effects.drop()

    assert -signal.SIGKILL == first.process.returncode
    assert calls == [*output.decode().splitlines(), *second.lines].count("called")
    assert [job.id] * kept == written
