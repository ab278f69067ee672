"""A rate counts claims. It holds for the starts of handlers too, whatever holds these up."""

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from asyncq import Client, JobCompleted, JobsReturned, JobStarted, Rate, task
from asyncq.engine.fetch import fetcher
from asyncq.engine.fetch.fetcher import OF_LATE
from asyncq.engine.job_loop import LATE
from asyncq.testing import MovableClock
from asyncq.testing import make_worker as make_test_worker
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen
from tests.support.waiting import wait_until

COUNT, PER_S = 3, 0.5


@task
async def warm_up() -> None:
    """Nothing that a rate counts."""


async def learn(client: Client, seen: Seen) -> None:
    """The worker learns how fast fetches of partitions are answered."""
    for number in range(OF_LATE):
        await client.add_job(warm_up, queue=f"q{number}")
        await seen.wait_for(JobCompleted, number + 1)


def slow_answers(patch: pytest.MonkeyPatch, slow_s: Callable[[int], float]) -> None:
    """The answer to a fetch of partitions comes so much later, given how many claims it brings."""
    fetch = fetcher.fetch_jobs

    async def slow(*args: Any, **options: Any) -> Any:
        answer = await fetch(*args, **options)
        if options["of_partitions"]:
            await asyncio.sleep(slow_s(len(answer.claims)))
        return answer

    patch.setattr(fetcher, "fetch_jobs", slow)


async def test_no_more_handlers_start_in_any_period_than_the_rate_says(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Handlers that block the event loop hold up claims, which would start together with those of the next period."""
    starts: list[float] = []

    @task(rate=Rate(COUNT, per=PER_S))
    async def call(number: int) -> None:
        starts.append(time.perf_counter())
        if number % 4 == 0:
            time.sleep(1.3 * PER_S)  # noqa: ASYNC251 - it has to block

    await make_worker(call).run_once()
    async with make_worker(call, warm_up, concurrency=10).start():
        await learn(client, seen)
        jobs = await client.add_jobs([call.job(number) for number in range(8)])
        await seen.wait_for(JobCompleted, OF_LATE + len(jobs))
    busiest = max(sum(0 <= other - start < PER_S for other in starts) for start in starts)

    assert (COUNT, len(jobs)) == (busiest, len(starts))
    assert {1} == {event.attempt for event in seen.of(JobCompleted)}


async def test_after_a_slow_fetch_jobs_start_whose_rate_has_a_long_period(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Returned claims count: each job would wait for a minute. The fetches before were fast."""

    @task(rate=Rate(1, per="1 min", by="key"))
    async def call(key: int) -> None:
        pass

    await make_worker(call).run_once()
    async with make_worker(call, warm_up, concurrency=10).start():
        await learn(client, seen)
        slow_answers(monkeypatch, lambda claims: 0.3)
        await client.add_jobs([call.job(key) for key in range(10)])
        await seen.wait_for(JobCompleted, OF_LATE + 10)

    assert [] == seen.of(JobsReturned)


async def test_fetches_become_so_small_that_their_jobs_can_start_in_time(
    dsn: str, schema: str, client: Client, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fetch for all slots takes too long here, and each time all its claims would be returned."""

    @task(rate=Rate(1, per="20 s", by="key"))  # A job has a second to start.
    async def call(key: int) -> None:
        pass

    await make_test_worker(dsn, [call], schema=schema).run_once()
    worker = make_test_worker(dsn, [call, warm_up], schema=schema, concurrency=100, observers=[seen], poll=60)
    async with MovableClock(dsn, schema) as clock, worker.start():
        await learn(client, seen)
        slow_answers(monkeypatch, lambda claims: claims * 0.011)
        jobs = await client.add_jobs([call.job(key) for key in range(100)])
        await seen.wait_for(JobsReturned)

        async def have_run() -> bool:
            await clock.move(timedelta(seconds=24))  # No start counts any more.
            await asyncio.sleep(0.5)
            return len(seen.of(JobCompleted)) == OF_LATE + len(jobs)

        await wait_until(have_run, description="the runs of all")


async def test_a_claim_that_has_waited_for_a_slot_too_long_goes_back_before_its_start_is_reported(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is not interrupted, which would count in the end."""

    @task(rate=Rate(1000, per=PER_S))
    async def call() -> None:
        pass

    await make_worker(call).run_once()
    await client.add_job(call)
    with monkeypatch.context() as patch:
        patch.setattr(fetcher, "latest_start_s", lambda *_: -60.0)
        worker = make_worker(call, concurrency=1)
        async with worker.start():
            await seen.wait_for(JobsReturned)
            patch.undo()
            await seen.wait_for(JobCompleted)

    assert {LATE} == {event.reason for event in seen.of(JobsReturned)}
    assert 1 == len(seen.of(JobStarted))


async def test_a_claim_that_no_rate_counts_starts_however_late(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To return it would only cost time. Each claim is late here."""

    @task(queue="q", concurrency=10)
    async def call() -> None:
        pass

    await make_worker(call).run_once()
    await client.add_jobs([call.job().with_options(queue=f"q{number}") for number in range(3)])
    monkeypatch.setattr(fetcher, "latest_start_s", lambda *_: -60.0)
    async with make_worker(call, concurrency=10).start():
        await seen.wait_for(JobCompleted, 3)

    assert [] == seen.of(JobsReturned)
