"""`lock_claim`: the first statement of a transaction that settles its job; others cannot end the claim."""

from typing import Any

import asyncpg
import pytest

from tests.support.jobs import WORKER, add, change, claimed, complete, fetch
from tests.support.marked import CANCEL
from tests.support.session import Session, session


async def hold(sql: Session, claim: Any, *, worker: int = WORKER) -> asyncpg.Record:
    """Hold a claim in the session's transaction."""
    (row,) = await sql.run("lock_claim", worker, claim["id"], claim["lock_token"])
    return row


async def test_it_returns_the_number_of_the_transaction_and_its_process(sql: Session) -> None:
    """Later calls use them to ask for the outcome, or to end the transaction."""
    await add(sql)
    (claim,) = await fetch(sql)
    row = await hold(sql, claim)
    known = await sql.row(
        "select pg_current_xact_id_if_assigned()::text as xid, pg_backend_pid() as pid, 'locked' as state"
    )

    assert tuple(known) == tuple(row)


@pytest.mark.parametrize("stranger", ["another worker", "an older fetch", "a cancelled job", "a job that is gone"])
async def test_a_lost_claim_is_not_locked(sql: Session, stranger: str) -> None:
    """Its handler must not be called."""
    job = await add(sql)
    (claim,) = await fetch(sql)
    worker = WORKER
    if stranger == "another worker":
        worker += 1
    elif stranger == "an older fetch":
        claim = {**claim, "lock_token": 99}
    elif stranger == "a cancelled job":
        await sql.rows(CANCEL, job)
    else:
        await complete(sql, [claim])

    assert ("cancelled" if stranger == "a cancelled job" else "gone") == (await hold(sql, claim, worker=worker))[
        "state"
    ]


async def test_a_claim_in_a_batch_is_reported_and_not_locked(sql: Session) -> None:
    """A lock of the batch would hold the claims of other jobs too. Ended claims are in no batch."""
    await add(sql)
    await add(sql)
    first, second = await fetch(sql, form="batched")
    await complete(sql, [first])

    assert ["gone", "batched"] == [(await hold(sql, claim))["state"] for claim in (first, second)]
    assert [] == await sql.values("select id from asyncq._jobs")


async def test_statements_that_end_claims_skip_a_locked_claim(dsn: str, claiming: Session) -> None:
    """Settlements, returns and rescues skip it, since a live transaction uses it."""
    held, free = await add(claiming), await add(claiming)
    claims = await fetch(claiming)
    async with session(dsn, claiming.schema) as handler, handler.connection.transaction():
        await hold(handler, next(claim for claim in claims if claim["id"] == held))

        assert [] == await complete(claiming, [claim for claim in claims if claim["id"] == held])
        assert [] == await change(claiming, [claim for claim in claims if claim["id"] == held])
        assert [[free]] == [[*row] for row in await claiming.run("return_lost", WORKER, [1])]
        assert [] == await claiming.values("select job_id from asyncq._rescue_jobs(true)")
        assert [held] == await claimed(claiming)
    assert [held] == await claiming.values("select job_id from asyncq._rescue_jobs(true)")


async def test_changes_of_a_locked_job_do_not_wait(dsn: str, claiming: Session) -> None:
    """A user's add with its key, or a cancellation, must not wait for a handler."""
    await claiming.rows("select from asyncq.add_job('t', job_key := 'k')")
    (claim,) = await fetch(claiming)
    async with session(dsn, claiming.schema) as handler, handler.connection.transaction():
        await hold(handler, claim)
        await claiming.rows("select from asyncq.add_job('t', job_key := 'k')")
        await claiming.rows(CANCEL, claim["id"])
    marked = await claiming.rows("select id, key, cancelled_at is not null from asyncq._jobs order by id")

    assert [(claim["id"], None, True), (claim["id"] + 1, "k", False)] == [tuple(row) for row in marked]


async def test_the_server_checks_whether_the_client_is_alive(sql: Session) -> None:
    """After a power cut of the client, transactions stay open for two hours by most systems' defaults.

    Over a unix socket, as here, the server accepts the setting and shows 0. So the test checks that nothing is refused.
    """
    await add(sql)
    (claim,) = await fetch(sql)
    await hold(sql, claim)
    body = await sql.value("select prosrc from pg_catalog.pg_proc where oid = 'asyncq._lock_claim'::regproc")

    assert all(f"'tcp_keepalives_{name}', '{value}', true" in body for name, value in [("idle", 10), ("count", 4)])
