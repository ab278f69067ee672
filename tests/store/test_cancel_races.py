"""A cancellation waits for another change of its job, and applies to the later state.

The change holds the row until it commits or rolls back. At READ COMMITTED the result is that of one after the other. At
the other levels the cancellation may get 40001, and has done nothing.
"""

from collections.abc import Awaitable, Callable

import anyio
import asyncpg
import pytest

from asyncq.store.admin import administer
from asyncq.store.database import Database
from tests.support.acts import is_waiting
from tests.support.gate import Gate
from tests.support.jobs import add, change, claimed, complete, fetch, locked_queues, settle_rest
from tests.support.marked import ASK_AGAIN, ended, keep
from tests.support.session import Session
from tests.support.waiting import wait_until

Act = Callable[[Session, list[asyncpg.Record]], Awaitable[object]]

LEVELS = ("read_committed", "repeatable_read", "serializable")
FORMS = pytest.mark.parametrize("form", ["rows", "batched"])
CANCEL = "select id, locked_by from asyncq.cancel_jobs(array[$1::bigint])"
STATES = "select asyncq._state(job) from asyncq._all_jobs() as job"


async def _fetch(sql: Session, _claims: list[asyncpg.Record]) -> None:
    await fetch(sql, token=2)


async def _fetch_batch(sql: Session, _claims: list[asyncpg.Record]) -> None:
    await fetch(sql, form="batched")


async def _complete(sql: Session, claims: list[asyncpg.Record]) -> None:
    await complete(sql, claims)


async def _fail(sql: Session, claims: list[asyncpg.Record]) -> None:
    await change(sql, claims, attempts=1, delay_s=3600.0, error="e")


async def _discard(sql: Session, claims: list[asyncpg.Record]) -> None:
    await change(sql, claims, attempts=25, error="e")


async def _return(sql: Session, claims: list[asyncpg.Record]) -> None:
    await change(sql, claims)


async def _rescue(sql: Session, _claims: list[asyncpg.Record]) -> None:
    await sql.rows("select from asyncq._rescue_jobs(true)")


# The act -> the state of the job before it, after it, and after the cancel that waited for it.
ACTS: dict[str, tuple[Act, str, str | None, str | None]] = {
    "a fetch": (_fetch, "available", "active", "cancelled"),
    "a fetch of a batch": (_fetch_batch, "available", "active", "cancelled"),
    "a completion": (_complete, "active", None, None),
    "a failure": (_fail, "active", "retryable", None),
    "the last failure": (_discard, "active", "discarded", "discarded"),
    "a return": (_return, "active", "available", None),
    "a rescue": (_rescue, "active", "available", None),
}


@FORMS
@pytest.mark.parametrize("ends", ["commit", "rollback"])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("act", ACTS)
async def test_a_cancel_waits_for_the_change_of_the_job(
    sql: Session, other: Session, act: str, level: str, ends: str, form: str
) -> None:
    """A job that is being claimed is cancelled as a running one; one that is being settled by its new state."""
    do, before, after, last = ACTS[act]
    job = await add(sql, queue=None if form == "batched" or do is _fetch_batch else "q")
    claims = await fetch(sql, form=form) if before == "active" else []
    refusals: list[str | None] = []
    transaction = sql.connection.transaction()
    await transaction.start()
    await do(sql, claims)

    async def cancel() -> None:
        try:
            async with other.connection.transaction(isolation=level):
                await other.rows(CANCEL, job)
        except asyncpg.PostgresError as error:
            refusals.append(error.sqlstate)

    async with anyio.create_task_group() as group:
        group.start_soon(cancel)
        await wait_until(lambda: is_waiting(sql, other), description="the cancel to wait")
        await getattr(transaction, ends)()
    if ends == "rollback":
        expected, refused = ("cancelled" if before == "active" else None), []
    elif level == "read_committed":
        expected, refused = last, []
    else:
        expected, refused = after, ["40001"]

    assert ([expected] if expected else [], refused) == (await sql.values(STATES), refusals)


@FORMS
@pytest.mark.parametrize("level", LEVELS[1:])
@pytest.mark.parametrize("act", ACTS)
async def test_an_old_snapshot_cancels_nothing(sql: Session, other: Session, act: str, level: str, form: str) -> None:
    """It shows a job that waits where one runs, one that runs where none is: 40001, and nothing is changed."""
    do, before, after, _ = ACTS[act]
    job = await add(sql)
    claims = await fetch(sql, form=form) if before == "active" else []
    async with other.connection.transaction(isolation=level):
        await other.rows("select from asyncq._jobs")
        await do(sql, claims)
        refusal = await other.refusal(CANCEL, job)

    assert "40001" == refusal.sqlstate
    assert ([after] if after else []) == await sql.values(STATES)


