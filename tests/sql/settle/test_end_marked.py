"""`_end_marked`: the claims of marked jobs end, those of others do not."""

import pytest

from tests.support.jobs import add, claimed, fetch
from tests.support.marked import ASK_AGAIN, CANCEL, ended, keep
from tests.support.session import Session

END = "select * from asyncq._end_marked(array(select id from asyncq._jobs))"


async def test_a_cancelled_job_is_gone_one_that_was_asked_for_again_waits_and_others_run_on(sql: Session) -> None:
    """The three of them in one call."""
    cancelled, again, plain = [await add(sql) for _ in range(3)]
    await fetch(sql)
    await sql.rows(CANCEL, cancelled)
    await sql.rows(ASK_AGAIN, again)
    told = [tuple(row) for row in await sql.rows(END)]
    states = [
        tuple(row) for row in await sql.rows("select id, asyncq._state(job) from asyncq._jobs as job order by id")
    ]

    assert [(cancelled, "cancelled"), (again, "rerun")] == sorted(told)
    assert [(again, "available"), (plain, "active")] == states
    assert [plain] == await claimed(sql)


async def test_a_job_that_was_asked_for_again_and_then_cancelled_is_cancelled(sql: Session) -> None:
    """The cancel came last; should the mark have stayed, it still wins."""
    job = await add(sql)
    await fetch(sql)
    await sql.rows(CANCEL, job)
    await sql.rows(ASK_AGAIN, job)

    assert [(job, "cancelled")] == [tuple(row) for row in await sql.rows(END)]
    assert 0 == await sql.value("select count(*) from asyncq._jobs")


@pytest.mark.parametrize(("states", "kept"), [(["cancelled"], True), (["completed", "discarded"], False)])
async def test_a_cancelled_job_is_kept_if_that_was_asked_for(sql: Session, states: list[str], kept: bool) -> None:
    """A unique policy may count cancelled jobs."""
    job = await add(sql)
    await keep(sql, job, states)
    await fetch(sql)
    await sql.rows(CANCEL, job)
    await sql.rows(END)

    assert ([(job, "cancelled")] if kept else []) == await ended(sql)


async def test_nobody_is_no_error(sql: Session) -> None:
    """An empty list, and none."""
    assert [] == await sql.rows("select * from asyncq._end_marked('{}')")
    assert [] == await sql.rows("select * from asyncq._end_marked(null)")
