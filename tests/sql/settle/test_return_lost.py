"""`_return_lost`: returns the claims of a fetch whose answer was lost; test_settle.py tests those of plain jobs."""

from tests.support.jobs import WORKER, add, claimed, fetch, fetched, locked_queues
from tests.support.marked import ASK_AGAIN, CANCEL, ended, keep
from tests.support.session import Session


async def test_marked_jobs_among_them_end_as_their_mark_says(sql: Session) -> None:
    """No other statement will settle them, and a mark without a claim cannot be stored."""
    cancelled, again, plain = jobs = [await add(sql, queue=f"q{number}") for number in range(3)]
    await keep(sql, cancelled)
    await fetch(sql, token=5)
    await sql.rows(CANCEL, cancelled)
    await sql.rows(ASK_AGAIN, again)
    returned = [row["id"] for row in await sql.run("return_lost", WORKER, [5])]

    assert jobs == sorted(returned)
    assert ([], [], [(cancelled, "cancelled")]) == (await claimed(sql), await locked_queues(sql), await ended(sql))
    assert {again, plain} == set(await fetched(sql))


async def test_the_claims_of_another_worker_stay_although_their_token_is_the_same(sql: Session) -> None:
    """Each worker counts its fetches itself, so only both numbers together identify a claim."""
    plain, cancelled = [await add(sql, queue=queue) for queue in ("q", "r")]
    await fetch(sql, worker=WORKER + 1, token=5)
    await sql.rows(CANCEL, cancelled)

    assert [] == await sql.run("return_lost", WORKER, [5])
    assert ([plain, cancelled], ["q", "r"]) == (await claimed(sql), await locked_queues(sql))


async def test_nothing_lost_is_no_error(sql: Session) -> None:
    """The fetch may have failed before it took anything."""
    job = await add(sql, queue="q")
    await fetch(sql, token=5)

    assert [] == await sql.run("return_lost", WORKER, [4])
    assert ([job], ["q"]) == (await claimed(sql), await locked_queues(sql))
