"""Verdicts are sent between processes: handlers run CPU work in pools."""

import asyncio
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta

import pytest

from asyncq import Client, JobState, task
from asyncq.domain.events import JobCompleted, JobDiscarded, JobRetried, JobSnoozed
from tests.engine.conftest import MakeWorker
from tests.support import pool_work
from tests.support.seen import Seen

WORK: dict[str, Callable[[], object]] = {
    "throttled": pool_work.be_throttled,
    "early": pool_work.be_early,
    "useless": pool_work.be_useless,
    "healthy": pool_work.be_healthy,
}


@pytest.mark.timeout(120)
async def test_a_verdict_of_a_function_in_a_process_pool_counts(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """One that could not be read broke the pool, and failed the next healthy job with it."""

    @task
    async def work(kind: str) -> None:
        await asyncio.get_running_loop().run_in_executor(pool, WORK[kind])

    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        added = [(await client.add_job(work, kind)).id for kind in WORK]
        await make_worker(work, concurrency=1).run_once()
    retried, snoozed, discarded = [await client.get_job(job_id) for job_id in added[:3]]

    assert [[job_id] for job_id in added] == [
        seen.ids(kind) for kind in (JobRetried, JobSnoozed, JobDiscarded, JobCompleted)
    ]
    assert timedelta(minutes=10) == retried.run_at - retried.updated_at
    assert (retried.last_error or "").startswith("RetryAfter: throttled\n")
    assert "429 Too Many Requests" in (retried.last_error or "")
    assert (JobState.SCHEDULED, JobState.DISCARDED) == (snoozed.state, discarded.state)
    assert (discarded.last_error or "").startswith("Discard: no use")
