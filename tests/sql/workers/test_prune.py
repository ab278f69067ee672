"""`prune`: expired rows are deleted in batches; locked rows stay."""

import json

import pytest

from tests.support.jobs import add, fetch
from tests.support.marked import ended, keep
from tests.support.session import Session, session

DAY_S = 86400.0
FAILED = "update asyncq._jobs set attempts = max_attempts, updated_at = now() - interval '1 s' * $2 where id = $1"
KEEP_ENDED = """
insert into asyncq._ended_jobs (id, created_at, ended_at, keep_until, task_id, state)
select i, now(), now(), {until}, 1, 'completed' from generate_series({first}, {last}) as i;
select setval('asyncq._jobs_id_seq', greatest({last}, nextval('asyncq._jobs_id_seq')))
"""
KEEP_REQUESTS = """
insert into asyncq._requests (keep_until, job_id, key, digest)
select {until}, i, 'k' || i, '' from generate_series({first}, {last}) as i
"""
FAILED_ATTEMPTS = """
insert into asyncq._attempts (job_id, lock_token, started_at, ended_at, worker_id, number, kind, error)
select i, 1, now(), {at}, 1, 1, 'failed', 'e' from generate_series({first}, {last}) as i
"""
PASSED, COMING = "now() - interval '1 s'", "now() + interval '1 h'"


async def prune(sql: Session, retention_s: float | None = DAY_S, most: int = 100) -> tuple[int, int, int]:
    """Prune. Returns how many failed jobs, ended ones and requests were removed."""
    (row,) = await sql.run("prune", retention_s, DAY_S, most)
    return tuple(row)[:3]


async def prune_attempts(sql: Session, retention_s: float = DAY_S, most: int = 100) -> int:
    """Prune. Returns how many failed attempts were removed."""
    (row,) = await sql.run("prune", None, retention_s, most)
    return row["attempts"]


async def attempts(sql: Session) -> list[int]:
    """The jobs whose failed attempts are recorded."""
    return await sql.values("select job_id from asyncq.attempts order by job_id")


async def failed(sql: Session, seconds_ago: float) -> int:
    """A job that was discarded so long ago. Returns its id."""
    job = await add(sql)
    await sql.rows(FAILED, job, seconds_ago)
    return job


async def jobs(sql: Session) -> list[int]:
    """The ids of all jobs."""
    return await sql.values("select id from asyncq._jobs order by id")


async def test_a_discarded_job_is_removed_when_its_time_is_over(sql: Session) -> None:
    """Its last change counts: a job may wait for a year before it fails."""
    old, young = await failed(sql, DAY_S + 60), await failed(sql, DAY_S - 60)
    await sql.rows("update asyncq._jobs set created_at = now() - interval '1 year', run_at = created_at")

    assert (1, 0, 0) == await prune(sql)
    assert ([young], True) == (await jobs(sql), young != old)


async def test_without_a_retention_failed_jobs_stay_for_ever(sql: Session) -> None:
    """Other rows are still pruned."""
    job = await failed(sql, 1e9)
    await sql.execute(KEEP_ENDED.format(until=PASSED, first=1, last=1))

    assert (0, 1, 0) == await prune(sql, None)
    assert [job] == await jobs(sql)


@pytest.mark.parametrize("state", ["waits", "waits for its retry", "runs in its last attempt"])
async def test_a_job_that_is_not_discarded_stays_however_old_it_is(sql: Session, state: str) -> None:
    """An old job that still waits is a backlog, and must stay."""
    job = await add(sql, max_attempts=3)
    if state.startswith("runs"):
        await fetch(sql)
    attempts = {"waits": 0, "waits for its retry": 2}.get(state, 3)
    await sql.rows("update asyncq._jobs set attempts = $1, updated_at = now() - interval '1 year'", attempts)

    assert (0, 0, 0) == await prune(sql)
    assert [job] == await jobs(sql)


