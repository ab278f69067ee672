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
