"""`_split_batch_of_claim`: a claimed job of a batch becomes a row, unless another session has locked the batch."""

import pytest

from tests.support.jobs import WORKER, add, complete, fetch
from tests.support.marked import CANCEL
from tests.support.session import Session, session

SPLIT = "select asyncq._split_batch_of_claim($1, $2, $3)"


@pytest.mark.parametrize("form", ["rows", "batched"])
async def test_an_existing_claim_becomes_a_row(sql: Session, form: str) -> None:
    """All other claims of its batch become rows too."""
    ids = [await add(sql), await add(sql)]
    token = (await fetch(sql, form=form))[0]["lock_token"]

    assert "row" == await sql.value(SPLIT, WORKER, ids[1], token)
    assert ids == await sql.values("select id from asyncq._jobs where lock_token = $1 order by id", token)
    assert [] == await sql.values("select ids from asyncq._batches")


async def test_a_batch_that_is_locked_is_left_and_reported(dsn: str, claiming: Session) -> None:
    """Its claims may change at any moment, so the caller has to try again."""
    job = await add(claiming)
    (claim,) = await fetch(claiming, form="batched")
    async with session(dsn, claiming.schema) as other, other.connection.transaction():
        await other.rows("select from asyncq._batches for update")
        during = await claiming.value(SPLIT, WORKER, job, claim["lock_token"])

    assert ["locked", "row"] == [during, await claiming.value(SPLIT, WORKER, job, claim["lock_token"])]


@pytest.mark.parametrize("stranger", ["another worker", "an older fetch", "a cancelled job", "a job that is gone"])
async def test_a_missing_claim_is_reported(sql: Session, stranger: str) -> None:
    """Batches of other claims are left alone."""
    job, stays = await add(sql), await add(sql)
    first, _ = await fetch(sql, form="batched")
    worker, token = WORKER, first["lock_token"]
    if stranger == "another worker":
        worker += 1
    elif stranger == "an older fetch":
        token -= 1
    elif stranger == "a cancelled job":
        await sql.rows(CANCEL, job)
    else:
        await complete(sql, [first])

    assert "gone" == await sql.value(SPLIT, worker, job, token)
    assert stays == await sql.value("select max(id) from asyncq._all_jobs() where locked_by = $1", WORKER)
