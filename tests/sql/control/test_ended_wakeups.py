"""The end of a claim is counted by each fetch that looks at its partition, whatever the task of the job was."""

from tests.support.jobs import add, complete, fetch, fetched
from tests.support.session import Session


async def test_a_queue_is_free_for_a_worker_that_does_not_know_the_task_of_the_ended_job(sql: Session) -> None:
    """Its worker may have left. The next job of that task is found by a worker that knows it."""
    await add(sql, "a", queue="q")
    claims = await fetch(sql)
    of_a = await add(sql, "a", queue="q")
    of_b = await add(sql, "b", queue="q")
    await complete(sql, claims)
    following = await fetch(sql, tasks=["b"])
    await complete(sql, following)

    assert [of_b] == [claim["id"] for claim in following]
    assert ([], [of_a]) == (await fetched(sql, tasks=["b"]), await fetched(sql, tasks=["a"]))


async def test_a_queue_keeps_its_order_when_the_clock_was_moved(sql: Session) -> None:
    """An end wakes the jobs that are due by the clock of the schema, whatever their tasks."""
    for moment, server in (
        ("now() returns timestamptz stable", "now"),
        ("clock() returns timestamptz", "clock_timestamp"),
    ):
        ahead = f"select pg_catalog.{server}() + interval ''1 h''"
        await sql.execute(f"create or replace function asyncq.{moment} language sql as '{ahead}'")
    jobs = [await add(sql, task, queue="q") for task in ("a", "b", "a")]
    started: list[int] = []
    for _ in jobs:
        claims = await fetch(sql)
        started += [claim["id"] for claim in claims]
        await complete(sql, claims)

    assert jobs == started


async def test_a_queue_keeps_its_order_after_a_back_off_although_others_woke_it_often(sql: Session) -> None:
    """The job waits with a wakeup at the end of the back-off. Those of a later job are more than a fetch looks at."""
    first = await add(sql, "a", queue="q")
    claims = await fetch(sql)
    second, third = [await add(sql, task, queue="q") for task in ("a", "b")]
    await complete(sql, claims)
    await sql.execute(
        f"""
        update asyncq._wakeups set at = asyncq.clock() where job_id = {second};
        insert into asyncq._wakeups (at, partition, job_id, task_id, priority)
          select job.run_at, job.partition, job.id, job.task_id, job.priority
          from asyncq._jobs as job, generate_series(1, 30) where job.id = {third}"""
    )

    assert [first, second] == [claims[0]["id"], *await fetched(sql, 1)]
