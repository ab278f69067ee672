"""Three processes with the same crontab, on one server: each slot becomes one job, and each of them has its share."""

import sys
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from asyncq.testing import MovableClock

CHECKOUT = Path(__file__).parents[3]
MINUTE = timedelta(minutes=1)
MINUTES = 60
PROCESSES = 3
CRONTAB = "* * * * * first\n* * * * * second\n*/2 * * * * third ?queue=q"


@pytest.fixture
async def processes(dsn: str, schema: str) -> AsyncIterator[list[Process]]:
    """The processes, which wait for a line."""
    words = ["-m", "tests.support.cron_program", dsn, schema, CRONTAB]
    started = [
        await create_subprocess_exec(sys.executable, *words, stdin=PIPE, stdout=PIPE, cwd=CHECKOUT)
        for _ in range(PROCESSES)
    ]
    yield started
    for process in started:
        assert process.stdin is not None
        process.stdin.close()
    assert [0] * PROCESSES == [await process.wait() for process in started]


async def round_of(processes: list[Process], first: int) -> list[int]:
    """Let all make a round at once, and wait for all; returns how many jobs each has added."""
    for process in processes[first:] + processes[:first]:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
    counts: list[int] = []
    for process in processes:
        assert process.stdout is not None
        counts.append(int(await process.stdout.readline()))
    return counts


async def test_of_three_processes_one_adds_each_slot(
    dsn: str, schema: str, db: asyncpg.Connection, processes: list[Process]
) -> None:
    """All processes see each minute at the same moment, for an hour; another one is first each time."""
    won: list[int] = []
    async with MovableClock(dsn, schema) as clock:
        start = await clock.set(datetime(2024, 5, 1, 12, 0, 30, tzinfo=UTC))
        await round_of(processes, 0)
        for minute in range(MINUTES):
            await clock.set(start + (minute + 1) * MINUTE)  # However long the rounds before took.
            won.append([count > 0 for count in await round_of(processes, minute % PROCESSES)].index(True))
    rows = await db.fetch(f"select task_identifier as task, run_at from {schema}.jobs")

    slots = Counter((row["task"], row["run_at"]) for row in rows)
    assert {"first": 60, "second": 60, "third": 30} == Counter(row["task"] for row in rows)
    assert {1} == {*slots.values()}
    assert {start.replace(second=0, microsecond=0) + n * MINUTE for n in range(1, MINUTES + 1)} == {
        at for task, at in slots if task == "first"
    }
    assert {*range(PROCESSES)} == {*won}
