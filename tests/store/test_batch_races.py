"""A batch while other statements need its jobs: each race by its own forced interleaving.

test_cancel_races.py has the races of cancellations, test_fetch_races.py those of fetches.
"""

import anyio
import pytest

from tests.store.test_cancel_races import CANCEL
from tests.store.test_rescue_races import RESCUE, RESCUE_ALL, register
from tests.support.acts import is_waiting
from tests.support.gate import Gate
from tests.support.jobs import add, add_many, change, claimed, complete, fetch, fetched, locked_queues, still_held
from tests.support.session import Session, session
from tests.support.waiting import wait_until

LEVELS = ("read_committed", "repeatable_read", "serializable")
SPLIT = "select from asyncq._split_batches(array(select ctid from asyncq._batches))"
GUARD = """
alter table asyncq._batches enable row level security;
create policy gate on asyncq._batches using (asyncq.passes());
"""
BATCHES = "select count(*) from asyncq._batches"


async def test_a_settlement_skips_a_batch_that_is_being_split(sql: Session, other: Session) -> None:
    """It waits for nobody, reports that the claims still exist, and settles the rows the next time."""
    await add_many(sql, 3)
    claims = await fetch(sql, form="batched")
    ids = [claim["id"] for claim in claims]
    await sql.execute("set lock_timeout = '100ms'")
    async with other.connection.transaction():
        await other.rows(SPLIT)
        during = (await complete(sql, claims), await change(sql, claims), await still_held(sql, claims))

    assert ([], [], ids) == during
    assert ids == await complete(sql, claims)
    assert ([], [], 0) == (await still_held(sql, claims), await claimed(sql), await sql.value(BATCHES))


async def test_a_split_waits_for_the_settlement_of_its_batch_and_gets_the_rest(sql: Session, other: Session) -> None:
    """Jobs that have just ended must not become rows."""
    await add_many(sql, 3)
    claims = await fetch(sql, form="batched")
    answers: list[list[int]] = []

    async def cancel() -> None:
        answers.append(await other.values(CANCEL, claims[0]["id"]))

    async with anyio.create_task_group() as group, sql.connection.transaction():
        await complete(sql, claims[:2])
        group.start_soon(cancel)
        await wait_until(lambda: is_waiting(sql, other), description="the cancel to wait")

    assert ([[]], [claims[2]["id"]]) == (answers, await claimed(sql))
    assert [claims[2]["id"]] == await complete(sql, claims)


async def test_a_settlement_whose_batch_is_split_after_its_snapshot_writes_nothing_twice(
    gate: Gate, guarded: Session, other: Session
) -> None:
    """Its snapshot shows the batch and no rows. When it locks, there are rows and no batch; the next try finds them."""
    await add_many(other, 3)
    await add(other)
    claims = await fetch(other, 3, form="batched")
    late = await fetch(other, 1)
    await other.execute(GUARD)
    await complete(guarded, [{**claims[0], "lock_token": 99}])
    mixed = [*claims, *late]

    written = await gate.during(complete(guarded, mixed), other.rows(SPLIT))
    rest = [claim for claim in mixed if claim["id"] not in written]

    assert sorted(claim["id"] for claim in rest) == await still_held(other, mixed)
    assert sorted(claim["id"] for claim in rest) == await complete(other, rest)
    assert 0 == await other.value("select count(*) from asyncq._jobs")


@pytest.mark.parametrize("others", [1, 3], ids=["some are left", "none is left"])
async def test_a_settlement_whose_batch_was_settled_after_its_snapshot_reports_that_it_wrote_nothing(
    gate: Gate, guarded: Session, other: Session, others: int
) -> None:
    """An earlier settlement, given up by its worker, was committed late and moved the row of the batch."""
    await add_many(other, 4)
    claims = await fetch(other, form="batched")
    await other.execute(GUARD)
    await complete(guarded, [{**claims[0], "lock_token": 99}])

    written = await gate.during(complete(guarded, claims[others:]), complete(other, claims[:others]))
    left = [claim["id"] for claim in claims[others:]]

    assert ([], left) == (written, await still_held(other, claims))
    assert left == await complete(other, claims)
    assert 0 == await other.value(BATCHES)


