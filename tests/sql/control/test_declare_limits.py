"""`_declare_limits`: a worker stores the limits of its tasks and queues when it registers."""

import json
from typing import Any

import anyio
import pytest

from tests.support.jobs import add, complete, fetched
from tests.support.session import KeptConnections, Session
from tests.support.waiting import wait_until


async def declare(sql: Session, by: str = "worker 1", **parts: Any) -> list[Any]:
    """Declare limits, by the name of the task that has each, and its values; `queues` by their names."""
    queues = parts.pop("queues", {})
    keys = {task: values.pop("by", None) for task, values in parts.items()}
    declaration = {
        "limits": [{"name": values.pop("limit", task), **values} for task, values in parts.items() if values],
        "tasks": [{"identifier": task, "limit": task if parts[task] else None, "by": by} for task, by in keys.items()],
        "queues": [{"name": name, "at_once": at_once} for name, at_once in queues.items()],
    }
    for task in parts:
        await sql.rows("select asyncq._store_tasks(array[$1])", task)
    rows = await sql.run("declare_limits", json.dumps(declaration), by)
    return [
        (
            row["name"],
            row["before"] and json.loads(row["before"]),
            row["after"] and json.loads(row["after"]),
            row["was_by"],
        )
        for row in rows
    ]


async def values(sql: Session, name: str) -> Any:
    """The values of a limit that are in force, but those that limit nothing."""
    row = await sql.row(
        "select at_once, rate, per_s, total, total_rate, total_per_s, fair from asyncq._limits where name = $1", name
    )
    return {key: value for key, value in row.items() if value}


async def test_a_limit_holds_for_each_key_in_the_payload(sql: Session) -> None:
    """The declaration stores the limit, and which member of the payload is its key."""
    await declare(sql, t={"at_once": 2, "by": ["tenant", "id"]})
    jobs = [await add(sql, payload=json.dumps({"tenant": {"id": tenant}})) for tenant in (1, 1, 1, 2)]

    assert {"at_once": 2} == await values(sql, "t")
    assert [jobs[0], jobs[1], jobs[3]] == await fetched(sql)


async def test_a_total_holds_for_the_jobs_of_queues_too(sql: Session) -> None:
    """Their partition is that of the queue: the gate of the limit counts all of them."""
    await declare(sql, t={"total": 2})
    jobs = [await add(sql, queue=queue) for queue in ("a", "b", None, None)]

    assert jobs[:2] == await fetched(sql)


async def test_a_queue_may_run_several_jobs_at_once(sql: Session) -> None:
    """Its limit is the row of its partition."""
    await declare(sql, queues={"wide": 2})
    jobs = [await add(sql, queue=queue) for queue in ("wide", "wide", "wide", "serial", "serial")]

    assert [jobs[0], jobs[1], jobs[3]] == await fetched(sql)


@pytest.mark.parametrize(("limits", "queues"), [({"t": {"total": 2}}, {}), ({}, {"q": 2})], ids=["limit", "queue"])
async def test_the_last_declaration_decides_and_names_the_one_before(sql: Session, limits: Any, queues: Any) -> None:
    """Two deployments may be there at once. An equal declaration changes nothing, nor the name of the first one."""

    async def declared(by: str, number: int) -> list[Any]:
        part = {task: dict.fromkeys(values, number) for task, values in limits.items()}
        return await declare(sql, by, **part, queues=dict.fromkeys(queues, number))

    first = await declared("worker 1", 2)
    same = await declared("worker 2", 2)
    ((name, before, after, was_by),) = await declared("worker 3", 4)

    assert [] == first == same
    assert (name, was_by) == ("t" if limits else "q", "worker 1")
    assert [2] == [number for number in before.values() if number]
    assert [4] == [number for number in after.values() if number]


