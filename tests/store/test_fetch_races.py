"""A fetch notices changes between its snapshot and its locks: each race by its own forced interleaving.

The conditions of a fetch are in the nodes that lock, so that the server checks them again on the newest row. A
condition elsewhere would pass every other test, and claim a wrong job once in a million.
"""

import anyio
import asyncpg
import pytest

from tests.support.gate import Gate
from tests.support.jobs import (
    NO_PARTITIONS,
    add,
    add_many,
    claimed,
    complete,
    fetch,
    fetched,
    locked_queues,
    stray_queues,
    to_queue,
    wake,
)
from tests.support.session import Session, session
from tests.support.waiting import wait_until

BOTH = pytest.mark.parametrize(
    ("queue", "form"),
    [(None, "rows"), (None, "batched"), ("q", "rows"), ("q", "batched")],
)

CHANGES = {
    "it was put off": "run_at = pg_catalog.now() + interval '1 h'",
    "its task became one that the worker does not know": "task_id = 99",
    "it got a forbidden flag": "flags = '{\"bad\": true}'",
    "its attempts were used up": "attempts = max_attempts",
    "somebody claimed it": "locked_by = 9, locked_at = pg_catalog.now(), lock_token = 9",
}


@BOTH
@pytest.mark.parametrize("change", CHANGES)
async def test_a_job_that_can_no_longer_run_is_not_claimed(
    gate: Gate, fetcher: Session, other: Session, queue: str | None, form: str, change: str
) -> None:
    """The fetch still sees it as it was; the lock shows it as it is."""
    await add(fetcher, queue=queue)
    stay = await add(fetcher, queue=queue and "other")
    change_it = other.execute(f"update asyncq._jobs set {CHANGES[change]} where id < {stay}")

    assert [stay] == await gate.during(fetched(fetcher, form=form, forbidden=["bad"]), change_it)


GROWS = {
    "a key": "key = 'k'",
    "an attempt": "attempts = 1",
    "flags": "flags = '{\"f\": true}'",
}


@pytest.mark.parametrize("more", GROWS)
async def test_a_job_that_no_longer_fits_into_a_batch_is_claimed_in_its_row(
    gate: Gate, fetcher: Session, other: Session, more: str
) -> None:
    """The batch stores the locked row, not the one of the snapshot."""
    grown, stay = await add(fetcher), await add(fetcher)
    change_it = other.execute(f"update asyncq._jobs set {GROWS[more]} where id = {grown}")

    assert [grown, stay] == await gate.during(fetched(fetcher, form="batched"), change_it)
    assert [grown] == await other.values(f"select id from asyncq._jobs where {GROWS[more]} and locked_by is not null")
    assert [[stay]] == await other.values("select ids from asyncq._batches")


@pytest.mark.parametrize("queue", [None, "q"])
async def test_a_job_that_was_changed_meanwhile_is_claimed_in_its_row_beside_the_batch(
    gate: Gate, fetcher: Session, other: Session, queue: str | None
) -> None:
    """Jobs of a batch are deleted by their place, and this one has moved: it must not stay locked without a claim."""
    moved, stay = await add(fetcher, queue=queue), await add(fetcher, queue=queue and "other")
    move_it = other.execute(f"""update asyncq._jobs set payload = '{{"new": 1}}' where id = {moved}""")
    claims = await gate.during(fetch(fetcher, form="batched"), move_it)

    assert [(moved, '{"new": 1}'), (stay, "{}")] == [(claim["id"], claim["payload"]) for claim in claims]
    assert [moved] == await other.values("select id from asyncq._jobs where locked_by is not null")
    assert [[stay]] == await other.values("select ids from asyncq._batches")


@BOTH
async def test_a_job_that_was_deleted_is_not_claimed(
    gate: Gate, fetcher: Session, other: Session, queue: str | None, form: str
) -> None:
    """It was removed, or completed by another worker."""
    await add(fetcher, queue=queue)

    assert [] == await gate.during(fetched(fetcher, form=form), other.execute("delete from asyncq._jobs"))


@BOTH
async def test_a_claim_shows_the_newest_payload(
    gate: Gate, fetcher: Session, other: Session, queue: str | None, form: str
) -> None:
    """A scan during the update would read the old one, and the worker would run a replaced request."""
    await add(fetcher, queue=queue)
    (claim,) = await gate.during(
        fetch(fetcher, form=form), other.execute("""update asyncq._jobs set payload = '{"new": 1}', max_attempts = 3""")
    )

    assert ('{"new": 1}', 3) == (claim["payload"], claim["max_attempts"])


