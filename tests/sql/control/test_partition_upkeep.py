"""`_correct_counts`, `_wake_stranded`, `_prune_partitions`: how workers and `doctor --repair` look after partitions."""

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


async def test_idle_partitions_are_removed(sql: Session) -> None:
    """One that runs, is paused, or has a value of its own stays, and so do gates."""
    await declare(sql, t={**KEYED, "total": 9}, queues={"wide": 2})
    await add_keys(sql, "abcd")
    claims = await fetch(sql)
    await sql.rows("select asyncq.set_partition('t', 'b', weight => 2)")
    await sql.rows("select asyncq.pause(limit_name => 't', key => 'c')")
    await complete(sql, claims[1:])
    await fetched(sql)
    before = await sql.value(PARTITIONS)
    last = await sql.run("prune_partitions", 0, 500)

    assert (6, 5, None) == (before, await sql.value(PARTITIONS), last[0]["last_id"])


async def test_starts_that_a_rate_counts_keep_their_partition(sql: Session) -> None:
    """Removed, it would forget them, and let a burst through."""
    await declare(sql, t={"rate": 2, "per_s": 60, "by": ["k"]})
    await add_keys(sql, "a")
    await complete(sql, await fetch(sql))
    await fetched(sql)
    await sql.run("prune_partitions", 0, 500)
    kept = await sql.value(PARTITIONS)
    await sql.execute("update asyncq._partitions set cell = cell - 20")
    await sql.run("prune_partitions", 0, 500)

    assert (1, 0) == (kept, await sql.value(PARTITIONS))


async def test_the_walk_goes_on_behind_the_last_partition(sql: Session) -> None:
    """A page at a time: no statement is long."""
    await sql.execute("insert into asyncq._partitions (id) values (5), (6), (7)")

    assert [6, None] == [(await sql.run("prune_partitions", after, 2))[0]["last_id"] for after in (0, 6)]
    assert 0 == await sql.value(PARTITIONS)
