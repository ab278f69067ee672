"""`_full_gate`: the gate of a total that is full, by which `fetch_jobs` knows that no job behind it can start."""

import pytest

from asyncq.store.arrays import array_text
from tests.sql.control.test_declare_limits import declare
from tests.support.jobs import COUNTED, WORKER, add, complete, fetch, jobs_of
from tests.support.session import Session


async def plain(sql: Session) -> tuple[bool, int]:
    """What the first statement of a fetch says: whether partitions were woken, and how many jobs it has claimed."""
    ids = await sql.values("select id from asyncq._tasks")
    yields = True
    rows = await sql.run("fetch_jobs", WORKER, 7, 10, array_text(ids), *[None] * 6, 1000, "{}", yields)
    return rows[0]["are_woken"], len(jobs_of(rows, 7))


@pytest.mark.parametrize("queue", [None, "q"])
async def test_jobs_behind_a_full_total_wake_nobody_until_a_claim_has_ended(sql: Session, queue: str | None) -> None:
    """A fetch claims other jobs by one statement meanwhile, not by three. The end counts before a fetch counts it."""
    await declare(sql, t={"total": 1})
    await sql.execute(COUNTED)
    await add(sql)
    claims = await fetch(sql)
    await add(sql, queue=queue)
    await add(sql, "other")
    full = await plain(sql)
    await complete(sql, claims)
    await add(sql, "other")
    ended = await plain(sql)

    assert ((False, 1), (True, 0)) == (full, ended)


async def test_jobs_of_another_limit_are_woken_beside_a_full_total(sql: Session) -> None:
    """Each gate is looked at by itself."""
    await declare(sql, t={"total": 1}, u={"total": 1})
    await sql.execute(COUNTED)
    await add(sql)
    await fetch(sql)
    await add(sql)
    await add(sql, "u")

    assert (True, 0) == await plain(sql)


async def test_a_gate_that_is_not_counted_yet_is_never_full(sql: Session) -> None:
    """Statements may run that do not know it: a fetch has to count the claims."""
    await declare(sql, t={"total": 1})
    await add(sql)
    await fetch(sql)
    await add(sql)

    assert (True, 0) == await plain(sql)