@pytest.mark.parametrize("declaration", [{"t": {"at_once": 2, "by": ["k"]}}, {"t": {"total": 2}}], ids=["key", "total"])
async def test_a_raised_limit_wakes_its_partitions(sql: Session, declaration: Any) -> None:
    """A full partition has no wakeup: without a new one its jobs would wait for the end of another job."""
    await declare(sql, **json.loads(json.dumps(declaration)))
    jobs = [await add(sql, payload='{"k": 1}') for _ in range(5)]
    before = await fetched(sql)
    (raised,) = [{key: 4 if value == 2 else value for key, value in it.items()} for it in declaration.values()]
    await declare(sql, t=raised)

    assert jobs[:2] == before
    assert jobs[2:4] == await fetched(sql)


async def test_a_limit_that_was_set_counts_the_jobs_that_run(claiming: Session) -> None:
    """Jobs of a fair task run without a limit, and are counted all the same."""
    sql = claiming
    await declare(sql, t={"fair": True, "by": ["k"]})
    jobs = [await add(sql, payload='{"k": 1}') for _ in range(6)]
    before = await fetched(sql, 2)
    await declare(sql, t={"at_once": 3, "total": 9, "by": ["k"]})

    assert jobs[:2] == before
    assert jobs[2:3] == await fetched(sql)
    assert [] == await sql.rows("select * from asyncq._partition_counts() where jobs <> running")


@pytest.mark.parametrize("before", [{}, {"at_once": 1, "by": ["other"]}], ids=["none", "another key"])
async def test_jobs_that_wait_get_the_limit_of_their_task(sql: Session, before: dict[str, Any]) -> None:
    """The first deployment with a limit finds jobs that were added before."""
    await declare(sql, t=before)
    jobs = [await add(sql, payload=f'{{"k": {key}}}') for key in (1, 1, 2, 2)]
    await declare(sql, t={"at_once": 1, "by": ["k"]})

    assert [jobs[0], jobs[2]] == await fetched(sql)


async def test_a_task_without_a_limit_loses_it(sql: Session) -> None:
    """The declaration names each task of the worker. New jobs are in no partition; those that wait stay in theirs."""
    await declare(sql, t={"total": 1})
    await add(sql)
    await declare(sql, t={})
    await add(sql)

    assert [False, True] == await sql.values("select partition is null from asyncq._jobs order by id")
    assert 2 == len(await fetched(sql))


async def test_jobs_that_wait_for_a_limit_that_no_task_has_any_more_start(sql: Session) -> None:
    """They stay in their partitions, which limit nothing. A worker with the old code that starts declares it again."""
    old = {"at_once": 1, "by": ["k"]}
    await declare(sql, t={**old})
    jobs = [await add(sql, payload='{"k": 1}') for _ in range(4)]
    first = await fetched(sql)
    ended = await declare(sql, "worker 2", t={})
    others = await fetched(sql, 2)
    again = await declare(sql, "worker 3", t={**old})

    assert (jobs[:1], jobs[1:3], []) == (first, others, await fetched(sql))
    assert [("t", {"at_once": 1}, {}, "worker 1")] == ended
    assert ([], {"at_once": 1}) == (again, await values(sql, "t"))


async def test_a_limit_that_another_task_has_holds_for_all_that_wait(sql: Session) -> None:
    """Jobs of the task that left it are still among those of the limit until they have run."""
    for task in ("a", "b"):
        await sql.rows("select asyncq._store_tasks(array[$1])", task)
    declaration = {
        "limits": [{"name": "both", "at_once": 1}],
        "tasks": [{"identifier": task, "limit": "both", "by": ["k"]} for task in ("a", "b")],
    }
    await sql.run("declare_limits", json.dumps(declaration), "worker 1")
    jobs = [await add(sql, task, payload='{"k": 1}') for task in ("a", "b")]
    left = await declare(sql, "worker 2", a={})

    assert ([], jobs[:1], {"at_once": 1}) == (left, await fetched(sql), await values(sql, "both"))


