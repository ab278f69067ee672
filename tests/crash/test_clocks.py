"""A worker's own clock has no influence: jobs, leases and recurring items follow the server's clock.

libfaketime moves the clock of one running process by minutes. Without libfaketime these tests are skipped.
"""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from asyncq import Client
from asyncq.testing import MovableClock
from tests.crash.clocks import MISSING, ProcessClock, library
from tests.engine.test_shutdown import ROOT, Program
from tests.support.stage import MINUTE, START
from tests.support.waiting import wait_until

LEASE_S = 3.0
JUMPS = [timedelta(minutes=10), timedelta(minutes=-10)]

pytestmark = [
    pytest.mark.crash,
    pytest.mark.leaves_something,  # a killed worker
]
SHOW = "import sys, time\nfor line in sys.stdin:\n    print(time.time(), time.monotonic(), flush=True)"
SHOW_TRUE = """
import time
from tests.crash.clocks import true_ns
print(true_ns(time.CLOCK_REALTIME) / 1e9, true_ns(time.CLOCK_MONOTONIC) / 1e9)
"""


@pytest.fixture(autouse=True)
def needs_library() -> None:
    """Find the library on demand, since it may have to be downloaded."""
    if library() is None:
        pytest.skip(MISSING)


@asynccontextmanager
async def process(clock: ProcessClock, *words: str) -> AsyncIterator[Program]:
    """A Python process with a moved clock; killed at the end if it still runs."""
    variables = {**os.environ, **clock.variables}
    started = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdin=PIPE, stdout=PIPE, cwd=ROOT, env=variables
    )
    try:
        yield Program(started)
    finally:
        if started.returncode is None:
            started.kill()
        await started.communicate()


async def answer(program: Program) -> str:
    """Send a line to a process, and return its answer."""
    assert program.process.stdin is not None
    assert program.process.stdout is not None
    program.process.stdin.write(b"\n")
    return (await program.process.stdout.readline()).decode()


def worker(clock: ProcessClock, dsn: str, schema: str) -> AbstractAsyncContextManager[Program]:
    """A worker process whose clock can be moved."""
    return process(clock, "-m", "tests.support.lease_program", dsn, schema, str(LEASE_S), "listen")


@pytest.mark.parametrize("moves_monotonic", [False, True], ids=["set", "kept from running"])
async def test_the_clock_of_a_process_is_moved_while_it_runs(tmp_path: Path, moves_monotonic: bool) -> None:
    """The other tests of this file rely on it. The clock of the test process stays."""
    clock = ProcessClock(tmp_path / "clock", moves_monotonic=moves_monotonic)
    async with process(clock, "-c", SHOW) as shows:
        real, steady = map(float, (await answer(shows)).split())
        clock.move_to(timedelta(hours=1))
        later, later_steady = map(float, (await answer(shows)).split())

    assert (True, moves_monotonic) == (later - real >= 3600, later_steady - steady >= 3600)


async def test_a_moved_process_can_read_the_true_time(tmp_path: Path) -> None:
    """Its handlers record their runs with the true time."""
    clock = ProcessClock(tmp_path / "clock", moves_monotonic=True)
    clock.move_to(timedelta(hours=1))
    before = datetime.now(UTC).timestamp(), asyncio.get_running_loop().time()
    async with process(clock, "-c", SHOW_TRUE) as shows:
        real, steady = map(float, (await answer(shows)).split())

    assert (True, True) == (0 <= real - before[0] < 60, 0 <= steady - before[1] < 60)


@pytest.mark.parametrize("by", JUMPS, ids=str)
async def test_a_job_is_due_by_the_servers_clock_though_its_workers_jumps(
    dsn: str, schema: str, client: Client, tmp_path: Path, by: timedelta
) -> None:
    """The job is neither early nor late: the worker asks the server how long to wait."""
    clock = ProcessClock(tmp_path / "clock", moves_monotonic=False)
    async with worker(clock, dsn, schema) as runs:
        first = await client.add_job("hold", {"how": "on"})
        await runs.says(f"started {first.id}")
        due = datetime.now(UTC) + timedelta(seconds=0.5)
        job = await client.add_job("hold", {"how": "on"}, run_at=due)
        clock.move_to(by)
        await client.add_job("hold", {"how": "on"})  # It looks at its clock, and fetches, before the job is due.
        await runs.says(f"started {job.id}")
        late_s = (datetime.now(UTC) - due).total_seconds()

    assert 0 <= late_s < 10


@pytest.mark.parametrize("by", JUMPS, ids=str)
async def test_a_worker_whose_clock_is_set_keeps_its_lease_and_its_jobs(
    dsn: str, schema: str, client: Client, db: asyncpg.Connection, tmp_path: Path, by: timedelta
) -> None:
    """A lease is counted by a clock that is never set, and judged by the server's."""
    clock = ProcessClock(tmp_path / "clock", moves_monotonic=False)
    async with worker(clock, dsn, schema) as runs:
        first = await client.add_job("hold", {"how": "on"})
        await runs.says(f"started {first.id}")
        clock.move_to(by)
        began = await db.fetchval("select clock_timestamp()")

        async def beats() -> bool:
            seen = await db.fetchval(f"select last_seen from {schema}._workers")
            return seen > began + timedelta(seconds=LEASE_S / 2)

        await wait_until(beats, description="the heart to beat on")
        second = await client.add_job("hold", {"how": "on"})
        await runs.says(f"started {second.id}")

    assert [f"started {first.id}", f"started {second.id}"] == [
        line for line in runs.lines if line.startswith(("started", "cancelled", "event WorkerLost", "event LeaseIn"))
    ]


async def test_a_worker_that_seems_to_have_slept_stops_its_jobs_and_comes_back(
    dsn: str, schema: str, client: Client, tmp_path: Path
) -> None:
    """A machine that slept looks the same: the lease may be over, and other workers may have taken the jobs."""
    clock = ProcessClock(tmp_path / "clock", moves_monotonic=True)
    async with worker(clock, dsn, schema) as runs:
        job = await client.add_job("hold", {"how": "on"})
        await runs.says(f"started {job.id}")
        clock.move_to(timedelta(minutes=10))
        await runs.says(f"cancelled {job.id}")
        runs.lines.clear()
        await runs.says(f"started {job.id}")

    assert f"started {job.id}" == runs.lines[-1]


async def test_slots_come_by_the_clock_of_the_schema_and_none_comes_twice(
    dsn: str, schema: str, db: asyncpg.Connection, tmp_path: Path
) -> None:
    """The clock of the process that adds the slots has no influence."""
    clock = ProcessClock(tmp_path / "clock", moves_monotonic=False)
    added: list[str] = []
    async with (
        MovableClock(dsn, schema) as movable,
        process(clock, "-m", "tests.support.cron_program", dsn, schema, "* * * * * tick") as cron,
    ):
        await movable.set(START)
        added.append(await answer(cron))
        for by in JUMPS:
            clock.move_to(by)
            added.append(await answer(cron))
            await movable.move(MINUTE)
            added.append(await answer(cron))
    slots = await db.fetch(f"select run_at from {schema}.jobs order by 1")

    assert "0 0 1 0 1" == " ".join(said.strip() for said in added)
    assert [START + timedelta(seconds=30), START + timedelta(seconds=90)] == [row["run_at"] for row in slots]
