"""`remove_limit`: an administrator ends a limit that no worker declares any more."""

import json
from typing import Any

import pytest

from tests.sql.control.test_declare_limits import declare, values
from tests.support.jobs import add, fetched
from tests.support.session import KeptConnections, Session

REGISTER = """
insert into asyncq._workers (lease, pid, concurrency, host, tasks)
values ('30 s', 1, 1, 'h', array[{task}]::text[]) returning id"""
DEAD = "update asyncq._workers set died_at = clock_timestamp()"
KEYED = {"at_once": 1, "by": ["k"]}


async def test_nothing_limits_the_jobs_of_a_removed_limit(sql: Session) -> None:
    """Not what was declared, nor what was set for the limit or for a key. Those that wait start."""
    await declare(sql, t={**KEYED, "total": 2})
    await sql.rows("select asyncq.set_limit('t', rate => 1, per_s => 60)")
    await sql.rows("select asyncq.set_partition('t', 'a', at_once => 1)")
    jobs = [await add(sql, payload=json.dumps({"k": key})) for key in ("a", "a", "a", "b", "b")]
    before = await fetched(sql)
    await sql.rows("select asyncq.remove_limit('t')")

    assert [jobs[0], jobs[3]] == before
    assert [jobs[1], jobs[2], jobs[4]] == await fetched(sql)
    assert [{}, None] == [await values(sql, "t"), await sql.value("select limit_id from asyncq._tasks")]
    assert [] == await sql.values("select key from asyncq._partitions where overrides is not null")


async def test_a_worker_that_declares_a_removed_limit_restores_it(sql: Session) -> None:
    """Also for the jobs that were added meanwhile."""
    await declare(sql, t={**KEYED})
    await sql.rows("select asyncq.remove_limit('t')")
    jobs = [await add(sql, payload='{"k": 1}') for _ in range(3)]
    await declare(sql, t={**KEYED})

    assert (jobs[:1], {"at_once": 1}) == (await fetched(sql), await values(sql, "t"))


async def test_a_queue_without_its_limit_runs_one_job_at_a_time(sql: Session) -> None:
    """Those that run already go on, and the queue is not listed any more."""
    await declare(sql, queues={"q": 2})
    await sql.rows("select asyncq.set_limit('q', at_once => 3)")
    jobs = [await add(sql, queue="q") for _ in range(5)]
    before = await fetched(sql)
    await sql.rows("select asyncq.remove_limit('q')")
    during = await fetched(sql)
    await sql.execute("delete from asyncq._jobs where locked_by is not null")
    await sql.execute(
        "update asyncq._partitions set running = 0; select asyncq._wake_heads(array_agg(id)) from asyncq._partitions"
    )

    assert (jobs[:3], [], jobs[3:4]) == (before, during, await fetched(sql))
    assert [] == await sql.values("select name from asyncq.limits")


async def test_the_jobs_of_a_paused_task_stay_paused(sql: Session) -> None:
    """A pause ends only when it is resumed."""
    await declare(sql, t={**KEYED})
    jobs = [await add(sql, payload='{"k": 1}') for _ in range(2)]
    await sql.rows("select asyncq.pause(task => 't')")
    await sql.rows("select asyncq.remove_limit('t')")
    during = await fetched(sql)
    await sql.rows("select asyncq.resume(task => 't')")

    assert ([], jobs) == (during, await fetched(sql))


@pytest.mark.parametrize(
    ("declaration", "name", "said"),
    [
        ({"t": {**KEYED}}, "t", "limit t cannot be removed: live workers declare it: {worker}; its tasks: t"),
        ({"queues": {"q": 2}}, "q", "limit q cannot be removed: live workers declare it: {worker}"),
    ],
    ids=["limit", "queue"],
)
async def test_a_limit_that_a_live_worker_declares_is_not_removed(
    own: Session, declaration: dict[str, Any], name: str, said: str
) -> None:
    """It would hold again when that worker starts again, and not until then. A dead worker hinders nobody."""
    worker = await own.value(REGISTER.format(task="'t'"))
    await declare(own, f"worker {worker}", **json.loads(json.dumps(declaration)))
    error = await own.refusal(f"select asyncq.remove_limit('{name}')")
    held = await own.values("select name from asyncq.limits")
    await own.execute(DEAD)
    await own.rows(f"select asyncq.remove_limit('{name}')")
    await own.execute("delete from asyncq._workers")

    assert ("22023", "name", said.format(worker=worker)) == (error.sqlstate, error.column_name, str(error))
    assert ([name], []) == (held, await own.values("select name from asyncq.limits"))


async def test_what_nobody_has_declared_is_not_removed(sql: Session) -> None:
    """The message names what there is."""
    await declare(sql, queues={"q": 2})
    error = await sql.refusal("select asyncq.remove_limit('x')")

    assert ("22023", "no worker has declared a limit x; there are q") == (error.sqlstate, str(error))


async def test_a_limit_whose_task_is_locked_is_not_removed(own: Session, kept_connections: KeptConnections) -> None:
    """All of it or nothing: a caller can try again."""
    await declare(own, t={**KEYED})
    await own.rows("select asyncq.set_limit('t', at_once => 3)")
    async with kept_connections.session(own.schema) as other, other.connection.transaction():
        await other.rows("select from asyncq._tasks for update")
        error = await own.refusal("select asyncq.remove_limit('t')")

    assert ("55P03", {"at_once": 3}) == (error.sqlstate, await values(own, "t"))