@BOTH
async def test_a_locked_job_is_skipped_and_not_waited_for(
    sql: Session, other: Session, queue: str | None, form: str
) -> None:
    """A user's open transaction must not stop the workers."""
    held = await add(sql, queue=queue)
    free = await add(sql, queue=queue and "other")
    async with other.connection.transaction():
        await other.rows("select from asyncq._jobs where id = $1 for update", held)
        taken = await fetched(sql, form=form)

    assert [free] == taken
    assert [held] == await fetched_soon(sql, form=form)


async def test_a_queue_waits_while_its_first_job_is_locked(sql: Session, other: Session) -> None:
    """The order is guaranteed: the second job does not overtake a first one that is being changed."""
    first, second = await add(sql, queue="q"), await add(sql, queue="q")
    async with other.connection.transaction():
        await other.rows("select from asyncq._jobs where id = $1 for update", first)
        taken = await fetched(sql)

    assert [] == taken
    assert [first] == await fetched_soon(sql)
    assert second > first


async def fetched_soon(sql: Session, form: str = "rows") -> list[int]:
    """Claim jobs as soon as a fetch looks again for those that were locked."""
    taken: list[int] = []

    async def has_taken() -> bool:
        taken.extend(await fetched(sql, form=form))
        return bool(taken)

    await wait_until(has_taken, description="a job to be claimed")
    return taken


async def test_a_queue_that_was_taken_meanwhile_gives_no_second_job(
    gate: Gate, fetcher: Session, other: Session
) -> None:
    """Two fetches saw it free. The first one takes it, and its job has ended when the second one locks."""
    await add(fetcher, queue="q")
    await add(fetcher, queue="q")
    first: list[asyncpg.Record] = []

    async def take_and_leave() -> None:
        first.extend(await fetch(other, worker=2))

    second = await gate.during(fetch(fetcher), take_and_leave())

    assert (1, 0) == (len(first), len(second))
    assert [first[0]["id"]] == await claimed(fetcher)


async def test_a_queue_that_was_taken_meanwhile_for_another_job_gives_no_second_one(
    gate: Gate, fetcher: Session, other: Session
) -> None:
    """An urgent job was added and runs. The first job of the snapshot is still free, but must not be claimed."""
    await add(fetcher, queue="q")
    urgent: list[int] = []

    async def overtake() -> None:
        urgent.append(await add(other, queue="q", priority=-1))
        await fetch(other, worker=2)

    assert [] == await gate.during(fetched(fetcher), overtake())
    assert urgent == await claimed(fetcher)


async def test_a_queue_whose_first_job_ended_meanwhile_is_left_as_it_is(
    gate: Gate, fetcher: Session, other: Session
) -> None:
    """The queue is free, but the first job of the snapshot is gone. The worker that ended it claims the next one."""
    await add(fetcher, queue="q")
    second = await add(fetcher, queue="q")

    async def run_the_first() -> None:
        await complete(other, await fetch(other, worker=2), worker=2)

    assert [] == await gate.during(fetched(fetcher), run_the_first())
    assert [] == await locked_queues(fetcher)
    assert [second] == await fetched(fetcher)


async def test_a_job_that_moved_to_another_queue_is_not_claimed_under_the_old_one(
    gate: Gate, fetcher: Session, other: Session
) -> None:
    """Only the old queue is locked; the new one may be busy."""
    moved = await add(fetcher, queue="old")
    await add(fetcher, queue="new", run_at="pg_catalog.now() + interval '1 h'")
    change = f"update asyncq._jobs set {to_queue('new')} where id = {moved}"

    assert [] == await gate.during(fetched(fetcher), other.execute(change))
    assert [] == await locked_queues(fetcher)
    await wake(other)
    assert [moved] == await fetched(fetcher)


async def test_two_jobs_that_met_in_one_queue_are_not_both_claimed(
    gate: Gate, fetcher: Session, other: Session
) -> None:
    """Each was the first of its queue in the snapshot."""
    moved, stayed = await add(fetcher, queue="a"), await add(fetcher, queue="b")
    change = f"update asyncq._jobs set {to_queue('b')} where id = {moved}"

    assert [stayed] == await gate.during(fetched(fetcher), other.execute(change))