@pytest.mark.parametrize("has_slot", [True, False], ids=["slot", "no slot"])
async def test_a_rescue_skips_a_locked_batch(sql: Session, other: Session, has_slot: bool) -> None:
    """Its worker's row stays, so that the next rescue finds it, whether an earlier one took its slot's or not."""
    dead = await register(sql, silent_s=31.0)
    if not has_slot:
        await sql.execute("delete from asyncq._handoff_slots")
    await add_many(sql, 2)
    claims = await fetch(sql, worker=dead, form="batched")
    async with other.connection.transaction():
        await other.rows("select from asyncq._batches for update")
        during = await sql.values(RESCUE)
        workers = await sql.values("select id from asyncq._workers")

    assert ([], [dead]) == (during, workers)
    assert [claim["id"] for claim in claims] == sorted(await sql.values(RESCUE))
    assert ([], []) == (await claimed(sql), await sql.values("select id from asyncq._workers"))


async def test_a_batch_of_a_worker_that_has_no_row_is_found_by_a_thorough_rescue(sql: Session) -> None:
    """A fetch that ran late may commit after its worker was removed."""
    await add_many(sql, 2)
    claims = await fetch(sql, worker=77, form="batched")

    assert [] == await sql.values(RESCUE)
    assert [claim["id"] for claim in claims] == sorted(await sql.values(RESCUE_ALL))
    assert [0, 0] == await sql.values("select attempts from asyncq._jobs")


async def test_the_queues_of_batches_stay_locked_while_their_worker_lives(sql: Session) -> None:
    """A thorough rescue frees queues without a running job, and jobs of batches have no row."""
    worker = await register(sql)
    await add(sql, queue="q")
    await add(sql, queue="r")
    claims = await fetch(sql, worker=worker, form="batched")

    assert ([], ["q", "r"]) == (await sql.values(RESCUE_ALL), await locked_queues(sql))
    await complete(sql, claims[:1], worker)
    assert ([], ["r"]) == (await sql.values(RESCUE_ALL), await locked_queues(sql))
    assert [] == await sql.rows("select law from asyncq.violations()")


async def test_the_queues_of_a_locked_batch_stay_locked_after_its_worker_has_died(sql: Session, other: Session) -> None:
    """Its jobs may be settled at this moment. The next rescue finds both."""
    dead = await register(sql, silent_s=31.0)
    await add(sql, queue="q")
    await fetch(sql, worker=dead, form="batched")
    async with other.connection.transaction():
        await other.rows("select from asyncq._batches for update")
        during = (await sql.values(RESCUE_ALL), await locked_queues(sql))

    assert ([], ["q"]) == during
    assert ([1], []) == (await sql.values(RESCUE), await locked_queues(sql))


async def test_force_unlock_returns_batches_and_waits_for_one_that_is_settled(sql: Session, other: Session) -> None:
    """Jobs that end at this moment stay ended; the others can be fetched again."""
    worker = await register(sql)
    await add_many(sql, 3)
    claims = await fetch(sql, worker=worker, form="batched")
    answers: list[list[int]] = []

    async def unlock() -> None:
        answers.append(await other.values("select id from asyncq.force_unlock_workers($1)", [str(worker)]))

    async with anyio.create_task_group() as group, sql.connection.transaction():
        await complete(sql, claims[:1], worker)
        group.start_soon(unlock)
        await wait_until(lambda: is_waiting(sql, other), description="the other to wait")

    assert [[claim["id"] for claim in claims[1:]]] == answers
    assert ([], [1, 1]) == (await claimed(sql), await sql.values("select attempts from asyncq._jobs"))