@pytest.mark.parametrize(("states", "kept"), [(["discarded"], True), (["completed", "cancelled"], False)])
async def test_a_failed_job_leaves_an_ended_one_if_that_was_asked_for(
    sql: Session, states: list[str], kept: bool
) -> None:
    """A unique policy that counts discarded jobs needs it until its period is over."""
    job = await failed(sql, 2 * DAY_S)
    await keep(sql, job, states)

    assert (1, 0, 0) == await prune(sql)
    assert ([], [(job, "discarded")] if kept else []) == (await jobs(sql), await ended(sql))


async def test_expired_ended_jobs_and_requests_are_pruned(sql: Session) -> None:
    """Some must be kept for ever."""
    for statement in (KEEP_ENDED, KEEP_REQUESTS):
        await sql.execute(statement.format(until=PASSED, first=1, last=2))
        await sql.execute(statement.format(until=COMING, first=3, last=4))
        await sql.execute(statement.format(until="'infinity'", first=5, last=5))

    assert (0, 2, 2) == await prune(sql)
    assert [3, 4, 5] == [id_ for id_, _ in await ended(sql)]
    assert ["k3", "k4", "k5"] == await sql.values("select key from asyncq._requests order by key")


async def test_a_row_is_pruned_from_the_moment_on_at_which_it_expires(sql: Session) -> None:
    """An add at that microsecond would ignore it too."""
    await sql.execute(KEEP_ENDED.format(until="now() + interval '1 us' * (i - 1)", first=1, last=2))
    await sql.execute(KEEP_REQUESTS.format(until="now() + interval '1 us' * (i - 1)", first=1, last=2))
    await sql.execute("""
        create or replace function asyncq.clock() returns timestamptz language sql volatile parallel safe
        as $$ select pg_catalog.now() $$""")

    assert (0, 1, 1) == await prune(sql)


async def test_a_batch_takes_so_many_of_each_the_oldest_first(sql: Session) -> None:
    """A statement that removed a million rows would hold them, and grow the log, for minutes."""
    old = [await failed(sql, (10 - number) * DAY_S) for number in range(5)]
    await sql.execute(KEEP_ENDED.format(until="now() - interval '1 s' * i", first=1, last=5))
    await sql.execute(KEEP_REQUESTS.format(until="now() - interval '1 s' * i", first=1, last=5))

    assert (3, 3, 3) == await prune(sql, most=3)
    assert (old[3:], [1, 2]) == (await jobs(sql), [id_ for id_, _ in await ended(sql)])
    assert (2, 2, 2) == await prune(sql, most=3)


async def test_a_locked_row_is_skipped_and_pruned_the_next_time(dsn: str, own: Session) -> None:
    """A user's open transaction must not stop the pruning."""
    held, free = await failed(own, 2 * DAY_S), await failed(own, 2 * DAY_S)
    await own.execute(KEEP_ENDED.format(until=PASSED, first=1, last=2))
    await own.execute(KEEP_REQUESTS.format(until=PASSED, first=1, last=2))
    async with session(dsn, own.schema) as other, other.connection.transaction():
        await other.rows("select from asyncq._jobs where id = $1 for key share", held)
        await other.rows("select from asyncq._ended_jobs where id = 1 for key share")
        await other.rows("select from asyncq._requests where key = 'k1' for key share")
        first = await prune(own)
        between = await jobs(own)

    assert ((1, 1, 1), [held], (1, 1, 1)) == (first, between, await prune(own))
    assert free != held


async def test_a_job_that_is_retried_at_this_moment_stays(dsn: str, own: Session) -> None:
    """An administrator's retry wins, even if it commits while the row is checked."""
    job = await failed(own, 2 * DAY_S)
    async with session(dsn, own.schema) as other, other.connection.transaction():
        await other.rows("update asyncq._jobs set attempts = 0")
        first = await prune(own)

    assert ((0, 0, 0), (0, 0, 0), [job]) == (first, await prune(own), await jobs(own))


