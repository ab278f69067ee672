"""`note_block`: a block of the event loop is recorded in the job that caused it, while the worker has its claim."""

import pytest

from tests.support.jobs import add, fetch
from tests.support.session import Session, session

NOTE = "LoopBlocked: ..."


async def errors(sql: Session) -> list[str | None]:
    """The last errors of all jobs."""
    return await sql.values("select last_error from asyncq._jobs order by id")


async def test_a_note_is_written_into_the_job_that_is_held(sql: Session) -> None:
    """No other job gets it."""
    job, _ = [await add(sql) for _ in range(2)]
    await fetch(sql, 2, worker=3, token=9)
    rows = await sql.run("note_block", 3, job, 9, NOTE)

    assert ([job], [NOTE, None]) == ([row["id"] for row in rows], await errors(sql))


@pytest.mark.parametrize(("worker", "token"), [(4, 9), (3, 8)], ids=["another worker", "another run"])
async def test_a_job_that_is_not_claimed_any_more_is_left_alone(sql: Session, worker: int, token: int) -> None:
    """It may run elsewhere by now."""
    job = await add(sql)
    await fetch(sql, worker=3, token=9)

    assert ([], [None]) == (await sql.run("note_block", worker, job, token, NOTE), await errors(sql))


@pytest.mark.parametrize("strength", ["update", "key share"])
async def test_a_row_that_is_locked_is_left_alone(own: Session, dsn: str, schema: str, strength: str) -> None:
    """The heartbeat's connection has more to do; and a job's transaction could not settle a row that has changed."""
    job = await add(own)
    await fetch(own, worker=3, token=9)
    async with session(dsn, schema) as other, other.connection.transaction():
        await other.rows(f"select from asyncq._jobs for {strength}")
        await own.execute("set statement_timeout = '5s'")
        noted = await own.run("note_block", 3, job, 9, NOTE)
    await own.execute("delete from asyncq._jobs")

    assert [] == noted
