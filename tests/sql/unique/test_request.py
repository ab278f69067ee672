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
    """Also when it has ended, if it was kept."""
    job = await hold(sql, state)
    await remember(sql, "r", job)

    assert (job, word(state)) == tuple(await sql.row(REQUEST, "r"))


async def test_a_job_of_which_nothing_is_known_any_more_is_completed(sql: Session) -> None:
    """It was there, and it is not in the way: who asks again wants to hear that it is done."""
    await remember(sql, "r", 7)

    assert (7, "completed") == tuple(await sql.row(REQUEST, "r"))


async def test_a_request_of_long_ago_is_forgotten(sql: Session) -> None:
    """Also before it is pruned; the time is the instant, not the start of the transaction."""
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


async def test_a_request_is_kept_up_to_its_time_and_at_that_moment_no_more(sql: Session) -> None:
    """To the microsecond: what is pruned and what counts must be the same."""
    await remember(sql, "r", 7)
    asked = [
        await sql.rows(f"select id from asyncq._request('r', now() + interval '1 h' - interval '{before} us')")
        for before in (1, 0)
    ]

    assert [1, 0] == [len(rows) for rows in asked]


async def test_another_key_is_another_request(sql: Session) -> None:
    """And no key is none."""
    await remember(sql, "r", 7)

    assert [[], []] == [await sql.rows(REQUEST, key) for key in ("R", None)]