async def test_time_is_that_of_the_movable_clock(sql: Session) -> None:
    """A test that moves time by a month sees what a month does."""
    await failed(sql, 0)
    await sql.execute(KEEP_ENDED.format(until=COMING, first=1, last=1))
    before = await prune(sql)
    await sql.execute("""
        create or replace function asyncq.clock() returns timestamptz language sql volatile parallel safe
          as $$ select pg_catalog.clock_timestamp() + interval '2 days' $$""")

    assert ((0, 0, 0), (1, 1, 0)) == (before, await prune(sql))


async def test_failed_attempts_are_pruned_by_age_alone(sql: Session) -> None:
    """Whatever became of their jobs: here one waits, and the others have ended."""
    job = await add(sql)
    await sql.execute(FAILED_ATTEMPTS.format(at="now() - interval '25 h'", first=job, last=job + 1))
    await sql.execute(FAILED_ATTEMPTS.format(at="now() - interval '23 h'", first=job + 2, last=job + 2))

    assert (2, 0) == (await prune_attempts(sql), await prune_attempts(sql))
    assert ([job + 2], [job]) == (await attempts(sql), await jobs(sql))


async def test_a_batch_of_failed_attempts_has_the_oldest_ones(sql: Session) -> None:
    """As for all other rows."""
    await sql.execute(FAILED_ATTEMPTS.format(at="now() - interval '2 days' - interval '1 s' * i", first=1, last=5))

    assert (3, [1, 2], 2) == (await prune_attempts(sql, most=3), await attempts(sql), await prune_attempts(sql))


async def test_the_age_of_a_failed_attempt_is_that_of_the_movable_clock(sql: Session) -> None:
    """A test that moves time by a week sees what a week does."""
    await sql.execute(FAILED_ATTEMPTS.format(at="now()", first=1, last=1))
    before = await prune_attempts(sql, 7 * DAY_S)
    await sql.execute("""
        create or replace function asyncq.clock() returns timestamptz language sql volatile parallel safe
          as $$ select pg_catalog.clock_timestamp() + interval '8 days' $$""")

    assert (0, 1) == (before, await prune_attempts(sql, 7 * DAY_S))


async def test_a_locked_attempt_is_skipped(dsn: str, own: Session) -> None:
    """Two workers prune at the same time, and each row is removed by one of them."""
    await own.execute(FAILED_ATTEMPTS.format(at="now() - interval '2 days'", first=1, last=2))
    async with session(dsn, own.schema) as other, other.connection.transaction():
        await other.rows("select from asyncq._attempts where job_id = 1 for update")
        removed = await prune_attempts(own)

    assert (1, [1], 1) == (removed, await attempts(own), await prune_attempts(own))


@pytest.mark.parametrize("analysed", [False, True])
async def test_nothing_to_prune_costs_nothing(own: Session, analysed: bool) -> None:
    """Every worker asks once a minute: no table is scanned for it, however many waiting jobs there are."""
    await own.execute("""
        select asyncq._task_ids('{t}');
        insert into asyncq._jobs (run_at, created_at, updated_at, task_id, payload)
          select now(), now(), now() - interval '1 year', 1, '{}' from generate_series(1, 20000)""")
    await own.execute(KEEP_ENDED.format(until=COMING, first=20001, last=40000))
    await own.execute(KEEP_REQUESTS.format(until=COMING, first=1, last=20000))
    await own.execute(FAILED_ATTEMPTS.format(at="now()", first=1, last=20000))
    if analysed:
        tables = ("_jobs", "_ended_jobs", "_requests", "_attempts")
        await own.execute(";".join(f"analyze asyncq.{name}" for name in tables))
    await prune(own)
    answer = await own.value("explain (analyze, buffers, format json) select * from asyncq._prune(86400, 86400, 500)")
    (plan,) = json.loads(answer)

    assert plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"] <= 40