async def test_what_was_set_by_hand_holds_after_the_last_task_has_left(sql: Session) -> None:
    """Until it is unset. Then the limit is not listed any more."""
    await declare(sql, t={"at_once": 1, "by": ["k"]})
    await sql.execute("select asyncq.set_limit('t', at_once => 2)")
    jobs = [await add(sql, payload='{"k": 1}') for _ in range(4)]
    await declare(sql, t={})
    held = await fetched(sql)
    listed = await sql.values("select name from asyncq.limits where declared is null")
    await sql.execute("select asyncq.unset_limit('t')")
    freed = await fetched(sql)
    await complete(sql, [dict(row) for row in await sql.rows("select id, lock_token from asyncq._jobs")])
    await fetched(sql)

    assert (jobs[:2], ["t"], jobs[2:]) == (held, listed, freed)
    assert [] == await sql.values("select name from asyncq.limits")


async def test_of_two_declarations_that_take_the_last_tasks_from_a_limit_one_ends_it(
    own: Session, kept_connections: KeptConnections
) -> None:
    """Neither sees that the other task has left it, until the first one has committed."""
    for task in ("a", "b"):
        await own.rows("select asyncq._store_tasks(array[$1])", task)
    tasks = [{"identifier": task, "limit": "both", "by": ["k"]} for task in ("a", "b")]
    await own.run("declare_limits", json.dumps({"limits": [{"name": "both", "at_once": 1}], "tasks": tasks}), "w")
    ended: list[Any] = []

    async def leave() -> None:
        ended.extend(await declare(own, b={}))

    async with (
        kept_connections.session(own.schema) as other,
        kept_connections.session(own.schema) as watcher,
        anyio.create_task_group() as group,
        other.connection.transaction(),
    ):
        first = await declare(other, a={})
        group.start_soon(leave)
        is_blocked = "select exists (select from pg_locks where not granted)"
        await wait_until(lambda: watcher.value(is_blocked), description="the second declaration to wait")

    assert ([], ["both"], {}) == (first, [name for name, *_ in ended], await values(own, "both"))


async def test_the_limit_of_a_paused_task_stays_until_it_has_another_one(sql: Session) -> None:
    """The jobs of a task that was paused without a limit are in partitions of limit 2."""
    await sql.execute("select asyncq._store_tasks(array['t']); update asyncq._tasks set limit_id = 2")
    await declare(sql, t={})
    kept = await sql.value("select limit_id from asyncq._tasks")
    await declare(sql, t={"total": 1})

    assert (2, 3) == (kept, await sql.value("select limit_id from asyncq._tasks"))


async def test_a_task_whose_row_is_locked_is_left_out(own: Session, kept_connections: KeptConnections) -> None:
    """A worker does not wait for the transaction of a program that has just used the name. It declares it again."""
    await declare(own, a={}, b={})
    async with kept_connections.session(own.schema) as other, other.connection.transaction():
        await other.rows("select from asyncq._tasks where identifier = 'a' for update")
        with anyio.fail_after(5):
            late = await declare(own, a={"total": 1}, b={"total": 1})
    has_limit = "select limit_id is not null from asyncq._tasks order by identifier"

    assert ([("a", None, None, None)], [False, True]) == (late, await own.values(has_limit))
    assert ([], [True, True]) == (await declare(own, a={"total": 1}, b={"total": 1}), await own.values(has_limit))


async def test_a_declaration_of_what_is_stored_writes_nothing(sql: Session) -> None:
    """Each start of a worker declares, and a large deployment starts many at once."""

    async def versions() -> list[Any]:
        tables = ("_limits", "_tasks", "_partitions", "_wakeups")
        return [await sql.values(f"select xmin::text || ctid from asyncq.{table} order by ctid") for table in tables]

    limits = {"a": {"at_once": 3, "by": ["k"]}, "b": {"total": 2, "rate": 5, "per_s": 0.1}, "c": {}}
    await declare(sql, **json.loads(json.dumps(limits)), queues={"q": 2})
    before = await versions()
    await declare(sql, "worker 2", **limits, queues={"q": 2})

    assert before == await versions()


async def test_there_may_be_32000_limits(sql: Session) -> None:
    """Their number is part of the numbers of partitions, in 16 bits."""
    await sql.execute("insert into asyncq._limits (id, name) values (32000, 'last')")
    error = await sql.refusal("select asyncq._limit_id('one more')")

    assert "54000" == error.sqlstate
    assert "limit one more cannot be added: there are 32000 limits already" == str(error)
