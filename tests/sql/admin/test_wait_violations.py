"""`_wait_violations`: what must not be found about jobs that wait for others."""

import pytest

from tests.support.jobs import add
from tests.support.session import Session
from tests.support.waits import broken_laws, wait_for

BREAKS = {
    "stale_closing": "update asyncq._closings set at = now() - interval '2 min'",
    "lost_waiter": "delete from asyncq._closings",
    "lost_edge": "delete from asyncq._closings; delete from asyncq._jobs",
    "unmarked_job": "update asyncq._jobs set keep_until = null",
}


@pytest.mark.parametrize("law", BREAKS)
async def test_a_broken_law_is_found(sql: Session, law: str) -> None:
    """Before the damage nothing is."""
    job = await add(sql)
    waiter = await wait_for(sql, job)
    if law in ("stale_closing", "lost_waiter"):
        await sql.rows("select from asyncq.complete_jobs(array[$1::bigint])", job)
    before = await broken_laws(sql)
    await sql.execute(BREAKS[law])

    assert ([], [law]) == (before, [said.split()[0] for said in await broken_laws(sql)])
    assert waiter > job


async def test_an_edge_to_a_job_that_has_vanished_is_found(sql: Session) -> None:
    """Its waiter would wait for ever."""
    job = await add(sql)
    await wait_for(sql, job)
    await sql.rows("delete from asyncq._jobs where id = $1", job)

    assert ["lost_waiter"] == [said.split()[0] for said in await broken_laws(sql)]
