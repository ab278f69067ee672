"""Rates say how many jobs of a task start in a time. A handler can let its key wait, such as after a 429."""

from datetime import timedelta

import pytest

from asyncq import Client, JobContext, Limit, Rate, RetryAfter, task
from asyncq.testing import MovableClock, run_due


@pytest.mark.parametrize("by", [None, "api_key"], ids=["of the task", "of each key"])
async def test_no_more_jobs_start_in_a_time_than_the_rate_allows(
    dsn: str, schema: str, client: Client, by: str | None
) -> None:
    """Those that wait lose no attempt. They start as soon as the rate allows."""
    started: list[int] = []

    @task(rate=Rate(2, per="1 min", by=by))
    async def call(ctx: JobContext, api_key: str) -> None:
        started.append(ctx.attempt)

    async with MovableClock(dsn, schema) as clock:
        await run_due(dsn, [call], schema=schema)
        await client.add_jobs([call.job(api_key="k") for _ in range(5)])
        counts: list[int] = []
        for _ in range(4):
            await run_due(dsn, [call], schema=schema)
            counts.append(len(started))
            await clock.move(timedelta(seconds=35))  # Starts count for 63 s to 69.3 s.

    assert counts == [2, 2, 4, 4]
    assert started == [1] * 4


async def test_a_refused_key_waits_and_other_keys_go_on(dsn: str, schema: str, client: Client) -> None:
    """RetryAfter with partition=True holds the jobs of its key back, and costs no attempt."""
    calls: list[tuple[str, int]] = []

    @task(concurrency=Limit(1, by="api_key"))
    async def call(ctx: JobContext, api_key: str) -> None:
        calls.append((api_key, ctx.attempt))
        if calls == [("busy", 1)]:
            raise RetryAfter(30, "429 Too Many Requests", partition=True)

    async with MovableClock(dsn, schema) as clock:
        await run_due(dsn, [call], schema=schema)
        await client.add_jobs([call.job(api_key=key) for key in ("busy", "busy", "idle")])
        await run_due(dsn, [call], schema=schema)
        before = [*calls]
        await clock.move(timedelta(seconds=31))
        await run_due(dsn, [call], schema=schema)

    assert sorted(before) == [("busy", 1), ("idle", 1)]
    assert calls[2:] == [("busy", 1), ("busy", 1)]


async def test_a_handler_can_let_its_queue_wait_and_go_on(dsn: str, schema: str, client: Client) -> None:
    """The job that asks for it completes; the next one of its queue waits."""

    @task(queue="mail")
    async def send(ctx: JobContext) -> None:
        await ctx.back_off("1 min")

    async with MovableClock(dsn, schema) as clock:
        first, second = await client.add_jobs([send.job(), send.job()])
        at_once = await run_due(dsn, [send], schema=schema)
        await clock.move(timedelta(seconds=61))
        later = await run_due(dsn, [send], schema=schema)

    assert [first.id] == at_once.completed
    assert [second.id] == later.completed
