"""Recurring items with each overlap policy, whose jobs a limit, a rate, a fair key, a queue or a pause holds back."""

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg
import pytest

from asyncq import Client, CronItem, JobContext, Limit, Rate, Task, task
from asyncq.domain.cron.overlap import Overlap
from asyncq.domain.events import JobCompleted, JobStarted
from asyncq.engine.fetch import fetcher
from asyncq.testing import MovableClock, make_worker
from tests.support.seen import Seen
from tests.support.stage import MINUTE, START
from tests.support.waiting import wait_until

HELD_BACK: dict[str, dict[str, Any]] = {
    "limit": {"concurrency": Limit(1, by="tenant")},
    "total": {"concurrency": 1},
    "rate": {"rate": Rate(1, per="1 min", by="tenant")},
    "fair": {"fair": "tenant"},
    "queue": {"queue": "line"},
    "pause": {},
    "limit and pause": {"concurrency": Limit(1, by="tenant")},
}
# The minutes whose slots run to their end, if each job runs or waits when the next slot is due.
RUN: dict[Overlap, list[int]] = {"allow": [1, 2, 3], "skip": [1], "replace": [3]}


def made(handler: Callable[..., Any], options: dict[str, Any]) -> Task[...]:
    """Make a task."""
    make: Any = task  # Its overloads do not match a dict.
    return make(**options)(handler)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No claim is returned because its handler starts late: it would count for the rate, and the clock stands still."""
    monkeypatch.setattr(fetcher, "latest_start_s", lambda *_: 60.0)


@pytest.mark.parametrize("overlap", RUN)
@pytest.mark.parametrize("held_back", HELD_BACK)
async def test_no_slot_is_lost_or_doubled_and_no_job_is_left(
    dsn: str, schema: str, client: Client, db: asyncpg.Connection, seen: Seen, held_back: str, overlap: Overlap
) -> None:
    """Three slots come due while the jobs of the item run or wait; then all may run."""
    go, minutes = asyncio.Event(), dict[int, int]()

    async def handle(tenant: str, ctx: JobContext) -> None:
        minutes[ctx.job.id] = (ctx.job.run_at - START).seconds // 60 + 1
        await go.wait()

    work = made(handle, HELD_BACK[held_back])

    async def last_slot() -> int:
        last = await db.fetchval(f"select last_execution from {schema}.known_crontabs")
        return 0 if last is None else (last - START).seconds // 60 + 1

    async def waiting() -> int:
        return await db.fetchval(f"select count(*) from {schema}._all_jobs()")

    async def seen_slot(minute: int) -> bool:
        return await last_slot() == minute

    async def fewer_than(jobs: int) -> bool:
        return await waiting() < jobs

    item = CronItem(work, "* * * * *", identifier="item", payload={"tenant": "a"}, overlap=overlap)
    options: dict[str, Any] = {"schema": schema, "observers": [seen], "poll": 60, "concurrency": 5}
    async with MovableClock(dsn, schema) as clock:
        await clock.set(START)
        if "pause" in held_back:
            await client.admin.pause(task=work.name)
        async with make_worker(dsn, [work], crontab=[item], **options).start():
            for minute in (1, 2, 3):
                await clock.move(MINUTE)
                await wait_until(lambda now=minute: seen_slot(now), description=f"the slot of minute {minute}")
                if minute == 1 and "pause" not in held_back:
                    await seen.wait_for(JobStarted)
            await client.cron.pause("item")
            if "pause" in held_back:
                assert [] == seen.of(JobStarted)
                await client.admin.resume(task=work.name)
            go.set()
            while left := await waiting():
                await clock.move(2 * MINUTE)  # For a rate, each time one more may start.
                await wait_until(lambda most=left: fewer_than(most), description="the end of a job")

    assert RUN[overlap] == sorted(minutes[id_] for id_ in seen.ids(JobCompleted))
    assert len(seen.of(JobCompleted)) == len({*seen.ids(JobCompleted)})
