"""How many jobs one fetch takes."""

from typing import Any

import pytest

from asyncq import Client, task
from asyncq.engine.fetch import fetcher, inbox, schedule
from asyncq.store.claim import Fetched
from tests.engine.conftest import MakeWorker


@task
async def nothing() -> None:
    """The least job."""


@pytest.mark.parametrize(("queue", "then"), [("queue {}", 300), (None, 500)], ids=["of queues", "without"])
async def test_after_a_job_of_a_queue_a_worker_takes_fewer_jobs_at_once(
    client: Client, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch, queue: str | None, then: int
) -> None:
    """Jobs of queues cost several times as much as others: 500 at once would keep all of them from running for long."""
    real, brought = fetcher.fetch_jobs, list[int]()

    async def fetch(*args: Any, **named: Any) -> Fetched:
        fetched = await real(*args, **named)
        brought.extend([len(fetched.claims)] if fetched.claims else [])
        return fetched

    options = [{"queue": queue.format(number)} if queue else {} for number in range(1_000)]
    await client.add_jobs([nothing.job().with_options(**one) for one in options])
    monkeypatch.setattr(fetcher, "fetch_jobs", fetch)
    # As if all slots were free: it asks for as many as one fetch may take.
    monkeypatch.setattr(schedule, "wanted_now", lambda *given: given[3])
    # Claims that wait for a slot, or came late, do not go back, to be fetched twice.
    monkeypatch.setattr(inbox, "STALE_S", 3600.0)
    monkeypatch.setattr(fetcher, "HALF_GRACE_S", 3600.0)
    await make_worker(nothing, concurrency=500).run_once()

    assert (500, then, 1_000) == (brought[0], max(brought[1:]), sum(brought))
