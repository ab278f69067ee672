"""The cost of a week of an item of each minute: computing its 10,080 slots, and filling them in at a worker's start."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import asyncpg

from asyncq import CronAdded, CronBackfilled, CronItem, Worker, observer
from asyncq.domain.cron.slot import slots
from benchmarks.work import clear

WEEK = timedelta(days=7)
SLOTS = 7 * 24 * 60
MISSED = """
insert into asyncq.known_crontabs (identifier, known_since, last_execution)
values ('noop', now() - interval '30 days', date_trunc('minute', now()) - interval '7 days')
on conflict (identifier) do update set last_execution = excluded.last_execution
"""


def match_week() -> dict[str, float]:
    """Find the slots of a week, by an expression in a zone.

    Returns:
        Milliseconds of CPU an item: one that is due each minute, and one that is due now and then.
    """
    figures: dict[str, float] = {}
    for name, match in {"minutes": "* * * * *", "mornings": "*/7 3-9 1-20 * 1-5"}.items():
        item = CronItem("noop", match, tz="Europe/Berlin")
        start = datetime(2026, 3, 26, tzinfo=UTC)  # the clocks change in this week
        began = time.process_time()
        found = sum(1 for _ in slots(item, start, start + WEEK))
        figures[f"cron_match_week_of_{name}_ms"] = (time.process_time() - began) * 1e3
        if name == "minutes" and found != SLOTS:
            raise SystemExit(f"cron: {found} slots in a week of minutes")
    return figures


async def fill_week(dsn: str) -> dict[str, float]:
    """Start a worker that missed a week of a minute's item, with a fill of a week.

    Args:
        dsn: The server.

    Returns:
        Seconds from the start of the worker to the last commit.
    """
    connection = await asyncpg.connect(dsn)
    await connection.execute(MISSED)
    await connection.close()
    filled = asyncio.Event()
    jobs = 0

    @observer(CronBackfilled, CronAdded)
    def watch(event: CronBackfilled | CronAdded) -> None:
        nonlocal jobs
        jobs += len(event.job_ids)
        if jobs >= SLOTS:
            filled.set()

    item = CronItem("noop", "* * * * *", fill=WEEK + timedelta(hours=1))
    began = time.perf_counter()
    async with Worker(dsn, [], crontab=item, observers=[watch]).start(), asyncio.timeout(60):
        await filled.wait()
        took_s = time.perf_counter() - began
    await clear(dsn, jobs)
    return {"cron_fill_week_s": took_s}
