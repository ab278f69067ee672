"""`failures` and `failed_jobs`: what fails, by task and error, and job by job."""

from collections.abc import Sequence
from typing import Any

from tests.support.jobs import add
from tests.support.session import Session


async def fail(sql: Session, task: str, error: str | None, *, minutes_ago: int = 0, queue: str | None = None) -> int:
    """A discarded job with its secrets. Returns its id."""
    job = await add(sql, task, queue=queue, payload='{"secret": "s3cret"}')
    await sql.rows(
        """
        update asyncq._jobs set attempts = max_attempts, last_error = $2, key = 'key s3cret ' || id,
          meta = '{"secret": "s3cret"}', updated_at = now() - make_interval(mins => $3)
        where id = $1""",
        job,
        error,
        minutes_ago,
    )
    return job


async def groups(sql: Session, most: int = 100) -> list[tuple[Any, ...]]:
    """The groups, without their times."""
    rows = await sql.rows("select task, first_line, jobs, job_id from asyncq.failures($1)", most)
    return [tuple(row) for row in rows]


async def test_the_failed_are_grouped_by_task_and_first_line(sql: Session) -> None:
    """The largest group comes first, and names its newest job. Others do not count."""
    await add(sql, "a")
    await fail(sql, "a", "OSError: no disk\nTraceback s3cret", minutes_ago=2)
    newest = await fail(sql, "a", "OSError: no disk\nanother", minutes_ago=1)
    other = await fail(sql, "b", "OSError: no disk", minutes_ago=0)
    none = await fail(sql, "a", None, minutes_ago=3)
    long = await fail(sql, "a", "x" * 600, minutes_ago=9)

    assert [
        ("a", "OSError: no disk", 2, newest),
        ("b", "OSError: no disk", 1, other),
        ("a", None, 1, none),
        ("a", "x" * 500, 1, long),
    ] == await groups(sql)
    assert [("b", "OSError: no disk", 1, other)] == await groups(sql, 1)


async def pages(sql: Session, most: int) -> Sequence[int]:
    """The ids of all pages of failed jobs."""
    ids, place = list[int](), (None, None)
    while rows := await sql.rows("select id, failed_at from asyncq.failed_jobs($1, $2, $3)", *place, most):
        ids += [row["id"] for row in rows]
        place = (rows[-1]["failed_at"], rows[-1]["id"])
    return ids


async def test_the_last_to_fail_come_first(sql: Session) -> None:
    """Jobs that failed at one moment are on one page only."""
    ids = [await fail(sql, "a", "e\nTraceback", minutes_ago=ago, queue="q") for ago in (5, 0, 0, 0, 9, 0)]
    order = [ids[5], ids[3], ids[2], ids[1], ids[0], ids[4]]
    (row,) = await sql.rows("select * from asyncq.failed_jobs(most => 1)")

    assert [order] * 3 == [await pages(sql, most) for most in (1, 2, 100)]
    assert (ids[5], "a", "q", 25, 25, "e") == tuple(row[name] for name in row.keys() if name != "failed_at")  # noqa: SIM118
