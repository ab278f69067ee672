"""Prepared transactions beside ends and looks: they keep their locks for as long as they like, without a session."""

from collections.abc import AsyncIterator, Iterator

import anyio
import pytest

from asyncq.server import start
from asyncq.testing import temporary_schema
from tests.support.jobs import add, fetch, settle_rest
from tests.support.session import Session, session
from tests.support.waits import broken_laws, left, look, state, wait_for

pytestmark = pytest.mark.timeout(120)
COMPLETE = "select from asyncq.complete_jobs(array[$1::bigint])"
CANCEL = "select from asyncq.cancel_jobs(array[$1::bigint])"


@pytest.fixture(scope="module")
def alone() -> Iterator[str]:
    """A server with prepared transactions."""
    with start(fsync=False, settings={"max_prepared_transactions": "3"}) as server:
        yield server.dsn


@pytest.fixture
async def sql(alone: str) -> AsyncIterator[Session]:
    """A session on a schema of that server."""
    async with temporary_schema(alone) as schema, session(alone, schema) as opened:
        yield opened


@pytest.mark.parametrize("decision", ["commit", "rollback"])
async def test_an_end_that_is_prepared_keeps_the_closing_of_the_other_end(sql: Session, decision: str) -> None:
    """The look waits for nobody. Once it is decided, the waiter is released, or waits for the job that goes on."""
    first, second = await add(sql), await add(sql)
    waiter = await wait_for(sql, first, second)
    await sql.execute("begin")
    await sql.rows(COMPLETE, first)
    await sql.execute("prepare transaction 'end'")
    await sql.rows(COMPLETE, second)
    with anyio.fail_after(5.0):
        during = [await look(sql), await look(sql)]
    await sql.execute(f"{decision} prepared 'end'")
    after = await look(sql)

    assert [[("held", waiter, None)]] * 2 == during
    assert ([("released", waiter, None)] if decision == "commit" else []) == after
    if decision == "rollback":
        await sql.rows(COMPLETE, first)
        assert [("released", waiter, None)] == await look(sql)
    assert ("available", (0, 0), []) == (await state(sql, waiter), await left(sql), await broken_laws(sql))


@pytest.mark.parametrize("decision", ["commit", "rollback"])
async def test_a_prepared_cancel_of_the_waiter_delays_its_release(sql: Session, decision: str) -> None:
    """Its row and its edge are locked; the end of the other job waits for neither."""
    job = await add(sql)
    waiter = await wait_for(sql, job)
    await sql.execute("begin")
    await sql.rows(CANCEL, waiter)
    await sql.execute("prepare transaction 'cancel'")
    with anyio.fail_after(5.0):
        await sql.rows(COMPLETE, job)
        during = await look(sql)
    await sql.execute(f"{decision} prepared 'cancel'")
    after = await look(sql)

    assert [("held", waiter, None)] == during
    assert ([] if decision == "commit" else [("released", waiter, None)]) == after
    assert (None if decision == "commit" else "available") == await state(sql, waiter)
    assert ((0, 0), []) == (await left(sql), await broken_laws(sql))


async def test_an_end_that_has_to_be_notified_cannot_be_prepared(sql: Session) -> None:
    """PostgreSQL refuses it by name, and the end is undone: nothing is lost."""
    job = await add(sql)
    waiter = await wait_for(sql, job)
    await sql.execute("begin")
    await sql.rows(COMPLETE, job)
    with pytest.raises(Exception, match="PREPARE"):
        await sql.execute("prepare transaction 'last'")

    assert (["available", "pending"], (1, 0)) == ([await state(sql, job), await state(sql, waiter)], await left(sql))


async def test_a_settlement_asks_for_a_look_only_after_an_end_of_its_own(sql: Session) -> None:
    """A closing may be kept for hours: each settlement beside it would make a look that finds it held."""
    first, second, plain = await add(sql), await add(sql), await add(sql)
    held, waiter = await wait_for(sql, first), await wait_for(sql, second)
    await sql.execute("begin")
    await sql.rows(CANCEL, held)
    await sql.execute("prepare transaction 'cancel'")
    await sql.rows(COMPLETE, first)
    claims = {claim["id"]: claim for claim in await fetch(sql)}
    beside = await settle_rest(sql, [claims[plain]])
    own = await settle_rest(sql, [claims[second]], done=True)
    outcomes = await look(sql)
    await sql.execute("rollback prepared 'cancel'")

    assert ({plain: "written"}, {second: "written", None: "closings"}) == (beside, own)
    assert [("released", waiter, None), ("held", held, None)] == outcomes
    assert ([("released", held, None)], (0, 0)) == (await look(sql), await left(sql))