@pytest.mark.parametrize("done", [True, False])
async def test_a_settlement_during_an_open_cancel_is_made_after_it(sql: Session, other: Session, done: bool) -> None:
    """It waits for nobody: it writes nothing, is repeated later, and the job ends as cancelled."""
    job = await add(sql, queue="q")
    await keep(sql, job)
    claims = await fetch(sql)
    async with other.connection.transaction():
        await other.rows(CANCEL, job)
        during = (await complete(sql, claims), await settle_rest(sql, claims, done=done, attempts=1))

    assert ([], {job: "held"}) == during
    assert {job: "cancelled"} == await settle_rest(sql, claims, done=done, attempts=1)
    assert ([(job, "cancelled")], []) == (await ended(sql), await locked_queues(sql))


@pytest.mark.parametrize("mark", [CANCEL, ASK_AGAIN], ids=["cancelled", "asked again"])
async def test_a_mark_that_is_set_while_a_good_end_is_written_counts(
    gate: Gate, guarded: Session, other: Session, mark: str
) -> None:
    """The settlement's snapshot lacks the mark, but the locked row has it."""
    job = await add(other)
    claims = await fetch(other)
    await complete(guarded, [{**claims[0], "lock_token": 99}])

    assert [] == await gate.during(complete(guarded, claims), other.rows(mark, job))
    assert [job] == await claimed(other)


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize(("mark", "ending"), [(CANCEL, "cancelled"), (ASK_AGAIN, "rerun")])
async def test_a_mark_that_is_set_during_the_settlement_counts(
    gate: Gate, guarded: Session, other: Session, mark: str, ending: str, done: bool
) -> None:
    """The marks are read after the row is locked, not from the statement's snapshot."""
    job = await add(other)
    claims = await fetch(other)
    await settle_rest(guarded, [{**claims[0], "lock_token": 99}], done=done)

    assert {job: ending} == await gate.during(settle_rest(guarded, claims, done=done), other.rows(mark, job))
    assert [] == await claimed(other)


@pytest.mark.parametrize("mark", [CANCEL, ASK_AGAIN], ids=["cancelled", "asked again"])
async def test_a_marked_claim_that_changes_hands_during_its_settlement_is_not_settled(
    gate: Gate, guarded: Session, other: Session, mark: str
) -> None:
    """The claim is compared in the node that locks, so that the first run cannot end the second one."""
    job = await add(other, queue="q")
    claims = await fetch(other)
    await other.rows(mark, job)
    await settle_rest(guarded, [{**claims[0], "lock_token": 99}])
    take_over = other.execute("update asyncq._jobs set lock_token = 2")

    assert {job: "lost"} == await gate.during(settle_rest(guarded, claims), take_over)
    assert ([job], ["q"]) == (await claimed(other), await locked_queues(other))


async def test_cancels_of_the_same_jobs_in_opposite_orders_do_not_deadlock(
    database: Database, sql: Session, other: Session
) -> None:
    """Rows are locked in the order of their ids, not of the arguments."""
    jobs = [await add(sql) for _ in range(200)]
    done: list[list[int]] = []

    async def cancel(who: Session, ids: list[int]) -> None:
        done.append([job.id for job in await administer(database, who.connection, "cancel", ids)])

    async with anyio.create_task_group() as group:
        group.start_soon(cancel, sql, jobs)
        group.start_soon(cancel, other, jobs[::-1])

    assert [[], jobs] == sorted(done)


async def test_the_store_cancels_on_the_connection_of_a_caller(
    database: Database, sql: Session, other: Session
) -> None:
    """If the caller rolls back, nothing is cancelled."""
    waiting, running, unknown = await add(other), await add(other), 0
    await other.rows("update asyncq._jobs set run_at = now() + interval '1 h' where id = $1", waiting)
    await fetch(other)
    transaction = sql.connection.transaction()
    await transaction.start()
    told = [job.id for job in await administer(database, sql.connection, "cancel", [running, unknown, waiting])]
    await transaction.rollback()
    between = await other.values(STATES + " order by id")

    assert ([waiting, running], ["scheduled", "active"]) == (told, between)
    assert [waiting, running] == [
        job.id for job in await administer(database, sql.connection, "cancel", [running, waiting])
    ]
    assert (["cancelled"], []) == (await sql.values(STATES), await administer(database, sql.connection, "cancel", []))
