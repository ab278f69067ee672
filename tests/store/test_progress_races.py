"""Progress beside other statements: nobody waits for a report, and no report outlives its claim."""

import pytest

from tests.support.jobs import add, add_many, complete, fetch, settle_rest
from tests.support.progress import done, rows, write
from tests.support.session import Session


@pytest.mark.parametrize("form", ["rows", "batched"])
async def test_a_cancellation_and_an_end_do_not_wait_for_a_report(sql: Session, other: Session, form: str) -> None:
    """The report is in an open transaction; the job is cancelled and ended beside it."""
    job = await add(sql)
    [claim] = await fetch(sql, form=form)
    async with other.connection.transaction():
        await write(other, (claim, 1))
        await sql.execute("set lock_timeout = '5s'")
        await sql.rows("select from asyncq.cancel_jobs($1)", [job])
        endings = await settle_rest(sql, [claim], done=True)
    seen, stored = await done(sql), await rows(sql)
    await sql.run("prune", None, None, 100)

    assert ({job: "cancelled"}, {}, 1, 0) == (endings, seen, stored, await rows(sql))


async def test_an_end_in_an_open_transaction_does_not_delay_a_report(sql: Session, other: Session) -> None:
    """Reports are written beside settlements, on one connection: one that waited would delay all others."""
    await add(sql)
    [claim] = await fetch(sql)
    async with other.connection.transaction():
        await complete(other, [claim])
        await sql.execute("set lock_timeout = '5s'")
        await write(sql, (claim, 1))
        before = await done(sql)

    assert ({claim["id"]: 1}, {}) == (before, await done(sql))


async def test_a_row_that_another_transaction_locks_is_skipped(sql: Session, other: Session) -> None:
    """Its worker may be alive after all, and write at this moment."""
    await add_many(sql, 2)
    first, second = await fetch(sql)
    await write(sql, (first, 1), (second, 2))
    await sql.rows("select from asyncq._rescue_jobs(true)")
    async with other.connection.transaction():
        await write(other, (first, 3))
        await sql.run("prune", None, None, 100)
        beside = await rows(sql)
    await sql.run("prune", None, None, 100)

    assert (1, 0) == (beside, await rows(sql))
