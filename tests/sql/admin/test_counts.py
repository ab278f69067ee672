"""`counts` and `_counts`: jobs by state, exactly or about."""

import pytest

from tests.sql.control.test_declare_limits import declare
from tests.support.jobs import add, add_many, fetch
from tests.support.keyed import STATES, hold
from tests.support.session import Session


async def test_jobs_are_counted_by_their_states(own: Session) -> None:
    """The names are those of the Open Job Spec."""
    await add(own)
    await add(own)
    await hold(own, "discarded", key="k")
    rows = await own.rows("select state, jobs, is_exact from asyncq.counts() order by state")

    assert [("available", 2, True), ("discarded", 1, True)] == [tuple(row) for row in rows]
    assert rows == await own.rows("select state, jobs, is_exact from asyncq.counts(exact => true) order by state")


COUNTS = "select state, jobs, is_exact from asyncq._counts($1, $2)"
EXACTLY, ABOUT = True, False


@pytest.mark.parametrize("exactly", [False, True])
async def test_a_small_table_is_counted(sql: Session, exactly: bool) -> None:
    """Each state with jobs has a row. A running job that was cancelled counts as cancelled."""
    for state in STATES:
        await hold(sql, state, key=state)
    await hold(sql, "active", key="more")
    await sql.rows("update asyncq._jobs set cancelled_at = now() where key = 'more'")
    rows = await sql.rows(f"{COUNTS} order by state", exactly, 1 << 40)

    assert [(state, 1, True) for state in sorted([*STATES, "cancelled"])] == [tuple(row) for row in rows]


async def test_an_empty_table_has_no_jobs(sql: Session) -> None:
    """No state has a row."""
    assert [] == await sql.rows(COUNTS, ABOUT, 1 << 40)


@pytest.fixture
async def large(sql: Session) -> Session:
    """20,000 jobs: a quarter is scheduled, and three are discarded."""
    await add_many(sql, 20_000, run_at="now() + case when i % 4 = 0 then interval '1 h' else '0' end")
    await sql.rows(
        "update asyncq._jobs set attempts = 25 where id in (select id from asyncq._jobs order by id limit 3)"
    )
    return sql


SMALL = 1 << 13  # so that the table counts as large
EIGHTH = """
create or replace function asyncq._sample_percent(wanted int) returns float8 language sql volatile
as 'select 12.5::float8'
"""


@pytest.fixture
async def sampled(large: Session) -> Session:
    """The same; of a table that counts as large an eighth is sampled."""
    await large.execute(EIGHTH)
    return large


async def test_of_a_large_table_a_sample_is_counted(sampled: Session) -> None:
    """Waiting jobs are estimates. Failed ones need attention, and running ones are few: an index has them."""
    await sampled.rows("""
        update asyncq._jobs set locked_by = 1, locked_at = now(), lock_token = 1,
          cancelled_at = case when attempts = 0 and id % 2 = 0 then now() end
        where id in (select id from asyncq._jobs where attempts = 0 order by id desc limit 6)""")
    rows = {row["state"]: tuple(row)[1:] for row in await sampled.rows(COUNTS, ABOUT, SMALL)}

    assert {"discarded": (3, True), "active": (3, True), "cancelled": (3, True)} == {
        state: rows.pop(state) for state in ("discarded", "active", "cancelled")
    }
    assert [(0, False)] * 2 == [rows.pop(state) for state in ("retryable", "pending")]
    assert {"scheduled", "available"} == rows.keys()
    assert (False, False) == (rows["scheduled"][1], rows["available"][1])
    assert 2_000 < rows["scheduled"][0] < 10_000
    assert 6_000 < rows["available"][0] < 30_000


async def test_estimates_do_not_jump_between_two_calls(sampled: Session) -> None:
    """Nothing has changed, so the figures are the same."""
    first = [tuple(row) for row in await sampled.rows(COUNTS, ABOUT, SMALL)]

    for _ in range(5):
        assert first == [tuple(row) for row in await sampled.rows(COUNTS, ABOUT, SMALL)]


