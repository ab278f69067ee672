"""`_cut_waits`: an end leaves a closing only if the waiter may be ready, or must be cancelled."""

import pytest

from tests.support.ear import Ear
from tests.support.jobs import add
from tests.support.session import Session
from tests.support.waits import left, look, state, wait_for

COMPLETE = "select from asyncq.complete_jobs($1::bigint[])"
CANCEL = "select from asyncq.cancel_jobs($1::bigint[])"


async def test_of_many_ends_one_leaves_a_closing(own: Session) -> None:
    """The others see an edge that nobody has touched."""
    jobs = [await add(own) for _ in range(20)]
    waiter = await wait_for(own, *jobs)
    closings: list[int] = []
    for job in jobs:
        await own.rows(COMPLETE, [job])
        closings.append((await left(own))[1])

    assert [0] * 19 + [1] == closings
    assert [("released", waiter, None)] == await look(own)


async def test_jobs_that_end_together_leave_one_closing_for_a_waiter(own: Session) -> None:
    """However many of its edges they cut."""
    jobs = [await add(own) for _ in range(5)]
    await wait_for(own, *jobs)
    await wait_for(own, *jobs)
    await own.rows(COMPLETE, jobs)

    assert (0, 2) == await left(own)
    await look(own)


async def test_a_cancelled_job_leaves_a_closing_while_other_jobs_run(own: Session) -> None:
    """Its waiter is cancelled at once."""
    first, second = await add(own), await add(own)
    waiter = await wait_for(own, first, second)
    await own.rows(CANCEL, [first])

    assert (1, 1) == await left(own)
    assert ([("cancelled", waiter, None)], None) == (await look(own), await state(own, waiter))
    assert (0, 0) == await left(own)


@pytest.mark.parametrize(("awaited", "heard"), [(True, ["closings"]), (False, [])])
async def test_workers_are_notified_of_closings(own: Session, ear: Ear, awaited: bool, heard: list[str]) -> None:
    """The end may be in the transaction of a caller, which never looks."""
    job = await add(own)
    if awaited:
        await wait_for(own, job)
    await ear.received()
    await own.rows(COMPLETE, [job])

    assert heard == [text for _, text in await ear.received() if text == "closings"]
    await look(own)
