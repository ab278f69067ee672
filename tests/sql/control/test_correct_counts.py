"""`_correct_counts`: partitions count what runs, whatever was done to the tables by hand."""

import pytest

from tests.support.jobs import add, fetch, fetched, stray_queues
from tests.support.session import Session, session

CORRECT = "select counted, running from asyncq._correct_counts() order by id"


@pytest.mark.parametrize("form", ["rows", "batched"])
async def test_a_partition_that_counts_a_deleted_job_is_set_right_and_woken(sql: Session, form: str) -> None:
    """Its next job was not due for a fetch, because the queue was full."""
    await add(sql, queue="q")
    await add(sql, queue="right")
    await fetch(sql, form=form)
    await sql.execute("delete from asyncq._jobs where queue = 'q'; delete from asyncq._batches")
    waiting = await add(sql, queue="q")
    before = await fetched(sql)
    corrected = [tuple(row) for row in await sql.rows(CORRECT)]

    assert ([], (1, 0)) == (before, corrected[0])
    assert ([], [waiting]) == (await stray_queues(sql), await fetched(sql))


async def test_a_job_that_was_claimed_by_hand_is_counted(sql: Session) -> None:
    """Its partition need not have a row."""
    await add(sql, queue="q")
    await sql.execute("update asyncq._jobs set locked_by = 1, locked_at = now(), lock_token = 1")
    await add(sql, queue="q")
    corrected = [tuple(row) for row in await sql.rows(CORRECT)]

    assert ([(0, 1)], [], []) == (corrected, await fetched(sql), await sql.rows(CORRECT))


async def test_a_partition_that_a_fetch_holds_is_left_for_the_next_time(dsn: str, claiming: Session) -> None:
    """The rescue must not wait."""
    await add(claiming, queue="q")
    await fetch(claiming)
    await claiming.execute("delete from asyncq._jobs; set lock_timeout = '1s'")
    async with session(dsn, claiming.schema) as other, other.connection.transaction():
        await other.rows("select from asyncq._partitions for no key update")
        during = await claiming.rows(CORRECT)

    assert ([], [(1, 0)]) == (during, [tuple(row) for row in await claiming.rows(CORRECT)])
