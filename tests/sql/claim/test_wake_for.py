"""`_wake_for`: notifies workers of due jobs."""

import pytest

from tests.support.session import Session, session
from tests.support.unique import hold
from tests.support.waiting import wait_until

TIMES = {
    "now()": True,
    "now() - interval '1 h'": True,
    "now() + interval '50 s'": True,
    "now() + interval '2 min'": False,
}


@pytest.mark.parametrize("time", TIMES)
async def test_a_worker_is_notified_of_a_job_that_is_due_soon(dsn: str, own: Session, time: str) -> None:
    """Workers find later jobs by themselves in time."""
    job = await hold(own, "scheduled")
    await own.execute(f"update asyncq._jobs set run_at = {time}")

    assert TIMES[time] == await is_notified(dsn, own, [job])


@pytest.mark.parametrize("state", ["active", "discarded", "completed"])
async def test_a_job_that_does_not_wait_notifies_nobody(dsn: str, own: Session, state: str) -> None:
    """There is nothing to fetch."""
    job = await hold(own, state)
    await own.execute("update asyncq._jobs set run_at = now()")
    heard = await is_notified(dsn, own, [job])
    await own.execute("delete from asyncq._jobs")

    assert not heard


async def test_one_of_many_is_enough(dsn: str, own: Session) -> None:
    """One due job is enough for a notification."""
    jobs = [await hold(own, state) for state in ("scheduled", "available")]

    assert await is_notified(dsn, own, jobs)
    assert not await is_notified(dsn, own, [])
    assert not await is_notified(dsn, own, None)


async def is_notified(dsn: str, own: Session, jobs: list[int] | None) -> bool:
    """Whether a listener is notified before the mark that is sent afterwards."""
    heard: list[str] = []
    async with session(dsn, own.schema) as listener:
        await listener.value("select pg_advisory_lock(asyncq._lock_space(), 0)")
        for channel in ("jobs", "mark"):
            await listener.connection.add_listener(f"{own.schema}:{channel}", lambda *told: heard.append(told[2]))
        await own.rows("select asyncq._wake_for($1::bigint[])", jobs)
        await own.rows("select pg_notify('asyncq:mark', '')")
        await wait_until(lambda: f"{own.schema}:mark" in heard, description="the mark")
    return f"{own.schema}:jobs" in heard
