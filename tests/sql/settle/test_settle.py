"""`settle_completed` and `settle_rest`: the end of a claim, and whose it is."""

import pytest

from tests.support.jobs import WORKER, add, add_many, change, claimed, complete, fetch, locked_queues, rest
from tests.support.session import Session

FREE = {"locked_by": None, "locked_at": None, "lock_token": None}


async def test_a_completed_job_is_deleted(sql: Session) -> None:
    """Nothing is left of it, and its queue is free."""
    job = await add(sql, queue="q")

    assert [job] == await complete(sql, await fetch(sql))
    assert (0, []) == (await sql.value("select count(*) from asyncq._jobs"), await locked_queues(sql))


@pytest.mark.parametrize("settle", [complete, change])
async def test_a_repeated_settlement_changes_nothing(sql: Session, settle: object) -> None:
    """A settlement whose answer was lost is sent again."""
    await add(sql)
    claims = await fetch(sql)
    await settle(sql, claims)
    (before,) = await sql.rows("select * from asyncq._jobs") or [None]

    assert [] == await settle(sql, claims)
    assert [before] == (await sql.rows("select * from asyncq._jobs") or [None])


@pytest.mark.parametrize("settle", [complete, change])
@pytest.mark.parametrize("stranger", ["another worker", "an older fetch", "a job that was never claimed"])
async def test_nobody_settles_the_claim_of_another(sql: Session, settle: object, stranger: str) -> None:
    """A worker that lost a claim must not end the run of the worker that has it now."""
    job = await add(sql, queue="q")
    (claim,) = await fetch(sql, worker=7, token=42)
    if stranger == "another worker":
        done = await settle(sql, [claim], worker=8)
    elif stranger == "an older fetch":
        done = await settle(sql, [{**claim, "lock_token": 41}], worker=7)
    else:
        await change(sql, [claim], worker=7)
        done = await settle(sql, [claim], worker=7)

    assert [] == done
    assert ["q"] == await locked_queues(sql) or stranger.startswith("a job")
    assert [job] == await sql.values("select id from asyncq._jobs")


async def test_only_the_queues_of_settled_jobs_are_freed(sql: Session) -> None:
    """The claims of one worker are many; each frees its own queue."""
    await add_many(sql, 3, queue="'q' || i")
    claims = await fetch(sql)
    await complete(sql, [claims[0], {**claims[1], "lock_token": 77}])

    assert ["q2", "q3"] == await locked_queues(sql)


async def test_a_batch_settles_each_job_with_its_own_numbers(sql: Session) -> None:
    """The arrays are parallel; the place of an id is found by binary search."""
    await add_many(sql, 200)
    ids = [claim["id"] for claim in await fetch(sql, 200)]
    numbers = range(200)
    rows = await sql.run(
        "settle_rest",
        WORKER,
        *rest(
            ids,
            [1] * 200,
            [None] * 200,
            [number % 3 for number in numbers],
            [None if number % 2 else float(number) for number in numbers],
            [None if number % 5 else f"error {number}" for number in numbers],
            [None if number % 7 else number % 10 for number in numbers],
            [None if number % 3 == 0 else "failed" for number in numbers],
            [float(number) for number in numbers],
            [None] * 200,
            [None] * 200,
        ),
    )
    stored = await sql.rows("""
        select id, attempts, extract(epoch from run_at - now())::int as delay, last_error, interruptions
        from asyncq._jobs order by id""")

    assert set(ids) == {row["id"] for row in rows}
    assert [
        (
            id_,
            number % 3,
            0 if number % 2 else number,
            None if number % 5 else f"error {number}",
            0 if number % 7 else number % 10,
        )
        for number, id_ in enumerate(ids)
    ] == [tuple(row) for row in stored]


async def test_a_settlement_without_numbers_only_unlocks(sql: Session) -> None:
    """A claim that never started is returned like this."""
    await add(sql, queue="q", run_at="now() - interval '1 h'")
    await sql.execute("update asyncq._jobs set last_error = 'e', interruptions = 2, attempts = 1")
    before = dict(await sql.row("select * from asyncq._jobs"))
    await change(sql, await fetch(sql))

    assert {**before, "updated_at": await sql.value("select now()")} == dict(
        await sql.row("select * from asyncq._jobs")
    )
    assert [] == await locked_queues(sql)


@pytest.mark.parametrize(
    ("run_at", "delay_s", "expected"),
    [
        ("now() - interval '1 day'", 10.0, "now() + interval '10 s'"),
        ("now()", 0.0, "now()"),
        ("now() - interval '1 day'", None, "now() - interval '1 day'"),
        ("now() - interval '1 day'", 0.25, "now() + interval '250 ms'"),
    ],
)
async def test_a_delay_counts_from_now(sql: Session, run_at: str, delay_s: float | None, expected: str) -> None:
    """It does not count from the old due time."""
    await add(sql, run_at=run_at)
    await change(sql, await fetch(sql), delay_s=delay_s)

    assert await sql.value(f"select {expected}") == await sql.value("select run_at from asyncq._jobs")


async def test_a_delay_counts_from_run_at_if_that_is_later(sql: Session) -> None:
    """graphile-worker retries at `greatest(now, run_at)` plus the delay."""
    await add(sql)
    claims = await fetch(sql)
    await sql.execute("update asyncq._jobs set run_at = now() + interval '1 h'")
    await change(sql, claims, delay_s=1.0)

    assert "1:00:01" == str(await sql.value("select run_at - now() from asyncq._jobs"))


@pytest.mark.parametrize(
    ("attempts", "added", "expected"), [(0, 1, 1), (2, 1, 3), (0, 32767, 3), (3, 1, 3), (3, 0, 3), (5, 1, 5)]
)
async def test_attempts_are_added_and_end_at_the_limit(sql: Session, attempts: int, added: int, expected: int) -> None:
    """Discarding takes all attempts at once; a row beyond its limit is left where it is."""
    await add(sql, max_attempts=3)
    claims = await fetch(sql)
    await sql.execute(f"update asyncq._jobs set attempts = {attempts}")
    await change(sql, claims, attempts=added)

    assert expected == await sql.value("select attempts from asyncq._jobs")


async def test_claims_of_a_lost_answer_are_returned_by_their_token(sql: Session) -> None:
    """The worker never learned their ids; it knows the number of the fetch."""
    await add_many(sql, 2, queue="'lost' || i")
    lost = await fetch(sql, token=1)
    await add_many(sql, 2, queue="'kept' || i")
    kept = await fetch(sql, token=2)
    rows = await sql.run("return_lost", WORKER, [1, 3])

    assert {claim["id"] for claim in lost} == {row["id"] for row in rows}
    assert [claim["id"] for claim in kept] == await claimed(sql)
    assert ["kept1", "kept2"] == await locked_queues(sql)


async def test_nothing_to_settle_is_no_error(sql: Session) -> None:
    """Empty arrays are accepted."""
    assert ([], []) == (await complete(sql, []), await change(sql, []))
