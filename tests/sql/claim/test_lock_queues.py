"""`_lock_queues`: a fetch takes the queues of the jobs that it has locked; see tests/store/test_queue_races.py."""

import anyio

from tests.support.ear import Ear
from tests.support.jobs import locked_queues
from tests.support.session import Session, session
from tests.support.waiting import LIMIT_S

HOLD = "select asyncq._lock_queues($1::text[], $2)"


async def test_free_queues_get_the_row_of_the_worker(sql: Session) -> None:
    """The row is the lock."""
    held = await sql.value(HOLD, ["b", "a", "c"], 7)

    assert ["a", "b", "c"] == sorted(held)
    assert [(7, "a"), (7, "b"), (7, "c")] == [
        tuple(row) for row in await sql.rows("select locked_by, name from asyncq._queues order by name")
    ]


async def test_locked_queues_are_skipped(sql: Session) -> None:
    """This includes queues of the same worker."""
    await sql.rows(HOLD, ["a", "b"], 7)

    assert ["c"] == await sql.value(HOLD, ["b", "c"], 7)
    assert [] == await sql.value(HOLD, ["a"], 8)
    assert [7, 7, 7] == await sql.values("select locked_by from asyncq._queues")


async def test_queues_are_taken_in_alphabetical_order(own: Session) -> None:
    """Two fetches that took them in other orders would wait for each other.

    In a new table rows are in the order in which they were written; in an older one they fill free places.
    """
    names = [f"q{i * 37 % 100:02}" for i in range(100)]
    await own.execute("begin; set local enable_sort = off")
    await own.rows(HOLD, names, 7)
    taken = await own.values("select name from asyncq._queues order by ctid")
    await own.execute("rollback")

    assert sorted(names) == taken


async def test_no_queues_are_no_error(sql: Session) -> None:
    """None is locked or missed."""
    assert [] == await sql.value(HOLD, [], 7)


async def test_a_worker_that_skips_a_job_notifies_all(own: Session, ear: Ear) -> None:
    """The job was locked for a moment. Another worker may have skipped it just then, and gone to sleep."""
    await own.rows(HOLD, ["a"], 7)
    before = len(await ear.received())
    await own.rows(HOLD, ["a", "b"], 8)
    after = len(await ear.received())
    await own.execute("delete from asyncq._queues")

    assert (0, 1) == (before, after)


async def test_a_queue_that_an_open_transaction_takes_is_skipped_and_the_others_are_taken(
    dsn: str, own: Session
) -> None:
    """A fetch whose worker does not read its answer stays open for long, and must not block others."""
    await own.execute("set lock_timeout = '5s'")
    names = [f"q{i:02}" for i in range(40)]
    async with session(dsn, own.schema) as other, other.connection.transaction():
        await other.rows(HOLD, ["q07", "q31"], 8)
        with anyio.fail_after(LIMIT_S):
            held = await own.value(HOLD, names, 7)
    await own.rows("delete from asyncq._queues where locked_by = 8")
    stored = await locked_queues(own)
    await own.execute("delete from asyncq._queues")

    assert [*(name for name in names if name not in ("q07", "q31"))] == sorted(held) == stored
    assert "5s" == await own.value("show lock_timeout")


async def test_a_queue_that_an_open_transaction_locks_notifies_nobody(dsn: str, own: Session, ear: Ear) -> None:
    """Otherwise all workers would fetch again and again while it is open."""
    async with session(dsn, own.schema) as other, other.connection.transaction():
        await other.rows(HOLD, ["a"], 8)
        held = await own.value(HOLD, ["a", "b"], 7)
        heard = await ear.received()
    await own.execute("delete from asyncq._queues")

    assert (["b"], []) == (held, heard)
