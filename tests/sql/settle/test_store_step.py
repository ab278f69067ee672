"""`_store_step`: a step is stored while its claim exists, in a row or in a batch."""

import pytest

from tests.support.jobs import add, add_many, complete, fetch
from tests.support.session import Session
from tests.support.steps import store, stored

FORMS = pytest.mark.parametrize("form", ["rows", "batched"])


@FORMS
async def test_a_step_is_stored_while_its_claim_exists(sql: Session, form: str) -> None:
    """Not for another worker, another token, or once the job has ended."""
    await add_many(sql, 2)
    first, second = await fetch(sql, form=form)
    answers = [
        await store(sql, first),
        await store(sql, second, worker=2),
        await store(sql, {**second, "lock_token": second["lock_token"] + 1}),
    ]
    await complete(sql, [second])
    answers.append(await store(sql, second))

    assert ([True, False, False, False], [first["id"]]) == (answers, await stored(sql))


@FORMS
async def test_a_step_after_a_rescue_is_refused(sql: Session, form: str) -> None:
    """Another worker runs the job, and its steps are stored."""
    await add(sql)
    [old] = await fetch(sql, form=form)
    await sql.rows("select from asyncq._rescue_jobs(true)")
    waiting = await store(sql, old)
    [new] = await fetch(sql, worker=2, form=form)

    assert [False, False, True] == [waiting, await store(sql, old), await store(sql, new, worker=2)]
