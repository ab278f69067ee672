"""`_write_stats`: the numbers of workers are added, and the eldest one writes how many jobs there are."""

import json
from typing import Any

import anyio

from asyncq.domain.finding import quantile
from tests.support.jobs import add
from tests.support.session import Session, session


def said(task: str, **given: Any) -> dict[str, Any]:
    """The numbers of a task as a worker sends them."""
    none = dict.fromkeys(("completed", "retried", "discarded", "cancelled", "snoozed"), 0)
    return {"task": task, "took_s": 0.0, "waited_s": 0.0, "took": [0] * 20, "waited": [0] * 20} | none | given


async def write(sql: Session, *numbers: dict[str, Any], worker: int = 0) -> None:
    """Flush the numbers of a worker."""
    await sql.run("write_stats", json.dumps(numbers), worker)


def bucket(number: int, runs: int) -> list[int]:
    """A histogram with runs in one bucket."""
    return [runs if place == number else 0 for place in range(20)]


async def test_the_numbers_of_all_workers_are_added(sql: Session) -> None:
    """By minute and task, with the quantiles of the sum. A task whose name was removed is left out."""
    for task in ("a", "b"):
        await add(sql, task)
    await write(sql, said("a", completed=3, took=bucket(3, 3), took_s=0.02), said("b", retried=1), said("gone"))
    await write(sql, said("a", completed=1, discarded=2, took=bucket(11, 3), took_s=4.5, waited=bucket(0, 1)))
    rows = await sql.rows("select * from asyncq.stats(step => '1 h')")
    together = await sql.row("select * from asyncq.stats(of_task => '', step => '1 h')")

    names = ("task", "completed", "retried", "discarded", "took_s")
    times = "asyncq.quantile(took, 0.5), asyncq.quantile(took, 0.95), asyncq.quantile(waited, 0.95)"
    read = [tuple(row) for row in await sql.rows(f"select {times} from asyncq.stats(step => '1 h')")]
    took = rows[0]["took"]

    assert [("a", 4, 0, 2, 4.52), ("b", 0, 1, 0, 0.0)] == [tuple(row[name] for name in names) for row in rows]
    assert [(0.008, 2.048, 0.001), (None, None, None)] == read
    assert [0.008, 2.048, None] == [quantile(took, 0.5), quantile(took, 0.95), quantile([0] * 20, 0.5)]
    assert (None, 4, 1) == (together["task"], together["completed"], together["retried"])
    assert ["b"] == await sql.values("select task from asyncq.stats(of_task => 'b')")


async def test_the_eldest_live_worker_writes_how_many_jobs_there_are(sql: Session) -> None:
    """Once in ten seconds, whoever else flushes."""
    await sql.rows("""
        insert into asyncq._workers (id, lease, pid, concurrency, host, tasks, started_claims, last_seen)
        overriding system value
        values (1, '1 s', 1, 8, 'h', '{}', '{}', now() - interval '1 h'), (2, '1 h', 1, 8, 'h', '{}', '{1/1}', now()),
          (3, '1 h', 1, 4, 'h', '{}', '{}', now())""")
    await sql.rows("update asyncq._workers set died_at = now() where id = 1")
    await add(sql, run_at="now() - interval '50 s'")
    for worker in (1, 3):
        await write(sql, worker=worker)
    nothing = await sql.rows("select * from asyncq.depths()")
    for _ in range(2):
        await write(sql, worker=2)
    row = await sql.row("select * from asyncq.depths(step => '1 h')")

    assert [] == nothing
    assert (50.0, 2, 12, 1) == tuple(row[name] for name in ("oldest_s", "workers", "slots", "busy"))


async def test_many_workers_flush_at_once_without_a_deadlock(own: Session, dsn: str) -> None:
    """Each names the tasks in another order; the rows are locked in that of the tasks' ids."""
    tasks = [f"t{number}" for number in range(20)]
    for task in tasks:
        await add(own, task)

    async def flush(place: int) -> None:
        order = tasks[place % 20 :] + tasks[: place % 20]
        async with session(dsn, own.schema) as sql:
            for _ in range(5):
                await write(sql, *(said(task, completed=1) for task in (order if place % 2 else order[::-1])))

    async with anyio.create_task_group() as group:
        for place in range(50):
            group.start_soon(flush, place)

    assert {250} == {*await own.values("select sum(completed)::int from asyncq._stats group by task_id")}
