"""`_tell_watchers`: each way to end a job notifies the clients that wait for it."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.support.jobs import add, fetch, settle_rest
from tests.support.session import Session
from tests.support.watching import Told, ends, watch

Act = Callable[[Session, int], Awaitable[object]]


async def run_and_fail(sql: Session, _: int, **values: Any) -> None:
    """Fail an attempt."""
    await settle_rest(sql, await fetch(sql), kind="failed", error="Broken: e", **values)


async def discard_by_rescue(sql: Session, job: int) -> None:
    """Its worker has named it before it started its last attempt, and has died."""
    await sql.rows("update asyncq._jobs set max_attempts = 1")
    (row,) = await sql.run("register_worker", 30.0, 1, 10, "h", ["t"], 0, None, [])
    (claim,) = await fetch(sql, worker=row["id"])
    started = [f"{job}/{claim['lock_token']}"]
    await sql.rows("update asyncq._workers set started_claims = $1, died_at = now()", started)
    await sql.rows("select from asyncq._rescue_jobs(true)")


async def cancel_running(sql: Session, job: int) -> None:
    """Cancel a job whose handler returns all the same."""
    claims = await fetch(sql)
    await sql.rows("select from asyncq.cancel_jobs(array[$1::bigint])", job)
    await settle_rest(sql, claims, done=True, result="1")


async def reschedule(sql: Session, job: int) -> None:
    """Leave a job no attempt."""
    await sql.rows("update asyncq._jobs set attempts = 3")
    await sql.rows("select from asyncq.reschedule_jobs(array[$1::bigint], max_attempts => 3)", job)


def calling(function: str) -> Act:
    """A call of an administrator's function."""
    return lambda sql, job: sql.rows(f"select from asyncq.{function}(array[$1::bigint])", job)


async def fail_at_last(sql: Session, job: int) -> None:
    """Fail for good."""
    await run_and_fail(sql, job, attempts=99)


ENDS: dict[str, tuple[Act, str]] = {
    "a failure without an attempt left": (fail_at_last, "discarded"),
    "a rescue": (discard_by_rescue, "discarded"),
    "permanently_fail_jobs": (calling("permanently_fail_jobs"), "discarded"),
    "reschedule_jobs": (reschedule, "discarded"),
    "cancel_jobs": (calling("cancel_jobs"), "cancelled"),
    "cancel_jobs while it runs": (cancel_running, "cancelled"),
    "complete_jobs": (calling("complete_jobs"), "completed"),
}


@pytest.mark.parametrize(("act", "state"), ENDS.values(), ids=ENDS)
async def test_each_way_to_end_a_job_tells_its_watchers_once(
    claiming: Session, told: Told, act: Act, state: str
) -> None:
    """A client must not wait for a job that will never run again."""
    job = await add(claiming)
    await watch(claiming, job, channel=told.channel)
    await act(claiming, job)

    assert [(job, state)] == ends(await told.received())
    assert state == (await watch(claiming, job, channel=told.channel))[job]["state"]
    await claiming.execute("delete from asyncq._jobs; delete from asyncq._workers")


@pytest.mark.parametrize("size", [7000, 8000])
async def test_an_end_that_is_too_long_for_a_notification_is_told_by_its_id(
    claiming: Session, told: Told, size: int
) -> None:
    """PostgreSQL refuses longer ones, and with it the settlement would fail. The client asks."""
    job = await add(claiming)
    await watch(claiming, job, channel=told.channel)
    await settle_rest(claiming, await fetch(claiming), done=True, result=f'"{"x" * size}"')
    (heard,) = await told.received()

    assert (size < 7900) == ("state" in heard)
    assert size == len((await watch(claiming, job))[job]["result"])


async def test_the_reason_why_a_result_is_not_stored_is_kept_in_its_place(claiming: Session, told: Told) -> None:
    """The worker could not write it; the job has completed all the same."""
    job = await add(claiming)
    await watch(claiming, job, channel=told.channel)
    await settle_rest(claiming, await fetch(claiming), done=True, error="too large")
    (heard,) = await told.received()

    assert ("completed", False, "too large") == (heard["state"], heard["has_result"], heard["error"])
