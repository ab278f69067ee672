"""`claim_next`: the end of a job of a queue, and the claim of the one that follows it."""

import pytest

from tests.support.jobs import WORKER, add, add_many, claim_next, claimed, fetch, locked_queues, stray_queues
from tests.support.session import Session


async def test_the_next_job_of_the_queue_is_claimed_and_the_queue_stays_taken(sql: Session) -> None:
    """It is one statement instead of two, and no other worker can interfere."""
    first, second, _ = [await add(sql, queue="q") for _ in range(3)]
    settled, claims = await claim_next(sql, await fetch(sql), token=7)

    assert ([first], [second]) == (settled, [claim["id"] for claim in claims])
    assert [(WORKER, 7)] == [
        tuple(row)
        for row in await sql.rows("select locked_by, lock_token from asyncq._jobs where locked_by is not null")
    ]
    assert (["q"], []) == (await locked_queues(sql), await stray_queues(sql))


async def test_a_claim_has_the_columns_of_a_fetch(sql: Session) -> None:
    """The worker reads both in the same way."""
    await add_many(sql, 3, queue="'q'")
    fetched = await fetch(sql)
    _, (claim,) = await claim_next(sql, fetched)

    assert ["settled", *fetched[0]] == [*claim.keys()]
    assert {**fetched[0], "id": 0, "lock_token": 0, "created_at": 0, "updated_at": 0, "run_at": 0} == {
        **{key: value for key, value in claim.items() if key != "settled"},
        "id": 0,
        "lock_token": 0,
        "created_at": 0,
        "updated_at": 0,
        "run_at": 0,
    }


async def test_the_first_job_of_the_queue_comes_next(sql: Session) -> None:
    """The order is priority, time and id, as in a fetch. Discarded jobs do not count."""
    await add(sql, queue="q")
    claims = await fetch(sql)
    later = await add(sql, queue="q", priority=1)
    older = await add(sql, queue="q", run_at="now() - interval '1 h'")
    urgent = await add(sql, queue="q", priority=-1)
    await sql.execute(
        f"update asyncq._jobs set attempts = max_attempts where id = {await add(sql, queue='q', priority=-2)}"
    )
    order: list[int] = []
    while claims:
        _, claims = await claim_next(sql, claims)
        order += [claim["id"] for claim in claims]

    assert [urgent, older, later] == order
    assert [] == await locked_queues(sql)


async def test_no_more_than_asked_for_are_claimed_and_the_other_queues_are_freed(sql: Session) -> None:
    """The worker has room for so many. Jobs without a queue are settled too."""
    await add_many(sql, 12, queue="case when i <= 10 then 'q' || i % 5 end")
    settled, claims = await claim_next(sql, await fetch(sql), 2)

    assert (7, 2) == (len(settled), len(claims))
    assert sorted(claim["queue"] for claim in claims) == await locked_queues(sql)
    assert [] == await stray_queues(sql)


@pytest.mark.parametrize("why", ["later", "unknown", "forbidden"])
async def test_a_queue_whose_next_job_cannot_run_here_is_freed(sql: Session, why: str) -> None:
    """A later job of the queue may run here, which a fetch decides."""
    await add(sql, queue="q")
    claims = await fetch(sql)
    await add(
        sql,
        "strange" if why == "unknown" else "t",
        queue="q",
        priority=-1,
        run_at="now() + interval '1 h'" if why == "later" else "now()",
        flags=["f"] if why == "forbidden" else None,
    )
    behind = await add(sql, queue="q")
    settled, taken = await claim_next(sql, claims, tasks=["t"], forbidden=["f"])

    assert ([claims[0]["id"]], [], []) == (settled, taken, await locked_queues(sql))
    assert [behind] == [claim["id"] for claim in await fetch(sql, tasks=["t"], forbidden=["f"])]


@pytest.mark.parametrize("mark", ["cancelled_at = now()", "rerun = '{}'", "keep_until = now(), keep_states = '{}'"])
async def test_a_job_that_is_left_to_settle_rest_frees_no_queue(sql: Session, mark: str) -> None:
    """Its queue stays locked until it is settled."""
    await add_many(sql, 2, queue="'q'")
    claims = await fetch(sql)
    await sql.execute(f"update asyncq._jobs set {mark} where locked_by is not null")

    assert ([], []) == await claim_next(sql, claims)
    assert (["q"], [claims[0]["id"]]) == (await locked_queues(sql), await claimed(sql))


@pytest.mark.parametrize("stranger", ["another worker", "an older fetch"])
async def test_a_lost_claim_takes_no_next_job(sql: Session, stranger: str) -> None:
    """The queue and its jobs belong to another claim now."""
    await add_many(sql, 2, queue="'q'")
    (claim,) = await fetch(sql, worker=7, token=42)
    if stranger == "an older fetch":
        await sql.execute("update asyncq._jobs set lock_token = 43 where locked_by is not null")
    done = await claim_next(sql, [claim], worker=7 if stranger == "an older fetch" else 8)

    assert ([], []) == done
    assert ([claim["id"]], ["q"]) == (await claimed(sql), await locked_queues(sql))


async def test_a_repeated_settlement_changes_nothing(sql: Session) -> None:
    """A statement whose answer was lost is sent again, with another token."""
    await add_many(sql, 3, queue="'q'")
    claims = await fetch(sql)
    _, (follower,) = await claim_next(sql, claims, token=2)

    assert ([], []) == await claim_next(sql, claims, token=3)
    assert [follower["id"]] == await claimed(sql)
    assert [follower["id"]] == [row[0] for row in await sql.run("return_lost", WORKER, [2])]
    assert [] == await locked_queues(sql)


async def test_a_name_that_contains_sql_is_an_ordinary_queue(sql: Session) -> None:
    """Users choose the names."""
    for name in ("", "a'b", "null", "ä,{}", "q" * 128):
        jobs = [await add(sql, queue=name) for _ in range(2)]
        settled, claims = await claim_next(sql, await fetch(sql))

        assert jobs == [*settled, *(claim["id"] for claim in claims)]
        await claim_next(sql, claims)
