"""`force_unlock_workers`: the claims of workers that are gone are dropped at once."""

import pytest

from tests.support.jobs import add, claimed, complete, fetch, fetched, locked_queues
from tests.support.session import Session

UNLOCK = "select * from asyncq.force_unlock_workers($1)"


async def test_the_jobs_of_these_workers_can_be_fetched_again(sql: Session) -> None:
    """Those of others are left alone; the rows come back in the order of their ids."""
    ids = [await add(sql, queue=queue) for queue in (None, "q", None)]
    for worker in (7, 8, 9):
        await fetch(sql, 1, worker=worker)
    rows = await sql.rows(UNLOCK, ["9", "7"])
    freed = [row["id"] for row in rows]

    assert (sorted(freed), 2, {None}) == (freed, len(freed), {row["locked_by"] for row in rows})
    assert sorted({*ids} - {*freed}) == await claimed(sql)
    assert freed == sorted(await fetched(sql))


async def test_their_queues_are_free(sql: Session) -> None:
    """Otherwise the next job of the queue would wait for ever."""
    first = await add(sql, queue="q")
    await add(sql, queue="q")
    await fetch(sql, worker=7)
    await sql.rows(UNLOCK, ["7"])

    assert ([], [first]) == (await locked_queues(sql), await fetched(sql))


async def test_run_at_and_last_error_stay_and_the_attempt_that_began_counts(sql: Session) -> None:
    """The view shows the same attempts as while it ran, as in graphile-worker: what kills its workers ends some day."""
    await add(sql)
    await sql.rows("update asyncq._jobs set attempts = 2, last_error = 'e'")
    await fetch(sql, worker=7)
    before = await sql.row("select run_at, attempts, last_error from asyncq.jobs")
    (row,) = await sql.rows(UNLOCK, ["7"])

    assert tuple(before) == (row["run_at"], row["attempts"], row["last_error"])
    assert (3, "e") == (row["attempts"], row["last_error"])


async def test_what_comes_of_the_dropped_claim_is_refused(sql: Session) -> None:
    """Its worker may live after all: then the job has a second run, and this one does not count."""
    await add(sql)
    claims = await fetch(sql, worker=7)
    await sql.rows(UNLOCK, ["7"])

    assert [] == await complete(sql, claims, 7)


@pytest.mark.parametrize("ids", [None, [], [None], ["70"], [" 7"], ["x"], ["7 "], ["07"]])
async def test_ids_are_compared_exactly(sql: Session, ids: list[str] | None) -> None:
    """Unknown ones are ignored, null is nobody."""
    job = await add(sql)
    await fetch(sql, worker=7)

    assert ([], [job]) == (await sql.rows(UNLOCK, ids), await claimed(sql))