async def test_a_cancel_and_a_force_unlock_of_the_same_claims_do_not_deadlock(
    dsn: str, sql: Session, other: Session
) -> None:
    """Both lock batches first, then rows. A cancel that locked a row before a batch could deadlock."""
    worker = await register(sql)
    await add_many(sql, 4)
    claims = await fetch(sql, 3, worker=worker, form="batched")
    await fetch(sql, 1, worker=worker)
    cancelled: list[list[int]] = []
    unlocked: list[list[int]] = []
    async with session(dsn, sql.schema) as third:

        async def unlock() -> None:
            unlocked.append(await other.values("select id from asyncq.force_unlock_workers($1)", [str(worker)]))

        async def cancel() -> None:
            cancelled.append(await third.values("select id from asyncq.cancel_jobs($1)", [claims[2]["id"], 4]))

        async with anyio.create_task_group() as group, sql.connection.transaction():
            await complete(sql, claims[:1], worker)
            group.start_soon(unlock)
            await wait_until(lambda: is_waiting(sql, other), description="one to wait")
            group.start_soon(cancel)
            await wait_until(lambda: is_waiting(sql, third), description="the other to wait behind it")

    assert ([[2, 3, 4]], [[3, 4]]) == (unlocked, cancelled)
    assert [2] == await sql.values("select id from asyncq._jobs")


@pytest.mark.parametrize(
    "act", ["complete_jobs($1)", "permanently_fail_jobs($1)", "reschedule_jobs($1, now())", "retry_jobs($1)"]
)
async def test_a_call_leaves_alone_jobs_that_ran_in_a_batch_when_it_began(
    dsn: str, sql: Session, other: Session, act: str
) -> None:
    """Its batch is split while the call waits for another job, so the call has not locked that new row."""
    await add(sql, queue="q")
    await sql.rows("select id from asyncq.add_job('t')")
    await sql.execute("update asyncq._jobs set attempts = 1 where id = 2")
    claims = await fetch(sql, 1, form="batched")
    touched: list[list[int]] = []

    async def call() -> None:
        touched.append(await other.values(f"select id from asyncq.{act}", [1, 2]))

    async with session(dsn, sql.schema) as third, anyio.create_task_group() as group:
        holding = third.connection.transaction()
        await holding.start()
        await third.rows("select from asyncq._jobs where id = 2 for update")
        group.start_soon(call)
        await wait_until(lambda: is_waiting(sql, other), description="the call to wait for the second job")
        await change(sql, claims, attempts=1)
        async with sql.connection.transaction():
            again = await fetched(sql, 1, token=2)
            await holding.rollback()
            await wait_until(lambda: bool(touched), description="the call, which waits for nobody else")

    assert ([1], [1], [[2]]) == ([claim["id"] for claim in claims], again, touched)
    assert ([1], ["q"]) == (await claimed(sql), await locked_queues(sql))


@pytest.mark.parametrize("level", LEVELS[1:])
@pytest.mark.parametrize("act", ["retry_jobs", "complete_jobs", "reschedule_jobs", "permanently_fail_jobs"])
async def test_an_old_snapshot_of_a_batch_judges_nothing(sql: Session, other: Session, act: str, level: str) -> None:
    """It shows a job that runs, and so is left alone, where one has failed: 40001, as for a claim in a row."""
    await add_many(sql, 2)
    claims = await fetch(sql, form="batched")
    async with other.connection.transaction(isolation=level):
        await other.rows("select from asyncq.jobs")
        await change(sql, claims, attempts=25, error="e")
        refusal = await other.refusal(f"select from asyncq.{act}($1)", [claims[0]["id"]])

    assert "40001" == refusal.sqlstate


async def test_a_job_of_a_batch_that_blocks_its_worker_has_the_reason_in_its_row(sql: Session) -> None:
    """The row keeps the reason after the worker's death."""
    await add_many(sql, 2)
    claims = await fetch(sql, form="batched")
    (noted,) = await sql.run("note_block", 1, claims[0]["id"], claims[0]["lock_token"], "LoopBlocked: ...")

    assert claims[0]["id"] == noted["id"]
    assert ["LoopBlocked: ...", None] == await sql.values("select last_error from asyncq._jobs order by id")


