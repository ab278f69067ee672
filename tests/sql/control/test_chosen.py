"""`fetch_partitions` with a choice: a worker takes jobs of some queues and limits, and leaves those of others."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.support.jobs import add, fetch
from tests.support.session import Session


async def chosen(sql: Session, lists: Mapping[str, Sequence[Any]], most: int = 100) -> list[str]:
    """The names of the jobs that a fetch with a choice takes; members of the choice are empty by default."""
    choice = json.dumps({"but": [], "queues": [], "whole": [], "free": [], **lists})
    return sorted(json.loads(claim["payload"]) for claim in await fetch(sql, most, choice=choice))


async def store(sql: Session) -> tuple[int, int, int]:
    """Jobs with and without a queue of three tasks: a has the limit 9 for each key, b a total, c no limit."""
    await sql.execute("select asyncq._store_tasks('{a,b,c}')")
    await sql.execute(
        "insert into asyncq._limits (id, name, at_once, total) values (9, 'nine', 5, null), (10, 'ten', null, 5)"
    )
    await sql.execute("update asyncq._tasks set limit_id = 9 where identifier = 'a'")
    await sql.execute("update asyncq._tasks set limit_id = 10 where identifier = 'b'")
    await sql.execute("insert into asyncq._partitions (id) values (asyncq._gate(10::smallint))")
    for task in "abc":
        for queue in ("q", "r", None):
            name = f"{task}{queue or ''}"
            await add(sql, task, queue=queue and f"{queue}{task}", payload=json.dumps(name))
    a, b, c = await sql.values("select id from asyncq._tasks order by identifier")
    return a, b, c


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        ({"queues": ["qa", "rc"]}, ["aq", "c", "cr"]),
        ({"whole": "a"}, ["a", "aq", "ar", "c"]),
        ({"whole": "ab", "but": ["qa", "rb"]}, ["a", "ar", "b", "bq", "c"]),
        ({"free": "ab"}, ["a", "b", "c"]),
        ({"free": "ab", "queues": ["qa"], "but": ["qa"]}, ["a", "b", "c"]),
        ({}, ["c"]),
    ],
    ids=str,
)
async def test_a_fetch_takes_only_the_jobs_that_are_chosen(
    sql: Session, lists: dict[str, Sequence[str]], expected: list[str]
) -> None:
    """A job without a queue and a limit is for every worker."""
    ids = dict(zip("abc", await store(sql), strict=True))
    named = {
        name: [ids[task] for task in tasks] if name in ("whole", "free") else tasks for name, tasks in lists.items()
    }

    assert expected == await chosen(sql, named)


async def test_wakeups_of_others_are_not_touched(sql: Session) -> None:
    """Neither deleted nor renewed, however many come first: the jobs behind them are found."""
    await sql.rows("""
        select asyncq.add_jobs(array_agg(
          ('t', '"other"', 'q' || i, null, null, null, 0, null, null, null)::asyncq.job_spec))
        from generate_series(1, 200) as i""")
    await add(sql, "t", queue="mine", payload='"mine"')
    before = await sql.rows(
        "select ctid, * from asyncq._wakeups where partition <> asyncq._partition(1::smallint, 'mine') order by ctid"
    )

    assert ["mine"] == await chosen(sql, {"queues": ["mine"]}, 2)
    assert before == await sql.rows("select ctid, * from asyncq._wakeups order by ctid")
