"""Steps beside other statements: no claim ends beside a step that is not committed; no step is refused by mistake."""

import anyio
import pytest

from tests.support.jobs import add, add_many, complete, fetch, settle_rest
from tests.support.session import Session
from tests.support.steps import store, stored
from tests.support.waiting import wait_until

FORMS = pytest.mark.parametrize("form", ["rows", "batched"])


@FORMS
async def test_a_claim_with_a_step_that_is_not_committed_does_not_end(sql: Session, other: Session, form: str) -> None:
    """Else the next run would not see the step, and call its function again. Nobody waits."""
    await add(sql)
    [claim] = await fetch(sql, form=form)
    async with other.connection.transaction():
        await store(other, claim)
        await sql.execute("set lock_timeout = '5s'")
        rescued = await sql.rows("select * from asyncq._rescue_jobs(true)")
        endings = await settle_rest(sql, [claim], done=True)
    after = await sql.rows("select * from asyncq._rescue_jobs(true)")

    assert ([], {claim["id"]: "held"}, 1) == (rescued, endings, len(after))
    assert [claim["id"]] == await stored(sql)


async def test_a_step_beside_a_split_of_its_batch_waits_and_is_stored(sql: Session, other: Session) -> None:
    """The claim is then a row, which the statement that waited has to look for with another snapshot."""
    await add_many(sql, 2)
    first, second = await fetch(sql, form="batched")
    answers: list[bool] = []

    async def write() -> None:
        answers.append(await store(sql, first))

    async with anyio.create_task_group() as group, other.connection.transaction():
        await other.rows("select from asyncq.cancel_jobs($1)", [second["id"]])
        group.start_soon(write)
        pid = sql.connection.get_server_pid()
        await wait_until(lambda: other.value("select pg_blocking_pids($1) <> '{}'", pid), description="it waits")

    assert ([True], [first["id"]]) == (answers, await stored(sql))


async def test_a_step_that_another_transaction_locks_is_left(sql: Session, other: Session) -> None:
    """The next walk removes it."""
    await add(sql)
    [claim] = await fetch(sql)
    await store(sql, claim)
    await complete(sql, [claim])
    async with other.connection.transaction():
        await other.execute("select from asyncq._steps for update")
        beside = (await sql.row("select * from asyncq._prune_steps(0, 100)"))["steps"]

    assert (0, 1) == (beside, (await sql.row("select * from asyncq._prune_steps(0, 100)"))["steps"])
