"""`_request`: the job of an earlier request with the same idempotency key."""

import pytest

from tests.support.session import Session
from tests.support.unique import HELD, ask, hold, word

REQUEST = "select id, state from asyncq._request($1, asyncq.clock())"


async def remember(sql: Session, key: str, job: int, keep: str = "1 h") -> None:
    """Store a request."""
    await sql.rows(
        "insert into asyncq._requests values (now() + $3::text::interval, $2, $1, ''::bytea)", key, job, keep
    )


@pytest.mark.parametrize("state", HELD)
async def test_the_job_is_found_in_every_state(sql: Session, state: str) -> None:
    """It is found even if it has ended, if it was kept."""
    job = await hold(sql, state)
    await remember(sql, "r", job)

    assert (job, word(state)) == tuple(await sql.row(REQUEST, "r"))


async def test_a_job_without_a_row_is_completed(sql: Session) -> None:
    """The job existed and has been deleted, so a repeated request learns that it is done."""
    await remember(sql, "r", 7)

    assert (7, "completed") == tuple(await sql.row(REQUEST, "r"))


async def test_an_expired_request_is_ignored(sql: Session) -> None:
    """It is ignored even before it is pruned. The current time counts, not the start of the transaction."""
    done = await ask(sql)
    await remember(sql, "r", done.id, "1 h")
    await sql.execute("""
        create or replace function asyncq.clock() returns timestamptz language sql volatile
        as $$ select pg_catalog.clock_timestamp() + interval '59 minutes' $$""")
    before = await sql.rows(REQUEST, "r")
    await sql.execute("""
        create or replace function asyncq.clock() returns timestamptz language sql volatile
        as $$ select pg_catalog.clock_timestamp() + interval '61 minutes' $$""")

    assert [(done.id, "available")] == [tuple(row) for row in before]
    assert [] == await sql.rows(REQUEST, "r")


async def test_a_request_is_kept_until_its_time_and_no_longer(sql: Session) -> None:
    """Pruning and adds must agree to the microsecond."""
    await remember(sql, "r", 7)
    asked = [
        await sql.rows(f"select id from asyncq._request('r', now() + interval '1 h' - interval '{before} us')")
        for before in (1, 0)
    ]

    assert [1, 0] == [len(rows) for rows in asked]


async def test_another_key_is_another_request(sql: Session) -> None:
    """No key is no request."""
    await remember(sql, "r", 7)

    assert [[], []] == [await sql.rows(REQUEST, key) for key in ("R", None)]
