"""`_matches`: the jobs that conflict with an add. The table of unique jobs has the cases; here is the result."""

import re

import pytest

from tests.support.session import Session
from tests.support.unique import ALL_STATES, HELD, hold, word

MATCHES = """
select id, state, created_at, run_at
from asyncq._matches(
  asyncq._unique_key(asyncq._check_policy('{}'), 't', null, null, null), $1::text[], null, asyncq.clock())
order by id
"""


async def test_each_match_has_its_state_and_time(sql: Session) -> None:
    """The time is given only for jobs with a row, not for ended ones."""
    jobs = [await hold(sql, state) for state in HELD]
    found = await sql.rows(MATCHES, ALL_STATES)
    rows = {row["id"]: row for row in await sql.rows("select id, run_at from asyncq._jobs")}

    assert [(job, word(state)) for job, state in zip(jobs, HELD, strict=True)] == [
        (row["id"], row["state"]) for row in found
    ]
    assert [rows[job]["run_at"] if job in rows else None for job in jobs] == [row["run_at"] for row in found]


async def test_it_is_inlined_into_the_statement_around_it(sql: Session) -> None:
    """A function call for each of ten thousand jobs would cost more than everything else."""
    await sql.execute("set local enable_seqscan = off; set local enable_bitmapscan = off")
    plan = await sql.values("""
        explain select matched.id from unnest('{}'::bytea[]) as given(unique_key)
        cross join lateral asyncq._matches(given.unique_key, '{active,discarded}', 'P1D', now()) as matched""")
    text = "\n".join(plan)

    assert [1, 1, 1] == [
        len(re.findall(rf"\b{name} *(on|\()", text))
        for name in ("jobs_unique_key", "jobs_unique_key_unready", "ended_jobs_unique_key")
    ]
    assert "Function Scan on _matches" not in text


@pytest.mark.parametrize(
    ("change", "prevents"), [("", False), (", locked_by = 9, locked_at = now(), lock_token = 9", True)]
)
async def test_a_waiting_job_that_has_expired_prevents_no_add(sql: Session, change: str, prevents: bool) -> None:
    """It will never run, and the add would be lost with it. One that runs may have begun in time."""
    job = await hold(sql, "available")
    await sql.rows(f"update asyncq._jobs set expires_at = now() - interval '1 s'{change} where id = $1", job)

    assert ([job] if prevents else []) == [row["id"] for row in await sql.rows(MATCHES, ALL_STATES)]
