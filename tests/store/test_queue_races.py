"""A queue changes between the snapshot of a fetch and its locks: each case by its own forced interleaving.

The invariant is that a queue has a row exactly as long as one of its jobs runs, with the worker that runs it.
"""

from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from tests.support.gate import Gate
from tests.support.jobs import BATCH_FROM, add, add_many, change, claimed, complete, fetch, fetched, stray_queues
from tests.support.session import Session

THOROUGH = True
OTHER = 2

End = Callable[[Session, list[asyncpg.Record]], Awaitable[object]]


async def _complete(sql: Session, claims: list[asyncpg.Record]) -> None:
    assert 1 == len(await complete(sql, claims, worker=OTHER))


async def _fail(sql: Session, claims: list[asyncpg.Record]) -> None:
    assert 1 == len(await change(sql, claims, worker=OTHER, attempts=1, delay_s=3600.0, error="e"))


async def _rescue(sql: Session, _claims: list[asyncpg.Record]) -> None:
    assert 1 == len(await sql.run("rescue_jobs", THOROUGH, None))


async def _return_lost(sql: Session, claims: list[asyncpg.Record]) -> None:
    assert 1 == len(await sql.run("return_lost", OTHER, [claims[0]["lock_token"]]))


ENDS: dict[str, End] = {"completed": _complete, "failed": _fail, "rescued": _rescue, "returned": _return_lost}


@pytest.fixture(autouse=True, params=[1000, 1], ids=["row by row", "batched"])
def claims(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fetch claims in rows, or in batches."""
    monkeypatch.setitem(BATCH_FROM, "rows", request.param)


BY_ANY_END = pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)


@BY_ANY_END
@pytest.mark.parametrize("is_known", [True, False])
async def test_a_queue_that_another_job_had_meanwhile_is_taken_when_it_is_free_again(
    gate: Gate, fetcher: Session, other: Session, end: End, *, is_known: bool
) -> None:
    """The snapshot has neither the claim nor its end, so this fetch leaves the queue alone. The end woke it."""
    if is_known:
        await add(other, queue="q")
        await complete(other, await fetch(other))
    await add(fetcher, queue="q")

    async def overtake() -> None:
        await add(other, queue="q", priority=-1)
        await end(other, await fetch(other, worker=OTHER))

    assert [] == await gate.during(fetched(fetcher), overtake())
    next_one = await other.value("select id from asyncq._jobs where run_at <= now() order by priority limit 1")
    assert ([next_one], []) == (await fetched(fetcher), await stray_queues(fetcher))


@BY_ANY_END
async def test_a_job_that_was_run_meanwhile_gives_no_claim_and_leaves_no_row_of_its_queue(
    gate: Gate, fetcher: Session, other: Session, end: End
) -> None:
    """The fetch has seen the job, which is gone or claimed by another worker.

    A row of the queue would stay for ever.
    """
    await add(fetcher, queue="q", max_attempts=1)

    async def run_it() -> None:
        claims = await fetch(other, worker=OTHER)
        await end(other, claims)
        await other.execute("update asyncq._jobs set run_at = pg_catalog.now() + interval '1 h'")

    assert [] == await gate.during(fetched(fetcher), run_it())
    assert ([], []) == (await claimed(fetcher), await stray_queues(fetcher))


@BY_ANY_END
async def test_the_next_job_of_a_queue_is_fetched_after_the_end_of_the_one_before(
    fetcher: Session, other: Session, end: End
) -> None:
    """Any worker may have ended it, in any way. Nobody waits while it ends."""
    await add_many(other, 2, queue="'q'")
    claims = await fetch(other, worker=OTHER)
    await fetcher.execute("set lock_timeout = '100ms'")
    async with other.connection.transaction():
        await end(other, claims)
        during = await fetched(fetcher)

    assert [] == during
    assert 1 == len(await fetched(fetcher))
    assert [] == await stray_queues(fetcher)


@BY_ANY_END
async def test_a_fetch_that_meets_the_end_of_a_job_that_it_never_saw_does_not_wait_for_long(
    gate: Gate, fetcher: Session, other: Session, end: End
) -> None:
    """The end is not committed yet, which may take a while. The fetch skips its queue, and takes other jobs."""
    await add(fetcher, queue="q")
    free = await add(fetcher, queue="free")
    await fetcher.execute("set lock_timeout = '1s'")
    transaction = other.connection.transaction()

    async def overtake() -> None:
        await add(other, queue="q", priority=-1)
        claims = await fetch(other, 1, worker=OTHER)
        await transaction.start()
        await end(other, claims)

    taken = await gate.during(fetched(fetcher), overtake())
    await transaction.commit()

    assert [free] == taken
    assert 1 == len(await fetched(fetcher))
    assert [] == await stray_queues(fetcher)


async def test_a_queue_that_was_taken_meanwhile_for_another_job_costs_the_fetch_that_job_only(
    gate: Gate, fetcher: Session, other: Session
) -> None:
    """Its first job in the snapshot is free, and stays so; another queue and a job without one are taken."""
    await add(fetcher, queue="q")
    free = [await add(fetcher, queue="free"), await add(fetcher)]

    async def overtake() -> None:
        await add(other, queue="q", priority=-1)
        await fetch(other, 1, worker=OTHER)

    assert free == await gate.during(fetched(fetcher), overtake())
    assert [] == await stray_queues(fetcher)


@pytest.mark.parametrize(("task", "priority"), [("t", 0), ("t", -1), ("other", 0)])
async def test_a_job_that_was_added_while_the_end_of_another_was_open_is_found(
    sql: Session, other: Session, task: str, priority: int
) -> None:
    """The end does not see it, and the fetch that sees it finds a full queue."""
    await add(sql, queue="q")
    claims = await fetch(sql)
    async with other.connection.transaction():
        await complete(other, claims)
        job = await add(sql, task, queue="q", priority=priority)
        between = await fetched(sql)
    found = await fetched(sql) + await fetched(sql)

    assert ([], [job]) == (between, found)
    assert [] == await stray_queues(sql)


async def test_an_open_fetch_does_not_block_others(sql: Session, other: Session) -> None:
    """Its worker may have stopped reading. Two kinds of workers: each has seen another first job of the same queue."""
    await add(sql, "theirs", queue="q")
    await add(sql, "mine", queue="q")
    free = [await add(sql, "mine", queue="free"), await add(sql, "mine")]
    await sql.execute("set lock_timeout = '1s'")
    async with other.connection.transaction():
        await fetched(other, 1, worker=OTHER, tasks=["theirs"])
        taken = await fetched(sql, tasks=["mine"])

    assert free == taken
    assert [] == await stray_queues(sql)


async def test_adds_to_new_queues_do_not_wait(sql: Session, other: Session) -> None:
    """A queue is a name in a job's row: two open transactions use the same new ones, in opposite orders."""
    await add(sql)
    for one in (sql, other):
        await one.execute("set lock_timeout = '100ms'")
    async with sql.connection.transaction(), other.connection.transaction():
        for mine, theirs in (("a", "b"), ("b", "a")):
            await add(sql, queue=mine)
            await add(other, queue=theirs)
    await add_many(sql, 4, queue="case when i % 2 = 0 then 'a' else 'b' end")

    assert [("a", 4), ("b", 4)] == [
        tuple(row)
        for row in await sql.rows(
            "select queue, count(*) from asyncq._jobs where queue is not null group by queue order by queue"
        )
    ]
    assert [] == await sql.rows("select from asyncq._partitions")
