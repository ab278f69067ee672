"""A job that waits for others beside ends, looks and other transactions: each race by its own forced interleaving."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import asyncpg
import pytest

from tests.store.test_batch_races import GUARD
from tests.support.gate import Gate
from tests.support.jobs import add, add_many, complete, fetch, settle_rest
from tests.support.session import Session, session
from tests.support.waiting import wait_until
from tests.support.waits import broken_laws, left, look, state, wait_for

FORMS = pytest.mark.parametrize("form", ["rows", "batched"])
OLD = pytest.mark.parametrize("level", ["repeatable_read", "serializable"])
COMPLETE = "select from asyncq.complete_jobs(array[$1::bigint])"
CANCEL = "select from asyncq.cancel_jobs(array[$1::bigint])"
# A deletion of one edge waits for a lock of the test.
SLOW_DELETE = """
create function asyncq.wait_for_test() returns trigger language plpgsql as
  $$ begin perform pg_advisory_xact_lock(7); return old; end $$;
create trigger waits before delete on asyncq._waits for each row when (old.job_id = $1)
  execute function asyncq.wait_for_test()
"""
INPUTS = "select count(*) from asyncq._inputs"
PAYLOAD = "select payload::text from asyncq._jobs where id = $1"
SHARE = "select from asyncq._waits where job_id = $1 for share"


@asynccontextmanager
async def old_snapshot(sql: Session, level: str) -> AsyncIterator[None]:
    """Open a transaction that has read the jobs before the block, and roll it back."""
    transaction = sql.connection.transaction(isolation=level)
    await transaction.start()
    await sql.rows("select from asyncq._jobs")
    yield
    await transaction.rollback()


@FORMS
@pytest.mark.parametrize("has_waiter", [False, True])
async def test_an_add_after_the_snapshot_of_a_settlement_keeps_the_job_from_it(
    gate: Gate, guarded: Session, other: Session, form: str, has_waiter: bool
) -> None:
    """The settlement does not see the edge. It locks the newest row, or finds that its batch has been split.

    Also if the job was awaited before, and so had its mark.
    """
    await add_many(other, 2)
    first, second = await fetch(other, form=form)
    if has_waiter:
        await wait_for(other, first["id"])
    await other.execute(GUARD)
    await complete(guarded, [{**first, "lock_token": 99}])
    waiters: list[int] = []

    async def add_it() -> None:
        waiters.append(await wait_for(other, first["id"]))

    written = await gate.during(complete(guarded, [first, second]), add_it())
    endings = await settle_rest(other, [first], done=True)

    assert (False, "written") == (first["id"] in written, endings[first["id"]])
    assert waiters[0] in [waiter for _, waiter, _ in await look(other)]


@FORMS
@pytest.mark.parametrize("kept", [False, True])
async def test_an_add_waits_for_a_settlement_and_then_sees_how_the_job_ended(
    dsn: str, sql: Session, other: Session, form: str, kept: bool
) -> None:
    """A job that was kept has completed; of another one nothing is known any more."""
    await add_many(sql, 2)
    if kept:
        await sql.rows("update asyncq._tasks set keep_s = 3600")
    claims = await fetch(sql, form=form)
    answers: list[object] = []

    async def add_it() -> None:
        try:
            answers.append(await wait_for(other, claims[0]["id"]))
        except asyncpg.PostgresError as error:
            answers.append(error.sqlstate)

    async with (
        session(dsn, sql.schema) as watcher,
        anyio.create_task_group() as group,
        sql.connection.transaction(),
    ):
        await complete(sql, claims, kept=kept)
        group.start_soon(add_it)
        pid = other.connection.get_server_pid()
        await wait_until(
            lambda: watcher.value("select pg_blocking_pids($1) <> '{}'", pid), description="the add to wait"
        )
    outcomes = await look(sql)

    assert ([("released", answers[0], None)] if kept else []) == outcomes
    assert kept or answers == ["GWBAF"]


async def test_a_settlement_skips_a_job_while_an_add_names_it(sql: Session, other: Session) -> None:
    """It waits for nobody. The next try finds the mark, and leaves the job to settle_rest."""
    job = await add(sql)
    claims = await fetch(sql)
    async with other.connection.transaction():
        waiter = await wait_for(other, job)
        during = await complete(sql, claims), await settle_rest(sql, claims, done=True)

    assert ([], {job: "held"}) == during
    assert [] == await complete(sql, claims)
    assert "written" == (await settle_rest(sql, claims, done=True))[job]
    assert [("released", waiter, None)] == await look(sql)


async def test_an_add_does_not_wait_for_the_transaction_of_a_run(sql: Session, other: Session) -> None:
    """It may last for hours. Its end sees the edge."""
    job = await add(sql)
    (claim,) = await fetch(sql)
    async with sql.connection.transaction():
        (locked,) = await sql.run("lock_claim", 1, job, claim["lock_token"])
        with anyio.fail_after(5.0):
            waiter = await wait_for(other, job)
        await sql.run("complete_claim", 1, job, claim["lock_token"], locked["xid"], None, 1.0, None, None)

    assert [("released", waiter, None)] == await look(sql)


@OLD
async def test_an_add_with_an_old_snapshot_is_refused_if_the_other_job_has_changed(
    sql: Session, other: Session, level: str
) -> None:
    """It would not see how it has ended."""
    job = await add(sql)
    async with old_snapshot(other, level):
        await sql.rows(COMPLETE, job)
        with pytest.raises(asyncpg.SerializationError):
            await wait_for(other, job)


@OLD
async def test_an_end_with_an_old_snapshot_that_does_not_show_the_edge_is_refused(
    sql: Session, other: Session, level: str
) -> None:
    """The add has written the row, also if the job had its mark before: else its waiter would wait for ever."""
    job = await add(sql)
    await wait_for(sql, job)
    async with old_snapshot(other, level):
        await wait_for(sql, job)
        with pytest.raises(asyncpg.SerializationError):
            await other.rows(COMPLETE, job)


@OLD
@pytest.mark.parametrize("first_commits", [True, False])
async def test_ends_with_old_snapshots_beside_each_other_release_or_are_refused(
    sql: Session, other: Session, level: str, first_commits: bool
) -> None:
    """SERIALIZABLE may refuse one of them: then its job has not ended, and the next try ends it."""
    jobs = [await add(sql), await add(sql)]
    waiter = await wait_for(sql, *jobs)
    one, two = sql.connection.transaction(isolation=level), other.connection.transaction(isolation=level)
    await one.start()
    await two.start()
    refused = 0
    await sql.rows(COMPLETE, jobs[0])
    await other.rows(COMPLETE, jobs[1])
    for transaction in (one, two) if first_commits else (two, one):
        try:
            await transaction.commit()
        except asyncpg.SerializationError:
            refused += 1
        await look(sql) if not sql.connection.is_in_transaction() else await look(other)
    for job in jobs:
        await sql.rows(COMPLETE, job)
    await look(sql)

    assert refused <= (level == "serializable")
    assert ("available", (0, 0)) == (await state(sql, waiter), await left(sql))


@pytest.mark.parametrize("rolls_back", [True, False])
@pytest.mark.parametrize("act", [COMPLETE, CANCEL])
async def test_an_end_beside_the_end_of_the_waiter_which_may_roll_back(
    sql: Session, other: Session, rolls_back: bool, act: str
) -> None:
    """The edge is locked by the end of the waiter: the end of the job leaves a closing, or nobody would look again."""
    job = await add(sql)
    waiter = await wait_for(sql, job, if_failed="run")
    transaction = other.connection.transaction()
    await transaction.start()
    await other.rows(CANCEL, waiter)
    with anyio.fail_after(5.0):
        await sql.rows(act, job)
    during = await look(sql)
    await (transaction.rollback() if rolls_back else transaction.commit())
    outcomes = await look(sql)

    assert [("held", waiter, None)] == during
    assert ([("released", waiter, None)] if rolls_back else []) == outcomes
    assert ((0, 0), []) == (await left(sql), await broken_laws(sql))


async def test_an_end_beside_a_cancel_of_another_job_that_rolls_back(sql: Session, other: Session) -> None:
    """The cancel has touched its edge. The end leaves a closing, and the look finds that the edge stays."""
    jobs = [await add(sql), await add(sql)]
    waiter = await wait_for(sql, *jobs)
    transaction = other.connection.transaction()
    await transaction.start()
    await other.rows(CANCEL, jobs[0])
    await sql.rows(COMPLETE, jobs[1])
    during = await look(sql)
    await transaction.rollback()
    after = await look(sql)
    closings = await left(sql)
    await sql.rows(COMPLETE, jobs[0])

    assert ([("held", waiter, None)], [], (1, 0)) == (during, after, closings)
    assert [("released", waiter, None)] == await look(sql)


@pytest.mark.parametrize("sharing", [1, 2])
async def test_an_edge_that_others_share_is_cut_by_the_look(
    dsn: str, sql: Session, other: Session, sharing: int
) -> None:
    """Two lockers make a multixact of its xmax, which is the number of no transaction."""
    jobs = [await add(sql), await add(sql)]
    waiter = await wait_for(sql, *jobs)
    async with session(dsn, sql.schema) as third:
        lockers = [other, third][:sharing]
        for locker in lockers:
            await locker.execute("begin")
            await locker.rows(SHARE, jobs[1])
        await sql.rows(COMPLETE, jobs[1])
        await sql.rows(COMPLETE, jobs[0])
        during = await look(sql)
        for locker in lockers:
            await locker.execute("commit")
    after = await look(sql)

    assert ([("held", waiter, None)], [("released", waiter, None)]) == (during, after)
    assert (0, 0) == await left(sql)


async def test_an_ended_job_whose_edge_others_share_is_not_forgotten(sql: Session, other: Session) -> None:
    """Its closing stays, although the waiter has another edge that is untouched: no later end would name this one."""
    jobs = [await add(sql), await add(sql)]
    waiter = await wait_for(sql, *jobs)
    await other.execute("begin")
    await other.rows(SHARE, jobs[0])
    await sql.rows(COMPLETE, jobs[0])
    during = await look(sql)
    await other.execute("commit")
    await sql.rows(COMPLETE, jobs[1])

    assert ([("held", waiter, None)], [("released", waiter, None)]) == (during, await look(sql))
    assert ((0, 0), []) == (await left(sql), await broken_laws(sql))


async def test_an_edge_that_was_shared_once_does_not_keep_a_closing(dsn: str, sql: Session, other: Session) -> None:
    """Its xmax stays, and nobody is about to cut it."""
    jobs = [await add(sql), await add(sql)]
    waiter = await wait_for(sql, *jobs)
    async with session(dsn, sql.schema) as third:
        for locker in (other, third):
            await locker.execute("begin")
            await locker.rows(SHARE, jobs[0])
        for locker in (other, third):
            await locker.execute("commit")
    await sql.rows(COMPLETE, jobs[1])
    before = await left(sql)
    outcomes = await look(sql)

    assert ((1, 1), [], (1, 0)) == (before, outcomes, await left(sql))
    await sql.rows(COMPLETE, jobs[0])
    assert [("released", waiter, None)] == await look(sql)


async def test_an_end_beside_a_look_that_has_locked_its_edge(sql: Session, other: Session) -> None:
    """All edges were touched, so the look tries the lock. The end skips the edge, and leaves a closing."""
    jobs = [await add(sql), await add(sql)]
    waiter = await wait_for(sql, *jobs)
    await other.execute("begin")
    await other.rows(CANCEL, jobs[0])
    await sql.rows(COMPLETE, jobs[1])
    await other.execute("rollback")
    async with other.connection.transaction():
        during = await look(other)
        with anyio.fail_after(5.0):
            await sql.rows(COMPLETE, jobs[0])
        held = await look(sql)
    after = await look(sql)

    assert ([], [("held", waiter, None)]) == (during, held)
    assert ([("released", waiter, None)], (0, 0)) == (after, await left(sql))


async def test_a_look_reads_a_cancelled_job_together_with_its_edge(sql: Session, other: Session, dsn: str) -> None:
    """The other job is cancelled after the look has read the closings, and before it reads the edges."""
    jobs = [await add(sql), await add(sql)]
    waiter = await wait_for(sql, *jobs)
    await other.execute("begin")
    await other.rows(SHARE, jobs[0])
    await sql.rows(COMPLETE, jobs[0])
    await other.execute("commit")
    await sql.execute(SLOW_DELETE.replace("$1", str(jobs[0])))
    await other.execute("select pg_advisory_lock(7)")
    outcomes: list[object] = []

    async def look_once() -> None:
        outcomes.extend(await look(sql))

    async with session(dsn, sql.schema) as third, anyio.create_task_group() as group:
        group.start_soon(look_once)
        pid = sql.connection.get_server_pid()
        await wait_until(
            lambda: other.value("select pg_blocking_pids($1) <> '{}'", pid), description="the look to wait"
        )
        await third.rows(CANCEL, jobs[1])
        await other.execute("select pg_advisory_unlock(7)")

    assert ([("cancelled", waiter, None)], None) == (outcomes, await state(sql, waiter))
    assert ((0, 0), []) == (await left(sql), await broken_laws(sql))


async def test_two_looks_release_a_job_once(sql: Session, other: Session) -> None:
    """The second one finds the row locked, and then released."""
    job = await add(sql)
    waiter = await wait_for(sql, job)
    await sql.rows(COMPLETE, job)
    async with other.connection.transaction():
        first = await look(other)
        second = await look(sql)

    assert ([("released", waiter, None)], [("held", waiter, None)]) == (first, second)
    assert ([], (0, 0)) == (await look(sql), await left(sql))


async def test_a_look_that_was_undone_is_made_again(sql: Session) -> None:
    """As after a crash of the server."""
    job = await add(sql)
    waiter = await wait_for(sql, job)
    await sql.rows(COMPLETE, job)
    transaction = sql.connection.transaction()
    await transaction.start()
    await look(sql)
    await transaction.rollback()

    assert [("released", waiter, None)] == await look(sql)


async def test_adds_that_name_and_replace_each_others_jobs_do_not_deadlock(sql: Session, other: Session) -> None:
    """The jobs that hold the keys and those that are named are locked in one order."""
    jobs = [await add(sql), await add(sql)]
    for number, job in enumerate(jobs):
        await sql.rows(
            "update asyncq._jobs set unique_key = sha256($2::bytea) where id = $1", job, str(number).encode()
        )
    keys = await sql.values("select encode(unique_key, 'hex') from asyncq._jobs order by id")
    text = (
        "select from asyncq._lock_key_holders(array[asyncq._new_job("
        "'w', null, null, null, pg_catalog.jsonb_build_object("
        "'unique_key', '\\x' || $1, 'on_conflict', 'ignore', 'after', array[$2::bigint]))], true)"
    )
    first, second = sql.connection.transaction(), other.connection.transaction()
    await first.start()
    await sql.rows(text, keys[1], jobs[0])
    await second.start()
    async with anyio.create_task_group() as group:
        group.start_soon(other.rows, text, keys[0], jobs[1])
        await wait_until(
            lambda: sql.value("select pg_blocking_pids($1) <> '{}'", other.connection.get_server_pid()),
            description="the second add to wait",
        )
        held = await sql.values("select id from asyncq._jobs where id = any($1) for no key update skip locked", jobs)
        await first.rollback()
    await second.rollback()

    assert jobs == held


@FORMS
async def test_a_result_reaches_a_waiter_that_was_added_while_the_job_ran(sql: Session, form: str) -> None:
    """Its worker did not know of the waiter when it claimed the job."""
    await add_many(sql, 2)
    first, _ = await fetch(sql, form=form)
    waiter = await wait_for(sql, first["id"], takes="result")

    assert [] == await complete(sql, [first])
    assert {first["id"]: "written", None: "closings"} == await settle_rest(sql, [first], done=True, result="7")
    assert [("released", waiter, None)] == await look(sql)
    assert "7" == await sql.value(PAYLOAD, waiter)


@pytest.mark.parametrize("rolls_back", [True, False])
async def test_a_result_beside_the_end_of_the_waiter_which_may_roll_back(
    sql: Session, other: Session, rolls_back: bool
) -> None:
    """The edge is locked by the end of the waiter, and the result is written all the same."""
    job = await add(sql)
    claims = await fetch(sql)
    waiter = await wait_for(sql, job, takes="result")
    transaction = other.connection.transaction()
    await transaction.start()
    await other.rows(CANCEL, waiter)
    with anyio.fail_after(5.0):
        await settle_rest(sql, claims, done=True, result="7")
    assert [("held", waiter, None)] == await look(sql)
    await (transaction.rollback() if rolls_back else transaction.commit())
    outcomes = await look(sql)

    assert ([("released", waiter, None)] if rolls_back else []) == outcomes
    assert (["7"] if rolls_back else []) == await sql.values(PAYLOAD, waiter)
    assert ((0, 0), 0) == (await left(sql), await sql.value(INPUTS))


async def test_a_result_that_is_written_beside_the_end_of_its_waiter_is_pruned(sql: Session, other: Session) -> None:
    """The end of the waiter does not see it, and no look follows: another edge was untouched."""
    jobs = [await add(sql), await add(sql)]
    claims = {claim["id"]: claim for claim in await fetch(sql)}
    waiter = await wait_for(sql, *jobs, takes="results")
    async with other.connection.transaction():
        await settle_rest(other, [claims[jobs[0]]], done=True, result="7")
        with anyio.fail_after(5.0):
            await sql.rows(CANCEL, waiter)
    assert [] == await look(sql)
    before = await sql.value(INPUTS)
    await sql.run("prune", 1.0, 1.0, 10)

    assert (1, 0) == (before, await sql.value(INPUTS))


async def test_a_result_whose_end_rolls_back_is_not_passed_on(sql: Session, other: Session) -> None:
    """The job runs again, and has another one."""
    job = await add(sql)
    claims = await fetch(sql)
    waiter = await wait_for(sql, job, takes="result")
    transaction = other.connection.transaction()
    await transaction.start()
    await settle_rest(other, claims, done=True, result="7")
    assert [] == await look(sql)
    await transaction.rollback()
    await settle_rest(sql, claims, done=True, result="8")

    assert [("released", waiter, None)] == await look(sql)
    assert "8" == await sql.value(PAYLOAD, waiter)


@OLD
async def test_the_release_of_a_waiter_beside_another_look_takes_its_results_once(
    sql: Session, other: Session, level: str
) -> None:
    """The look of an old snapshot finds the row changed, or nothing to do."""
    job = await add(sql)
    waiter = await wait_for(sql, job, takes="result")
    await settle_rest(sql, await fetch(sql), done=True, result="7")
    async with old_snapshot(other, level):
        assert [("released", waiter, None)] == await look(sql)
        try:
            assert "released" not in [outcome for outcome, _, _ in await look(other)]
        except asyncpg.SerializationError:
            assert "7" == await sql.value(PAYLOAD, waiter)

    assert ("7", 0) == (await sql.value(PAYLOAD, waiter), await sql.value(INPUTS))
