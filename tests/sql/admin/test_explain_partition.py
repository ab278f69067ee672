"""`_explain_partition`: the reasons of limits, rates and keys; without them the job is fetched."""

import json
from typing import Any

import pytest

from tests.sql.admin.test_explain import EXPLAIN, worker
from tests.sql.control.test_declare_limits import declare
from tests.support.jobs import add, fetched
from tests.support.session import Session

QUEUE: Any = {"queues": {"q": 2}}
BY = {"by": ["k"]}


async def said(sql: Session, job: int) -> list[tuple[str, str]]:
    """The reasons of a job, with the numbers of its world replaced."""
    return [(row["reason"], row["detail"]) for row in await sql.rows(EXPLAIN, job)]


@pytest.mark.parametrize(
    ("declared", "queue", "reason", "detail"),
    [
        ({"t": {"at_once": 2, **BY}}, None, "partition_full", "2 of 2 jobs of its key run: {0}, {1}, on workers {w}"),
        ({"t": {"at_once": 1, **BY}}, None, "partition_full", "job {0} of its key runs, on worker {w} since {now}"),
        ({"t": {"total": 2}}, None, "partition_full", "2 of 2 jobs of the limit t run"),
        (QUEUE, "q", "queue_busy", "2 of 2 jobs of its queue run: {0}, {1}, on workers {w}"),
    ],
    ids=["key", "one", "total", "queue"],
)
async def test_a_full_limit_says_which_jobs_run(
    sql: Session, declared: Any, queue: str | None, reason: str, detail: str
) -> None:
    """Until one of them has ended, the job does not start."""
    await sql.execute("set local timezone = 'UTC'")
    await declare(sql, **json.loads(json.dumps(declared)))
    jobs = [await add(sql, queue=queue, payload='{"k": "a"}') for _ in range(4)]
    me = await worker(sql, "t")
    await fetched(sql, 10, worker=me)
    now = await sql.value("select asyncq.now()::text")

    assert [(reason, detail.format(*jobs, w=me, now=now))] == await said(sql, jobs[3])
    assert [] == await fetched(sql, 10)


@pytest.mark.parametrize(
    "rate", [{"rate": 2, "per_s": 60, **BY}, {"total_rate": 2, "total_per_s": 60}], ids=["key", "all"]
)
async def test_a_rate_says_when_the_next_job_may_start(sql: Session, rate: Any) -> None:
    """It is a time within the period and a tenth of it."""
    await declare(sql, t=dict(rate))
    jobs = [await add(sql, payload='{"k": "a"}') for _ in range(3)]
    await worker(sql, "t")
    assert jobs[:2] == await fetched(sql)

    ((reason, detail),) = await said(sql, jobs[2])
    at = detail.partition("may start before ")[2].partition(": as many")[0]
    assert "rate" == reason
    assert await sql.value("select $1::text::timestamptz between asyncq.now() and asyncq.now() + interval '69.3 s'", at)


async def test_a_job_behind_others_of_its_key_names_the_first(sql: Session) -> None:
    """Only if as many come first as may start."""
    await declare(sql, t={"at_once": 2, **BY})
    jobs = [await add(sql, payload='{"k": "a"}') for _ in range(3)]
    await worker(sql, "t")

    assert [[("partition_behind", f"job {jobs[0]} of its key comes first")], ["ready"]] == [
        await said(sql, jobs[2]),
        [reason for reason, _ in await said(sql, jobs[1])],
    ]
    assert jobs[:2] == await fetched(sql)


async def test_a_job_that_has_not_been_moved_says_so(sql: Session) -> None:
    """A fetch does not look for it outside of its partition."""
    await add(sql)
    await sql.execute("update asyncq._tasks set limit_id = 2, unmoved_since = pg_current_xact_id()")
    await worker(sql, "t")

    assert ["moving"] == [reason for reason, _ in await said(sql, await sql.value("select id from asyncq._jobs"))]
    assert [] == await fetched(sql)


async def test_a_key_that_was_told_to_wait_says_until_when(sql: Session) -> None:
    """A handler asked for that."""
    await declare(sql, t={"at_once": 2, **BY})
    job = await add(sql, payload='{"k": "a"}')
    await sql.execute("""
        insert into asyncq._partitions (id, not_before) select partition, '2100-01-01 00:00Z' from asyncq._jobs""")
    await worker(sql, "t")

    assert [
        ("backed_off", "no job of its key may start before 2100-01-01 00:00:00+00, as a handler asked")
    ] == await said(sql, job)
    assert [] == await fetched(sql)
