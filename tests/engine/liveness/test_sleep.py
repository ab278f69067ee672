"""A machine that slept: the worker wakes up later, and others may have taken its claims."""

import asyncio
from collections.abc import Callable

import asyncpg
import pytest

from asyncq import Client, task
from asyncq.domain.events import JobsReturned, JobStarted, WorkerLost
from asyncq.engine.base import lease
from asyncq.engine.fetch import inbox, schedule
from asyncq.engine.liveness import fallback_heartbeat, heartbeat_thread, lease_state, start_gate
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen
from tests.support.waiting import wait_until

OTHER = 999_999


@pytest.fixture
def sleep(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Move the clock that goes on during the machine's sleep; `time.monotonic` stops meanwhile."""
    offset_s, real = [0.0], lease.now_s
    for module in (lease, heartbeat_thread, lease_state, fallback_heartbeat, start_gate):
        monkeypatch.setattr(module, "now_s", lambda: real() + offset_s[0])
    return lambda seconds: offset_s.append(offset_s.pop() + seconds)


async def test_after_a_sleep_of_the_machine_no_claim_starts_before_the_lease_is_proven(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    sleep: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This includes buffered claims, which look new by the clock of the event loop."""
    monkeypatch.setattr(inbox, "STALE_S", 3600)
    monkeypatch.setattr(schedule, "wanted_now", lambda waiting, buffered, *_: 0 if buffered else 5)
    go = asyncio.Event()

    @task
    async def hold() -> None:
        await go.wait()

    async with make_worker(hold, poll=60, concurrency=1).start():
        added = await client.add_jobs([hold.job() for _ in range(5)])
        held = f"select count(*) = 5 from {schema}._all_jobs() where locked_by is not null"
        await wait_until(lambda: db.fetchval(held), description="all claims")
        await seen.wait_for(JobStarted)
        # The machine sleeps, and others take over.
        sleep(600)
        await db.execute(f"delete from {schema}._workers")
        await db.execute(f"update {schema}._jobs set locked_by = {OTHER}, lock_token = 1")
        go.set()
        await seen.wait_for(WorkerLost)
        await seen.wait_for(JobsReturned)
        started = seen.ids(JobStarted)
        await db.execute(f"delete from {schema}._jobs")

    assert [added[0].id] == started
