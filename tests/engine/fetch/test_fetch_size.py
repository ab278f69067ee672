"""How many jobs one fetch takes."""

import asyncio
from typing import Any

import pytest

from asyncq import Client, task
from asyncq.domain.job import Claim
from asyncq.engine.fetch import fetcher, inbox, schedule
from asyncq.engine.fetch.fetch_size import AIM_S, LEAST, MOST, FetchSize
from tests.engine.conftest import MakeWorker

LONG_S = 5 * AIM_S


@task
async def nothing() -> None:
    """The least job."""


@pytest.mark.parametrize(
    ("claims", "duration_s", "size"),
    [
        (MOST, AIM_S / 2, MOST),
        (MOST, AIM_S, MOST),
        (MOST, 1.5 * AIM_S, MOST // 1.5),
        (MOST, 100 * AIM_S, LEAST),
        (LEAST, 2 * AIM_S, LEAST),
        (LEAST + 50, AIM_S, LEAST + 50),
        (MOST, 0.0, MOST),
    ],
)
def test_a_fetch_takes_as_many_as_it_claims_in_time(claims: int, duration_s: float, size: float) -> None:
    """Jobs of queues cost several times as much as others: 500 at once would keep all of them from running for long."""
    batch = FetchSize()
    batch.took(claims, duration_s, of_queues=True)

    assert size == batch.size


def test_what_few_claims_took_says_nothing() -> None:
    """One job in 2 ms is no reason to take fewer of the next thousand."""
    batch = FetchSize()
    batch.took(LEAST - 1, 10 * AIM_S, of_queues=True)
    batch.took(0, 10 * AIM_S, of_queues=True)

    assert batch.size == MOST


def test_a_batch_grows_again() -> None:
    """The server was busy with something else, and is not any more."""
    batch = FetchSize()
    batch.took(MOST, 100 * AIM_S, of_queues=True)
    while batch.size < MOST:
        before = batch.size
        batch.took(batch.size, AIM_S / 2, of_queues=True)
        assert batch.size > before

    assert batch.size == MOST


def test_jobs_without_a_queue_are_taken_in_full_batches() -> None:
    """However long they took: with two workers on two cores smaller ones made both a tenth slower."""
    batch = FetchSize()
    batch.took(MOST, 100 * AIM_S, of_queues=True)
    batch.took(LEAST, 100 * AIM_S, of_queues=False)

    assert batch.size == MOST


@pytest.mark.parametrize(("queue", "then"), [("queue {}", LEAST), (None, MOST)], ids=["of queues", "without"])
async def test_a_worker_whose_fetches_of_queues_take_long_takes_fewer_jobs_at_once(
    client: Client, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch, queue: str | None, then: int
) -> None:
    """All its slots are free, and still it asks for the least: more would not come in time."""
    real, brought = fetcher.fetch_jobs, list[int]()

    async def fetch(*args: Any) -> list[Claim]:
        claims = await real(*args)
        await asyncio.sleep(LONG_S)
        brought.append(len(claims))
        return claims

    options = [{"queue": queue.format(number)} if queue else {} for number in range(1_000)]
    await client.add_jobs([nothing.job().with_options(**one) for one in options])
    monkeypatch.setattr(fetcher, "fetch_jobs", fetch)
    # As if all slots were free: it asks for as many as one fetch may take.
    monkeypatch.setattr(schedule, "wanted_now", lambda *given: given[3])
    # Claims that wait for a slot, or came late, do not go back, to be fetched twice.
    monkeypatch.setattr(inbox, "STALE_S", 3600.0)
    monkeypatch.setattr(fetcher, "HALF_GRACE_S", 3600.0)
    await make_worker(nothing, concurrency=MOST).run_once()

    assert (MOST, then, 1_000) == (brought[0], max(brought[1:]), sum(brought))
