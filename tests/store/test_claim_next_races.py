"""The queue changes while its next job is claimed: after the snapshot of the statement, before its locks."""

from collections.abc import Awaitable, Callable

import pytest

from tests.support.gate import Gate
from tests.support.jobs import (
    add,
    change,
    claim_next,
    claimed,
    fetch,
    fetched,
    locked_queues,
    stray_queues,
    to_queue,
)
from tests.support.session import Session

THOROUGH = True
OTHER = 2

Change = Callable[[Session, int], Awaitable[object]]

CHANGES: dict[str, str] = {
    "put off": "update asyncq._jobs set run_at = pg_catalog.now() + interval '1 h' where id = $1",
    "removed": "delete from asyncq._jobs where id = $1",
    "discarded": "update asyncq._jobs set attempts = max_attempts where id = $1",
    "moved to another queue": f"update asyncq._jobs set {to_queue('other')} where id = $1",
    "forbidden": """update asyncq._jobs set flags = '{"f": true}' where id = $1""",
}


@pytest.mark.parametrize("statement", CHANGES.values(), ids=CHANGES)
async def test_a_follower_that_was_changed_meanwhile_is_left_alone_and_the_queue_is_freed(
    gate: Gate, fetcher: Session, other: Session, statement: str
) -> None:
    """The job was ready in the snapshot, but the locked row is not."""
    first, second = [await add(fetcher, queue="q") for _ in range(2)]
    claims = await fetch(fetcher)
    succession = claim_next(fetcher, claims, forbidden=["f"])

    assert ([first], []) == await gate.during(succession, other.rows(statement, second))
    assert ([], []) == (await claimed(fetcher), await locked_queues(fetcher))


async def test_a_follower_that_another_transaction_holds_is_not_waited_for(
    gate: Gate, fetcher: Session, other: Session
) -> None:
    """The job behind it is not claimed either, since that would break the order."""
    first, second, _ = [await add(fetcher, queue="q") for _ in range(3)]
    claims = await fetch(fetcher)
    await fetcher.execute("set lock_timeout = '1s'")
    transaction = other.connection.transaction()

    async def hold() -> None:
        await transaction.start()
        await other.rows("select from asyncq._jobs where id = $1 for update", second)

    assert ([first], []) == await gate.during(claim_next(fetcher, claims), hold())
    await transaction.rollback()
    assert [second] == await fetched(fetcher)


async def test_no_worker_comes_between_the_two_jobs(gate: Gate, fetcher: Session, other: Session) -> None:
    """A concurrent fetch finds the queue locked, before and after the end of the first job."""
    first, second = [await add(fetcher, queue="q") for _ in range(2)]
    claims = await fetch(fetcher)
    found: list[int] = []

    async def look() -> None:
        found.extend(await fetched(other, worker=OTHER))

    settled, taken = await gate.during(claim_next(fetcher, claims), look())
    found += await fetched(other, worker=OTHER)

    assert ([first], [second], []) == (settled, [claim["id"] for claim in taken], found)
    assert [] == await stray_queues(fetcher)


async def test_a_fetch_that_began_before_the_first_job_was_taken_gets_nothing_of_the_queue(
    gate: Gate, fetcher: Session, other: Session
) -> None:
    """In its snapshot the queue is free and the first job waits. Meanwhile that has ended, and the second one runs."""
    _, second = [await add(fetcher, queue="q") for _ in range(2)]

    async def overtake() -> None:
        await claim_next(other, await fetch(other, worker=OTHER), worker=OTHER)

    assert [] == await gate.during(fetched(fetcher), overtake())
    assert ([second], []) == (await claimed(fetcher), await stray_queues(fetcher))


async def test_a_rescue_meanwhile_loses_neither_the_queue_nor_the_job(
    gate: Gate, fetcher: Session, other: Session
) -> None:
    """The worker was declared dead while it stalled. The next rescue returns its new claim."""
    await add(fetcher, queue="q")
    second = await add(fetcher, queue="q")
    claims = await fetch(fetcher)
    settled, taken = await gate.during(claim_next(fetcher, claims), other.run("rescue_jobs", THOROUGH, None))

    assert (1, [second]) == (len(settled), [claim["id"] for claim in taken])
    assert [] == await stray_queues(fetcher)
    assert [second] == [row["job_id"] for row in await other.run("rescue_jobs", THOROUGH, None)]
    assert ([], []) == (await claimed(fetcher), await locked_queues(fetcher))


async def test_a_claim_that_is_lost_before_the_lock_takes_nothing(sql: Session, other: Session) -> None:
    """Rescued and taken by another one: the fence is asked again on the newest row."""
    await add(sql, queue="q")
    await add(sql, queue="q")
    claims = await fetch(sql, 1)
    await other.run("rescue_jobs", THOROUGH, None)
    theirs = await fetch(other, worker=OTHER, token=9)

    assert ([], []) == await claim_next(sql, claims)
    assert [theirs[0]["id"]] == await claimed(sql)
    assert [] == await stray_queues(sql)
    await change(other, theirs, worker=OTHER)


async def test_a_locked_row_of_the_first_job_is_settled_later(sql: Session, other: Session) -> None:
    """Nothing waits, and no job of its queue is claimed before it has ended."""
    await add(sql, queue="q")
    await add(sql, queue="q")
    claims = await fetch(sql)
    await sql.execute("set lock_timeout = '100ms'")
    async with other.connection.transaction():
        await other.rows("select from asyncq._jobs where id = $1 for update", claims[0]["id"])
        during = await claim_next(sql, claims)

    assert (([], []), ["q"]) == (during, await locked_queues(sql))
