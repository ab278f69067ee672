"""`_correct_counts`, `_wake_stranded`: how workers and `doctor --repair` look after partitions."""

import json

import pytest

from tests.sql.control.test_declare_limits import declare
from tests.support.jobs import add, complete, fetch, fetched
from tests.support.session import Session

KEYED = {"at_once": 2, "total": 3, "by": ["k"]}
PARTITIONS = "select count(*) from asyncq._partitions"
WRONG = "select * from asyncq._partition_counts() where jobs <> running"


async def add_keys(sql: Session, keys: str) -> list[int]:
    """Jobs with these keys."""
    return [await add(sql, payload=json.dumps({"k": key})) for key in keys]


@pytest.mark.parametrize("wrong", [5, -5])
async def test_a_wrong_count_is_corrected(sql: Session, wrong: int) -> None:
    """Of a key, of the total, of a queue. Too much would block the key for ever, too little would exceed the limit."""
    await declare(sql, t={**KEYED})
    await add_keys(sql, "aab")
    await add(sql, queue="q")
    await fetched(sql)
    # The gate settles once this transaction has ended.
    await sql.execute("update asyncq._partitions set recount_since = null")
    await sql.execute(f"update asyncq._partitions set running = running + {wrong}")
    corrected = await sql.run("correct_counts")
    shown = {(row["name"], row["key"], row["running"]) for row in corrected}

    assert {wrong} == {row["counted"] - row["running"] for row in corrected}
    assert ("t", None, 3) in shown
    assert [] == await sql.rows(WRONG)


async def test_ends_that_no_fetch_has_counted_stay_as_they_are(sql: Session) -> None:
    """Their wakeups lower the count."""
    await declare(sql, t={**KEYED})
    await add_keys(sql, "aab")
    claims = await fetch(sql)
    await complete(sql, claims[:1])

    assert [] == await sql.run("correct_counts")
    assert [] == await sql.rows(WRONG)


async def test_a_stranded_partition_is_woken(sql: Session) -> None:
    """Its wakeup was lost. One that is full is left alone."""
    await declare(sql, t={"at_once": 2, "by": ["k"]})
    jobs = await add_keys(sql, "aaa")
    await fetched(sql, 1)
    await sql.execute("delete from asyncq._wakeups")
    stranded = await fetched(sql)
    woken = await sql.value("select asyncq._wake_stranded()")
    taken = await fetched(sql)
    await sql.execute("delete from asyncq._wakeups")

    assert ([], 1, jobs[1:2]) == (stranded, woken, taken)
    assert 0 == await sql.value("select asyncq._wake_stranded()")


async def test_a_job_that_no_worker_would_move_is_moved_after_a_repair(sql: Session) -> None:
    """It was added behind a thousand others by a transaction that did not know the limit of its task."""
    await sql.execute("""
        select asyncq.add_job('t') from generate_series(1, 1000);
        select asyncq.add_job('l', priority => 1);
        update asyncq._tasks set limit_id = 2 where identifier = 'l'""")
    moved = []
    for repairs in (False, True):
        if repairs:
            await sql.execute("select asyncq._wake_stranded()")
        await sql.rows("select asyncq._move_jobs(0, 2000)")
        moved.append(await sql.value("select partition is not null from asyncq._jobs where priority = 1"))

    assert [False, True] == moved


async def test_a_key_that_is_full_for_long_is_reported(sql: Session) -> None:
    """Its running jobs may hang: no other job has started since. One without waiting jobs harms nobody."""
    await declare(sql, t={"at_once": 2, "by": ["k"]}, queues={"wide": 2})
    await add_keys(sql, "aaabb")
    for _ in range(3):
        await add(sql, queue="wide")
    await fetched(sql)
    asked = [list((await sql.run("limit_warnings", 3600.0, 5))[0])]
    await sql.execute("update asyncq._jobs set locked_at = locked_at - interval '2 h' where locked_by is not null")
    asked.append(list((await sql.run("limit_warnings", 3600.0, 5))[0]))

    assert [[], ["t a", "wide"]] == [sorted(keys) for _, keys in asked]
