"""`_prune_steps`: the steps of jobs that have ended are removed, and those of others stay."""

import pytest

from tests.support.jobs import add_many, complete, fetch, settle_rest
from tests.support.session import Session
from tests.support.steps import store, stored


@pytest.mark.parametrize("form", ["rows", "batched"])
async def test_steps_go_with_their_job(sql: Session, form: str) -> None:
    """The others run, wait for a retry, or were discarded and can be retried."""
    await add_many(sql, 3)
    claims = await fetch(sql, form=form)
    for claim in claims:
        await store(sql, claim)
        await store(sql, claim, "t")
    done, failed, running = claims
    await complete(sql, [done])
    await settle_rest(sql, [failed])
    removed = await sql.row("select * from asyncq._prune_steps(0, 100)")

    assert (2, None) == (removed["steps"], removed["last_job"])
    assert [failed["id"]] * 2 + [running["id"]] * 2 == await stored(sql)


async def test_the_walk_goes_on_behind_the_last_job(sql: Session) -> None:
    """All steps of a job are removed together, although the part has room for one."""
    await add_many(sql, 2)
    claims = await fetch(sql)
    for claim in claims:
        await store(sql, claim)
        await store(sql, claim, "t")
    await complete(sql, claims)
    first = await sql.row("select * from asyncq._prune_steps(0, 1)")
    second = await sql.row("select * from asyncq._prune_steps($1, 1)", first["last_job"])
    third = await sql.row("select * from asyncq._prune_steps($1, 1)", second["last_job"])

    assert [(2, claims[0]["id"]), (2, claims[1]["id"]), (0, None)] == [tuple(row) for row in (first, second, third)]