async def test_two_rescues_at_once_return_a_batch_once(
    gate: Gate, guarded: Session, sql: Session, other: Session
) -> None:
    """The second one has read the batch, but it is gone when it locks."""
    await add_many(sql, 2)
    await add(sql)
    await fetch(sql, 2, worker=77, form="batched")
    await fetch(sql, 1, worker=77)
    await guarded.rows("select from asyncq._rescue_jobs(true) where false")

    first = await gate.during(guarded.values(RESCUE_ALL), other.rows(RESCUE_ALL))

    assert ([], [0, 0, 0]) == (first, await sql.values("select attempts from asyncq._jobs"))


async def test_a_worker_that_lost_its_batch_settles_nothing_of_it(sql: Session) -> None:
    """The worker was declared dead. Its jobs run elsewhere, claimed in rows or in a batch."""
    await add_many(sql, 4)
    lost = await fetch(sql, worker=77, form="batched")
    await sql.rows(RESCUE_ALL)
    await sql.execute(
        "update asyncq._jobs set attempts = 0, last_error = null, updated_at = created_at where id % 2 = 0"
    )
    await fetch(sql, worker=2, form="batched")

    assert ([], [], []) == (
        await complete(sql, lost, 77),
        await change(sql, lost, worker=77),
        await still_held(sql, lost, 77),
    )
    assert [claim["id"] for claim in lost] == await claimed(sql)


async def test_the_batch_of_a_fetch_whose_answer_was_lost_is_returned(sql: Session) -> None:
    """It is found by its token; the worker's other batches stay."""
    await add_many(sql, 4)
    mine, lost = await fetch(sql, 2, form="batched"), await fetch(sql, 2, form="batched")
    returned = await sql.run("return_lost", 1, [lost[0]["lock_token"]])

    assert [claim["id"] for claim in lost] == sorted(row["id"] for row in returned)
    assert [claim["id"] for claim in mine] == await claimed(sql)
    assert [claim["id"] for claim in lost] == await fetched(sql, form="batched")


async def test_a_settlement_that_is_sent_twice_ends_no_other_job(sql: Session) -> None:
    """Its answer was lost. Each bit is cleared once, and the batch is deleted with the last one."""
    await add_many(sql, 5)
    claims = await fetch(sql, form="batched")
    ids = [claim["id"] for claim in claims]
    first = await complete(sql, claims[:3])

    assert (ids[:3], []) == (first, await complete(sql, claims[:3]))
    assert ids[3:4] == await complete(sql, claims[2:4])
    assert ids[4:] == await claimed(sql) == await complete(sql, claims)
    assert 0 == await sql.value(BATCHES)


@pytest.mark.parametrize("stranger", ["another worker", "another fetch", "a job of another batch"])
async def test_a_batched_claim_of_another_worker_is_not_closed(sql: Session, stranger: str) -> None:
    """Worker and token are compared as for rows."""
    await add_many(sql, 4)
    claims, others = await fetch(sql, 2, worker=7, form="batched"), await fetch(sql, 2, worker=7, form="batched")
    if stranger == "another worker":
        done = await complete(sql, claims, 8)
    elif stranger == "another fetch":
        done = await complete(sql, [{**claims[0], "lock_token": 41}], 7)
    else:
        done = await complete(sql, [{**claims[0], "lock_token": others[0]["lock_token"]}], 7)

    assert [] == done
    assert 4 == len(await claimed(sql))


@pytest.mark.parametrize("level", LEVELS)
async def test_one_snapshot_shows_each_job_once(sql: Session, other: Session, level: str) -> None:
    """The job moves from its row to a batch, back, and to its end."""
    await add_many(sql, 3)
    acts = [lambda: fetch(sql, form="batched"), lambda: sql.rows(SPLIT), lambda: sql.rows("delete from asyncq._jobs")]
    ids = await sql.value("select array_agg(id order by id) from asyncq._jobs")
    shown = "select array_agg(id order by id) from asyncq.jobs"
    seen: list[list[int] | None] = []
    for act in acts:
        async with other.connection.transaction(isolation=level):
            seen.append(await other.value(shown))
            await act()
            seen.append(await other.value(shown))

    assert [ids] * 5 + [None if level == "read_committed" else ids] == seen
