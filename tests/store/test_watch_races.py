"""A watch beside a fetch, a settlement or a transaction of its job: each race by its own forced interleaving."""

import anyio
import pytest

from tests.store.test_batch_races import GUARD
from tests.support.gate import Gate
from tests.support.jobs import add, add_many, complete, fetch, settle_rest
from tests.support.session import Session
from tests.support.watching import watch

FORMS = pytest.mark.parametrize("form", ["rows", "batched"])
WAITING = {"state": "waiting"}


@FORMS
async def test_a_watch_after_the_snapshot_of_a_settlement_keeps_the_job_from_it(
    gate: Gate, guarded: Session, other: Session, form: str
) -> None:
    """The settlement saw no mark. It locks the newest row, or finds that its batch has been split."""
    await add_many(other, 2)
    first, second = await fetch(other, form=form)
    await other.execute(GUARD)
    await complete(guarded, [{**first, "lock_token": 99}])
    answers = []

    async def watch_it() -> None:
        answers.append(await watch(other, first["id"]))

    written = await gate.during(complete(guarded, [first, second]), watch_it())
    ending = await settle_rest(other, [first], done=True, result="1")

    assert (False, [{first["id"]: WAITING}]) == (first["id"] in written, answers)
    assert {first["id"]: "written"} == ending
    assert 1 == (await watch(other, first["id"]))[first["id"]]["result"]


@FORMS
@pytest.mark.parametrize("is_watched", [False, True])
async def test_a_watch_does_not_wait_for_a_settlement_but_says_that_the_job_is_busy(
    sql: Session, other: Session, form: str, is_watched: bool
) -> None:
    """It is not marked: a client that counted on that would wait for ever. A job that was marked before is waiting."""
    await add_many(sql, 3)
    first, second, third = await fetch(sql, form=form)
    if is_watched:
        await watch(sql, first["id"])
    async with sql.connection.transaction():
        if is_watched:
            await settle_rest(sql, [first], done=True, result="1")
        else:
            await complete(sql, [first])
        with anyio.fail_after(5.0):
            during = await watch(other, first["id"], third["id"] + 1)
    after = await watch(other, first["id"])

    assert {first["id"]: WAITING if is_watched else {"state": "busy"}} == during
    assert ["completed"] * is_watched == [document["state"] for document in after.values()]
    await complete(sql, [second, third])


async def test_a_settlement_skips_a_job_while_it_is_watched(sql: Session, other: Session) -> None:
    """It waits for nobody. The next try finds the mark."""
    job = await add(sql)
    claims = await fetch(sql)
    async with other.connection.transaction():
        await watch(other, job)
        during = await complete(sql, claims), await settle_rest(sql, claims, done=True, result="1")

    assert ([], {job: "held"}) == during
    assert ([], {job: "written"}) == (
        await complete(sql, claims),
        await settle_rest(sql, claims, done=True, result="1"),
    )
    assert "completed" == (await watch(sql, job))[job]["state"]


async def test_a_watch_does_not_wait_for_the_transaction_of_a_run(sql: Session, other: Session) -> None:
    """It lasts as long as the handler: the lock of the claim is compatible, and the end of the job sees the mark."""
    job = await add(sql)
    (claim,) = await fetch(sql)
    async with sql.connection.transaction():
        (locked,) = await sql.run("lock_claim", 1, job, claim["lock_token"])
        with anyio.fail_after(5.0):
            watched = await watch(other, job)
        values = (1, job, claim["lock_token"], locked["xid"], "7", 1.0, None, None)
        (row,) = await sql.run("complete_claim", *values)

    assert ({job: WAITING}, "completed") == (watched, row["ending"])
    assert 7 == (await watch(other, job))[job]["result"]