async def test_a_job_that_entered_a_queue_is_not_claimed_as_one_without(
    gate: Gate, fetcher: Session, other: Session
) -> None:
    """Its queue is not locked."""
    job = await add(fetcher)
    await add(fetcher, queue="q", run_at="pg_catalog.now() + interval '1 h'")

    assert [] == await gate.during(
        fetched(fetcher), other.execute(f"update asyncq._jobs set {to_queue('q')} where id = {job}")
    )


async def test_a_job_that_left_its_queue_is_not_claimed_with_the_queue(
    gate: Gate, fetcher: Session, other: Session
) -> None:
    """The queue would count a job that is not in it. The statement for jobs without a queue claims it."""
    job = await add(fetcher, queue="q")
    leave = other.execute(f"update asyncq._jobs set {to_queue(None)}")

    assert [job] == await gate.during(fetched(fetcher), leave)
    assert ([], []) == (await locked_queues(fetcher), await stray_queues(fetcher))
    assert [None] == await fetcher.values("select partition from asyncq._jobs where locked_by is not null")


async def test_a_fetch_locks_no_more_than_it_takes(sql: Session, other: Session) -> None:
    """Locked rows are invisible to a concurrent fetch, whose worker would then sleep although they are due."""
    await add_many(sql, 40, queue="case when i % 2 = 0 then 'q' || i end")
    async with other.connection.transaction():
        mine = await fetched(other, 10, worker=2)
        others = await fetched(sql, 30) + await fetched(sql, 30)  # the first leaves room for plain jobs that are locked

    assert (10, 30) == (len(mine), len(others))
    assert 40 == len({*mine, *others})


async def test_fetches_side_by_side_take_neighbours(dsn: str, sql: Session) -> None:
    """None of six open transactions waits for another, and none leaves a gap."""
    await add_many(sql, 60)
    taken: list[list[int]] = []
    connections = [await asyncpg.connect(dsn) for _ in range(6)]
    try:
        for number, connection in enumerate(connections):
            await connection.execute("begin; set local lock_timeout = '100ms'")
            taken.append(await fetched(Session(connection, sql.schema), 10, worker=number + 1))
    finally:
        for connection in connections:
            await connection.close()

    assert [[*range(10 * place + 1, 10 * place + 11)] for place in range(6)] == taken


async def test_a_fetch_does_not_wait_for_a_queue_that_is_being_freed(sql: Session, other: Session) -> None:
    """A batch of settlements that is under way has not said so yet."""
    await add(sql, queue="q")
    await add(sql, queue="q")
    claims = await fetch(sql)
    await sql.execute("set lock_timeout = '100ms'")
    async with other.connection.transaction():
        await complete(other, claims)
        during = await fetched(sql)

    assert [] == during
    assert 1 == len(await fetched(sql))


async def test_the_unique_index_is_the_second_fence(dsn: str, sql: Session) -> None:
    """If the lock of a queue failed, the claim would fail rather than run two jobs of the queue at once."""
    await add_many(sql, 2, queue="'q'")
    await fetch(sql)
    await sql.execute(NO_PARTITIONS)
    await wake(sql)
    with pytest.raises(asyncpg.UniqueViolationError) as error:
        await fetch(sql, worker=2)

    assert "jobs_one_running_per_queue" == error.value.constraint_name


async def test_eight_workers_drain_queues_and_others_and_run_nothing_twice(dsn: str, sql: Session) -> None:
    """No queue runs two jobs at once (the second fence would raise), no job runs twice, and none is left."""
    await add_many(sql, 600, queue="case when i % 3 > 0 then 'q' || i % 20 end", priority="i % 2")
    ran: list[int] = []

    async def work(number: int) -> None:
        async with session(dsn, sql.schema) as mine:
            empty = 0
            while empty < 3:
                claims = await fetch(mine, number % 4 + 1, worker=number, token=len(ran) + 1)
                empty = 0 if claims else empty + 1
                while claims:
                    # A fetch of another worker may hold a row for a moment: it is settled in the next try.
                    done = await complete(mine, claims, worker=number)
                    ran.extend(done)
                    claims = [claim for claim in claims if claim["id"] not in done]

    async with anyio.create_task_group() as group:
        for number in range(1, 9):
            group.start_soon(work, number)
    while claims := await fetch(sql):
        ran.extend(await complete(sql, claims))

    assert 600 == len(ran) == len(set(ran))
    assert [] == await locked_queues(sql)
