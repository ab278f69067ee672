"""`complete_claim`: a job is completed by the transaction that did its work, or nothing of it is."""

from typing import Any

import anyio
import pytest

from tests.support.ear import Ear
from tests.support.jobs import WORKER, add, claimed, fetch, fetched, locked_queues
from tests.support.marked import ASK_AGAIN, CANCEL, ended, keep
from tests.support.session import Session, session

XID = "select pg_current_xact_id()::text"


async def complete(sql: Session, claim: Any, *, worker: int = WORKER, rest: str | None = None) -> str:
    """Complete a job in the session's transaction. Returns what became of it."""
    values = (worker, claim["id"], claim["lock_token"], await sql.value(XID), None, 1.5, rest, None)
    (row,) = await sql.run("complete_claim", *values)
    return row["ending"]


async def test_a_completed_job_is_deleted_and_its_queue_free(sql: Session) -> None:
    """A batch settlement does the same. Other jobs are not affected."""
    first, second = await add(sql, queue="q"), await add(sql, queue="r")
    claims = {claim["id"]: claim for claim in await fetch(sql)}

    assert "completed" == await complete(sql, claims[first])
    assert ([second], ["r"]) == (await claimed(sql), await locked_queues(sql))


async def test_it_is_kept_if_that_was_asked_for(sql: Session) -> None:
    """A unique policy with a window counts it."""
    job = await add(sql)
    await keep(sql, job)
    (claim,) = await fetch(sql)

    assert ("completed", [(job, "completed")]) == (await complete(sql, claim), await ended(sql))


@pytest.mark.parametrize("asked_again", [False, True])
async def test_a_rest_becomes_the_payload_and_the_claim_stays(sql: Session, *, asked_again: bool) -> None:
    """The other items are done with this transaction. The worker then settles the job, which decides about a rerun."""
    job = await add(sql, payload="[1, 2]", queue="q")
    (claim,) = await fetch(sql)
    if asked_again:
        await sql.rows(ASK_AGAIN, job)

    assert "in part" == await complete(sql, claim, rest="[2]")
    assert ([job], ["q"]) == (await claimed(sql), await locked_queues(sql))
    assert ["[2]"] == await sql.values("select payload::text from asyncq._jobs")


@pytest.mark.parametrize("fault", ["cancelled", "lost"])
async def test_a_rest_is_not_stored_without_the_claim(claiming: Session, fault: str) -> None:
    """Nothing of such a run is kept."""
    job = await add(claiming, payload="[1, 2]")
    (claim,) = await fetch(claiming)
    if fault == "cancelled":
        await claiming.rows(CANCEL, job)
    worker = WORKER if fault == "cancelled" else WORKER + 1
    async with claiming.connection.transaction():
        assert fault == await complete(claiming, claim, worker=worker, rest="[2]")

    assert ["[1, 2]"] == await claiming.values("select payload::text from asyncq._jobs")


async def test_a_job_that_was_rerun_runs_again(sql: Session) -> None:
    """The transaction's work is committed, and another run follows."""
    job = await add(sql, queue="q")
    (claim,) = await fetch(sql)
    await sql.rows(ASK_AGAIN, job)

    assert "rerun" == await complete(sql, claim)
    assert ([], [job]) == (await locked_queues(sql), await fetched(sql, token=2))


async def test_a_cancelled_job_is_not_completed(claiming: Session) -> None:
    """The cancellation was confirmed, so the work of the run has to be rolled back."""
    job = await add(claiming, queue="q")
    (claim,) = await fetch(claiming)
    await claiming.rows(CANCEL, job)
    async with claiming.connection.transaction():
        ending = await complete(claiming, claim)

    assert ("cancelled", [job], ["q"]) == (ending, await claimed(claiming), await locked_queues(claiming))


@pytest.mark.parametrize("in_savepoint", [False, True])
async def test_a_job_that_is_cancelled_by_the_transaction_itself_ends_so(sql: Session, *, in_savepoint: bool) -> None:
    """Other sessions do not see that mark. Rolled back with the rest, the job would run again for ever."""
    job = await add(sql, queue="q")
    await keep(sql, job)
    (claim,) = await fetch(sql)
    if in_savepoint:
        async with sql.connection.transaction():
            await sql.rows(CANCEL, job)
    else:
        await sql.rows(CANCEL, job)

    assert "cancelled here" == await complete(sql, claim)
    assert ([], [], [(job, "cancelled")]) == (await claimed(sql), await locked_queues(sql), await ended(sql))


@pytest.mark.parametrize("stranger", ["another worker", "an older fetch"])
async def test_a_claim_of_another_worker_is_not_completed(sql: Session, stranger: str) -> None:
    """Worker and token are compared as for the batch."""
    job = await add(sql)
    (claim,) = await fetch(sql)
    if stranger == "another worker":
        ending = await complete(sql, claim, worker=WORKER + 1)
    else:
        ending = await complete(sql, {**claim, "lock_token": 99})

    assert ("lost", [job]) == (ending, await claimed(sql))


async def test_another_transaction_than_the_one_that_holds_the_claim_is_refused(sql: Session) -> None:
    """A handler that ends the transaction would leave its job to one that holds nothing of its work."""
    await add(sql)
    (claim,) = await fetch(sql)
    number = int(await sql.value(XID))
    error = await sql.refusal(
        "select asyncq._complete_claim($1, $2, $3, $4)", WORKER, claim["id"], claim["lock_token"], str(number - 1)
    )

    assert ("25P01", [claim["id"]]) == (error.sqlstate, await claimed(sql))


async def test_workers_are_woken_for_the_next_of_its_queue_when_it_commits(claiming: Session, ear: Ear) -> None:
    """Its own worker may be busy, or dead by then."""
    await add(claiming, queue="q")
    (claim,) = await fetch(claiming)
    await ear.forget()
    async with claiming.connection.transaction():
        await complete(claiming, claim)

    assert 1 == len(await ear.received())


async def test_it_waits_for_the_lock_of_the_row_and_sees_the_change(dsn: str, claiming: Session) -> None:
    """A batch would skip it. Here the work is done, and another check is cheap."""
    job = await add(claiming)
    (claim,) = await fetch(claiming)
    endings: list[str] = []

    async def complete_too(handler: Session) -> None:
        async with handler.connection.transaction():
            endings.append(await complete(handler, claim))

    async with session(dsn, claiming.schema) as handler, session(dsn, claiming.schema) as watcher:
        transaction = claiming.connection.transaction()
        await transaction.start()
        await claiming.rows(CANCEL, job)
        async with anyio.create_task_group() as group:
            group.start_soon(complete_too, handler)
            pid = handler.connection.get_server_pid()
            while not await watcher.value("select pg_blocking_pids($1) <> '{}'", pid):
                await anyio.sleep(0.005)
            await transaction.commit()

    assert (["cancelled"], [job]) == (endings, await claimed(claiming))
