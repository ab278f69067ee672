"""`commit_status` and `end_transaction`: the outcome of a transaction without an answer."""

import pytest

from tests.support.jobs import WORKER, add, complete, fetch
from tests.support.session import Session, session

XID = "select pg_current_xact_id()::text"


async def commit_status(sql: Session, job: int, xid: str, *, token: int = 1) -> str:
    """The status of a transaction that should have completed a job."""
    (row,) = await sql.run("commit_status", WORKER, job, token, xid)
    return row["commit_status"]


async def test_a_transaction_that_has_completed_the_job_is_committed(claiming: Session) -> None:
    """The server and the deleted claim both prove it."""
    job = await add(claiming)
    claims = await fetch(claiming)
    async with claiming.connection.transaction():
        xid = await claiming.value(XID)
        await complete(claiming, claims)

    assert "committed" == await commit_status(claiming, job, xid)


async def test_one_that_was_rolled_back_is_aborted(claiming: Session) -> None:
    """The claim is unchanged: the job has to be tried again."""
    job = await add(claiming)
    await fetch(claiming)
    transaction = claiming.connection.transaction()
    await transaction.start()
    xid = await claiming.value(XID)
    await transaction.rollback()

    assert "aborted" == await commit_status(claiming, job, xid)


async def test_a_transaction_that_was_rolled_back_and_whose_claim_is_gone_is_lost(claiming: Session) -> None:
    """A rescue returned the claim, so this run had no effect."""
    job = await add(claiming)
    claims = await fetch(claiming)
    transaction = claiming.connection.transaction()
    await transaction.start()
    xid = await claiming.value(XID)
    await transaction.rollback()
    await complete(claiming, claims)

    assert "lost" == await commit_status(claiming, job, xid)


async def test_an_open_transaction_is_in_progress_and_can_be_ended(dsn: str, claiming: Session) -> None:
    """Its client is gone, but the server has not noticed."""
    job = await add(claiming)
    await fetch(claiming)
    async with session(dsn, claiming.schema) as handler:
        await handler.connection.execute("begin")
        xid, pid = await handler.value(XID), handler.connection.get_server_pid()
        before = await commit_status(claiming, job, xid)
        ended = [row["ended"] for row in await claiming.run("end_transaction", pid, xid)]
        while (after := await commit_status(claiming, job, xid)) == "in progress":
            pass
        handler.connection.terminate()  # The server has closed it: nobody says goodbye.

    assert ("in progress", [True], "aborted") == (before, ended, after)


async def test_a_process_that_does_something_else_by_now_is_not_ended(dsn: str, claiming: Session) -> None:
    """The driver or a pooler may use the connection for another caller."""
    async with session(dsn, claiming.schema) as handler:
        await handler.connection.execute("begin")
        xid, pid = await handler.value(XID), handler.connection.get_server_pid()
        await handler.connection.execute("commit; begin; select pg_current_xact_id()")

        assert [] == await claiming.run("end_transaction", pid, xid)
        assert 1 == await handler.value("select 1")


async def test_a_committed_transaction_whose_claim_exists_decides_nothing(claiming: Session) -> None:
    """A savepoint was rolled back, or the number is that of another server's transaction. The claim decides."""
    job = await add(claiming)
    await fetch(claiming)
    xid = await claiming.value(XID)

    assert "unknown" == await commit_status(claiming, job, xid)


@pytest.mark.parametrize("xid", ["3", "9000000000000000000"], ids=["too old or not ours", "not there yet"])
async def test_a_number_that_the_server_does_not_know_decides_nothing(claiming: Session, xid: str) -> None:
    """It may be of another server, or of a forgotten time."""
    job = await add(claiming)
    claims = await fetch(claiming)
    before = await commit_status(claiming, job, xid)
    await complete(claiming, claims)

    assert ("unknown", "lost") == (before, await commit_status(claiming, job, xid))
