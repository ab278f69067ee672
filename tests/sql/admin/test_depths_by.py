"""`depths_by`: how many jobs each task and each queue has."""

from typing import Any

import pytest

from tests.support.jobs import add, add_many, fetch
from tests.support.keyed import STATES, hold
from tests.support.session import Session

NAMES = ("due", "waiting", "running", "failed", "is_exact")


async def depths(sql: Session, kind: str, queues: int = 200) -> dict[Any, tuple[Any, ...]]:
    """The numbers of each task, or of each queue, in their order."""
    rows = await sql.rows("select * from asyncq.depths_by($1)", queues)
    return {row[kind]: tuple(row[name] for name in NAMES) for row in rows if row[kind] is not None}


async def test_each_state_has_its_number(own: Session) -> None:
    """A cancelled job that runs still runs."""
    sql = own  # a table that others have made large is estimated
    for state in STATES:
        await hold(sql, state, key=state)
    await hold(sql, "active", key="more")
    await sql.rows("update asyncq._jobs set cancelled_at = now() where key = 'more'")
    await add(sql, "b")

    found = await depths(sql, "task")
    await sql.rows("delete from asyncq._jobs where locked_by is not null")

    assert {"b": (1, 0, 0, 0, True), "old": (1, 2, 2, 1, True)} == found


async def test_the_fullest_queues_come_first(own: Session) -> None:
    """Up to a number; their jobs may be of several tasks."""
    sql = own
    for queue, count in (("a", 1), ("b", 3), ("c", 2)):
        for number in range(count):
            await add(sql, f"t{number}", queue=queue)

    assert [("b", (3, 0, 0, 0, True)), ("c", (2, 0, 0, 0, True))] == [*(await depths(sql, "queue", 2)).items()]


async def test_jobs_of_batches_run(claiming: Session) -> None:
    """They are neither due nor waiting."""
    await add_many(claiming, 5)
    await fetch(claiming, 3, worker=7, form="batched")

    assert {"t": (2, 0, 3, 0, True)} == await depths(claiming, "task")


@pytest.fixture
async def large(sql: Session) -> Session:
    """20,000 jobs, of which five run; an eighth of the table is sampled."""
    await add_many(sql, 20_000, queue="case when i % 4 = 0 then 'q' end")
    await sql.rows("""
        update asyncq._jobs set locked_by = 1, locked_at = now(), lock_token = 1
        where id in (select id from asyncq._jobs where queue is null order by id desc limit 5)""")
    await sql.execute("""
        create or replace function asyncq._sample_percent(wanted int) returns float8 language sql volatile
        as $$ select 12.5::float8 $$""")
    return sql


async def test_of_a_large_table_a_sample_is_counted(large: Session) -> None:
    """Running jobs are exact; the estimates are the same in the next call."""
    first = await depths(large, "task")
    due, waiting, running, failed, is_exact = first["t"]

    assert (0, 5, 0, False) == (waiting, running, failed, is_exact)
    assert 10_000 < due < 30_000
    assert 2_500 < (await depths(large, "queue"))["q"][0] < 7_500
    assert first == await depths(large, "task")