async def test_jobs_of_batches_run_in_a_large_table_too(own: Session) -> None:
    """They are counted exactly."""
    await add_many(own, 1_000)
    await fetch(own, 150, worker=7, form="batched")
    rows = {row["state"]: tuple(row)[1:] for row in await own.rows(COUNTS, ABOUT, SMALL)}
    await own.rows("select from asyncq._rescue_jobs(true)")

    assert (150, True) == rows["active"]


async def test_very_many_that_run_are_at_least_those_that_an_index_had_or_workers_named(sampled: Session) -> None:
    """Above a number they are estimated too. Jobs of a dead worker do not count as running."""
    await add_many(sampled, 7_000)
    await sampled.rows("""
        update asyncq._jobs set locked_by = 1, locked_at = now(), lock_token = 1, attempts = 0
        where run_at <= now() or attempts > 0""")
    for last_seen, number in (("0 s", 30_000), ("0 s", 10_000), ("1 h", 50_000)):
        await sampled.rows(f"""
            insert into asyncq._workers (lease, pid, concurrency, host, tasks, started_claims, last_seen)
            values ('30 s', 1, 8, 'h', '{{}}', array(select i || '/1' from generate_series(1, {number}) as i),
              now() - interval '{last_seen}')""")
    rows = {row["state"]: tuple(row)[1:] for row in await sampled.rows(COUNTS, ABOUT, SMALL)}

    assert (40_000, False) == rows["active"]


async def test_a_large_table_is_counted_on_request(large: Session) -> None:
    """It takes as long as reading it."""
    rows = {row["state"]: tuple(row)[1:] for row in await large.rows(COUNTS, EXACTLY, 1)}

    assert {"scheduled": (5_000, True), "available": (14_997, True), "discarded": (3, True)} == rows


PAUSES = {
    "task": "task => 'a'",
    "queue": "queue => 'q'",
    "limit": "limit_name => 'a'",
    "key": "limit_name => 'a', key => 'x'",
    "everything": "",
}
PAUSED = "select paused from asyncq._counts($1, $2) where state = 'available'"


@pytest.mark.parametrize(("what", "expected"), [("task", 4), ("queue", 2), ("limit", 4), ("key", 1), ("everything", 6)])
async def test_paused_jobs_are_available_and_counted_beside(sql: Session, what: str, expected: int) -> None:
    """Only those that are due; of a task also those with a queue."""
    await sql.execute("select asyncq._store_tasks('{a,b}')")
    await declare(sql, a={"at_once": 2, "by": ["k"]})
    for task in "ab":
        await add(sql, task, queue="q")
        await add(sql, task, payload='{"k": "x"}')
    for options in ({}, {}, {"run_at": "now() + interval '1 h'"}):
        await add(sql, "a", payload='{"k": "y"}', **options)
    await sql.execute(f"select asyncq.pause({PAUSES[what]})")
    rows = await sql.rows("select state, jobs, paused from asyncq._counts(false, 1::bigint << 40) order by state")
    await sql.execute(f"select asyncq.resume({PAUSES[what]})")

    assert [("available", 6, expected), ("scheduled", 1, 0)] == [tuple(row) for row in rows]
    assert 0 == await sql.value(PAUSED, EXACTLY, 1)


async def test_of_a_large_table_paused_jobs_are_estimated(large: Session) -> None:
    """By the same sample as the available ones."""
    await large.execute("select asyncq.pause()")
    bytes_ = await large.value("select pg_relation_size('asyncq._jobs')")
    rows = {row["state"]: row for row in await large.rows("select * from asyncq._counts($1, $2)", ABOUT, bytes_ - 1)}

    assert (rows["available"]["jobs"], False) == (rows["available"]["paused"], rows["available"]["is_exact"])
    assert 0 == rows["scheduled"]["paused"] == rows["discarded"]["paused"]


async def test_the_first_jobs_of_a_paused_queue_are_counted_in_a_large_table_too(large: Session) -> None:
    """A sample would miss three of a million: none would look paused. Later ones do not count."""
    for at in ("now()", "now()", "now()", "now() + interval '1 h'"):
        await add(large, queue="q", run_at=at)
    await large.execute("select asyncq.pause(queue => 'q')")
    await large.execute(EIGHTH.replace("12.5", "0.0001"))
    bytes_ = await large.value("select pg_relation_size('asyncq._jobs')")

    assert 3 == await large.value(PAUSED, ABOUT, bytes_ // 100)
