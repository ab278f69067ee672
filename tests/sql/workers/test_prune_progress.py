"""`_prune_progress`: rows whose worker was killed are removed, and those of claims stay."""

import pytest

from tests.support.jobs import add_many, complete, fetch
from tests.support.progress import done, rows, write
from tests.support.session import Session


@pytest.mark.parametrize("form", ["rows", "batched"])
async def test_progress_without_a_claim_is_pruned(sql: Session, form: str) -> None:
    """Its worker was killed, so it never deletes the row."""
    await add_many(sql, 3)
    first, second, third = await fetch(sql, form=form)
    await write(sql, (first, 1), (second, 2), (third, 3))
    await complete(sql, [first])
    await sql.run("prune", None, None, 100)
    in_part = await rows(sql), await done(sql)
    await sql.rows("select from asyncq._rescue_jobs(true)")
    await sql.run("prune", None, None, 1)
    after_one = await rows(sql)
    await sql.run("prune", None, None, 100)

    assert (2, {second["id"]: 2, third["id"]: 3}) == in_part
    assert (1, 0) == (after_one, await rows(sql))
