"""`_task_ids`: names become numbers, stored on first use."""

import asyncio

from tests.support.session import Session, session
from tests.support.waiting import wait_until

WAITS = "select exists (select from pg_locks where relation = 'asyncq._tasks'::regclass and not granted)"


async def test_each_name_has_one_number_for_ever(sql: Session) -> None:
    """Jobs and workers speak of tasks by number."""
    first = await sql.rows("select * from asyncq._task_ids(array['b', 'a', 'b'])")
    second = await sql.rows("select * from asyncq._task_ids(array['a', 'c'])")

    assert {"a", "b"} == {row["identifier"] for row in first}
    assert 2 == len(first)
    assert dict(first)["a"] == dict(second)["a"]
    assert 3 == await sql.value("select count(*) from asyncq._tasks")


async def test_new_names_are_stored_in_alphabetical_order(sql: Session) -> None:
    """Two callers with the same new names in different orders could deadlock.

    Without sorts the planner finds distinct names by hashing, so only an explicit order passes.
    """
    await sql.execute("set local enable_sort = off")
    await sql.rows(
        "select from asyncq._task_ids((select array_agg('t' || i order by i desc) from generate_series(1, 99) as i))"
    )

    assert sorted(f"t{i}" for i in range(1, 100)) == await sql.values(
        "select identifier from asyncq._tasks order by id"
    )


async def test_nulls_and_no_names_give_nothing(sql: Session) -> None:
    """The caller of this function refuses a null name."""
    for names in ("array[null]::text[]", "'{}'::text[]", "null"):
        assert [] == await sql.rows(f"select * from asyncq._task_ids({names})")


async def test_a_name_that_an_open_transaction_has_just_stored_is_left_out_and_not_waited_for(
    dsn: str, own: Session
) -> None:
    """A worker that starts must not wait for the end of a caller's transaction; the other names are stored."""
    await own.execute("set lock_timeout = '5s'")
    async with session(dsn, own.schema) as other:
        async with other.connection.transaction():
            await other.execute("select asyncq.add_job('b')")
            during = await own.values("select identifier from asyncq._task_ids(array['c', 'b', 'a']) order by 1")
        after = await own.values("select identifier from asyncq._task_ids(array['c', 'b', 'a']) order by 1")

    assert (["a", "c"], ["a", "b", "c"]) == (during, after)


async def test_a_table_that_is_locked_as_a_whole_is_waited_for(dsn: str, own: Session) -> None:
    """A migration locks it, so no name can be read. Callers that wait for less set a timeout."""
    async with session(dsn, own.schema) as other, asyncio.TaskGroup() as group, other.connection.transaction():
        await other.execute("lock table asyncq._tasks in access exclusive mode")
        asked = group.create_task(own.values("select identifier from asyncq._task_ids(array['a'])"))
        await wait_until(lambda: other.value(WAITS), description="the caller to wait")
        await other.rows("select pg_sleep(0.2)")  # longer than a caller waits for a name

    assert ["a"] == asked.result()


async def test_the_callers_lock_timeout_stays_as_before(sql: Session) -> None:
    """The rest of its transaction has its own lock timeout."""
    await sql.execute("set local lock_timeout = '3s'")
    await sql.rows("select from asyncq._task_ids(array['a', 'b'])")

    assert "3s" == await sql.value("show lock_timeout")
