"""`counts` and `_counts`: jobs by state, exactly or about."""

import pytest

from tests.sql.control.test_declare_limits import declare
from tests.support.jobs import add, add_many
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
    rows = await sql.rows(f"{COUNTS} order by state", exactly, 1 << 25)

    assert [(state, 1, True) for state in sorted([*STATES, "cancelled"])] == [tuple(row) for row in rows]


async def test_an_empty_table_has_no_jobs(sql: Session) -> None:
    """No state has a row."""
    assert [] == await sql.rows(COUNTS, ABOUT, 1 << 25)


@pytest.fixture
async def large(sql: Session) -> Session:
    """20,000 jobs: a quarter is scheduled, and three are discarded."""
    await add_many(sql, 20_000, run_at="now() + case when i % 4 = 0 then interval '1 h' else '0' end")
    await sql.rows(
        "update asyncq._jobs set attempts = 25 where id in (select id from asyncq._jobs order by id limit 3)"
    )
    return sql


async def test_of_a_large_table_a_sample_is_counted(large: Session) -> None:
    """The counts are estimates. Discarded jobs are counted exactly: they are few and need attention."""
    bytes_ = await large.value("select pg_relation_size('asyncq._jobs')")
    rows = {row["state"]: row for row in await large.rows(COUNTS, ABOUT, bytes_ - 1)}

    assert ({"scheduled", "available", "retryable", "discarded"}, (3, True)) == (
        rows.keys(),
        tuple(rows["discarded"])[1:],
    )
    assert (False, False) == (rows["scheduled"]["is_exact"], rows["available"]["is_exact"])
    assert 2_000 < rows["scheduled"]["jobs"] < 10_000
    assert 6_000 < rows["available"]["jobs"] < 30_000


@pytest.mark.parametrize(("share", "is_exact"), [(4, True), (20, False)])
async def test_running_jobs_are_counted_unless_the_table_is_huge(large: Session, share: int, is_exact: bool) -> None:
    """A sample would miss twenty of a million."""
    await large.rows("""
        update asyncq._jobs set locked_by = 1, locked_at = now(), lock_token = 1
        where id in (select id from asyncq._jobs where attempts = 0 order by id desc limit 5)""")
    bytes_ = await large.value("select pg_relation_size('asyncq._jobs')")
    rows = {row["state"]: tuple(row)[1:] for row in await large.rows(COUNTS, ABOUT, bytes_ // share)}

    assert is_exact == (rows.get("active") == (5, True))
    assert (3, True) == rows["discarded"]


async def test_of_a_huge_table_running_jobs_are_at_least_those_that_live_workers_have_named(large: Session) -> None:
    """A sample would miss eight of a million. Jobs of a dead worker do not count as running."""
    for last_seen, started in (("0 s", "{1/1,2/1,3/1}"), ("0 s", "{4/1,5/1,6/1,7/1,8/1}"), ("1 h", "{9/1,10/1}")):
        await large.rows(f"""
            insert into asyncq._workers (lease, pid, concurrency, host, tasks, started_claims, last_seen)
            values ('30 s', 1, 8, 'h', '{{}}', '{started}', now() - interval '{last_seen}')""")
    bytes_ = await large.value("select pg_relation_size('asyncq._jobs')")
    rows = {row["state"]: tuple(row)[1:] for row in await large.rows(COUNTS, ABOUT, bytes_ // 20)}

    assert (8, False) == rows["active"]


@pytest.mark.parametrize(
    ("share", "estimated"),
    [
        (4, {"scheduled", "available", "retryable"}),
        (20, {"scheduled", "available", "retryable", "active", "cancelled"}),
    ],
)
async def test_a_state_that_the_sample_missed_is_an_estimate_too(
    large: Session, share: int, estimated: set[str]
) -> None:
    """Without a row the state would look exactly empty."""
    bytes_ = await large.value("select pg_relation_size('asyncq._jobs')")
    rows = [tuple(row) for row in await large.rows(COUNTS, ABOUT, bytes_ // share)]

    assert estimated == {state for state, _, is_exact in rows if not is_exact}
    assert ("retryable", 0, False) in rows


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
    rows = await sql.rows("select state, jobs, paused from asyncq.counts() order by state")
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
    bytes_ = await large.value("select pg_relation_size('asyncq._jobs')")

    assert 3 == await large.value(PAUSED, ABOUT, bytes_ // 100)
