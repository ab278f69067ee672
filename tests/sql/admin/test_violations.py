"""`violations`: each law has a case that breaks it, and nothing else is reported; a busy store breaks none."""

import copy
import re
from typing import Any

import pytest

from tests.sql.control.test_declare_limits import declare
from tests.support.jobs import add, add_many, change, complete, fetch
from tests.support.locks import UP_FOR_LONG
from tests.support.session import Session

WORKER = "insert into asyncq._workers (lease, pid, concurrency, host, tasks) values ('30 s', 1, 1, 'h', '{t}')"
LIVE = f"{WORKER} returning id"
SINCE_LONG = "update asyncq._workers set started_at = now() - interval '91 s'"
OLD = "update asyncq._workers set last_seen = now() - interval '91 s' where id = (select min(id) from asyncq._workers)"
TAKE = """
update asyncq._jobs set locked_by = (select min(id) from asyncq._workers), locked_at = now(), lock_token = 1"""
COUNT = "insert into asyncq._partitions (id, running) values (asyncq._partition(1::smallint, 'q'), {})"
END = """
insert into asyncq._ended_jobs (id, created_at, ended_at, keep_until, task_id, state)
select id, now(), now(), now(), task_id, 'completed' from asyncq._jobs"""
PACK = """
insert into asyncq._batches
  (lock_token, locked_at, locked_by, unsettled, ids, run_at, created_at, task_id, priority, max_attempts, payload)
select 1, now(), (select id from asyncq._workers), '1', array[id], array[run_at], array[created_at], array[task_id],
  array[priority], array[max_attempts], array[payload]
from asyncq._jobs"""
INVALID = "update pg_catalog.pg_index set indisvalid = false where indexrelid = 'asyncq.{}'::regclass"

# A law -> what breaks it, in a store with a job of the queue `q` and a worker that runs nothing.
BROKEN = {
    "orphan_claim": [
        "update asyncq._jobs set queue = null, partition = null, locked_by = 99, locked_at = now(), lock_token = 1"
    ],
    "dead_claim": [UP_FOR_LONG, WORKER, SINCE_LONG, OLD, TAKE, COUNT.format(1)],
    "broken_series": [
        "drop index asyncq.jobs_one_running_per_queue",
        "select asyncq.add_job('t', queue_name => 'q')",
        TAKE,
        COUNT.format(2),
        "update asyncq._limits set at_once = null where id = 1",
    ],
    "shared_key": [
        "drop index asyncq.jobs_key",
        "select asyncq.add_job('t')",
        "update asyncq._jobs set key = 'k'",
    ],
    "wrong_count": [TAKE],
    "stranded_partition": ["update asyncq._jobs set run_at = now() - interval '2 s'", "delete from asyncq._wakeups"],
    "unmoved_job": [
        "select asyncq.add_job('t') from generate_series(1, 1000)",
        "select asyncq.add_job('l', priority => 1)",
        "update asyncq._tasks set limit_id = 2 where identifier = 'l'",
    ],
    "over_limit": [
        "select asyncq.add_job('t', queue_name => 'q')",
        f"{TAKE}, shared = true",
        "insert into asyncq._partitions (id, running) select partition, count(*) from asyncq._jobs group by 1",
    ],
    "nameless_task": ["delete from asyncq._tasks"],
    "ended_twice": [END],
    "batched_twice": [PACK],
    "id_not_given": ["alter sequence asyncq._jobs_id_seq restart", "update asyncq._jobs set id = id + 1"],
    "invalid_index": [INVALID.format("jobs_key")],
    "stale_key_locks": ["insert into asyncq._key_locks (key, used_at) values (1, now() - interval '49 h')"],
    "cron_ahead": ["insert into asyncq.known_crontabs values ('i', now(), now() + interval '1 h')"],
}


async def laws(sql: Session) -> set[str]:
    """Which laws are broken."""
    return set(await sql.values("select law from asyncq.violations()"))


@pytest.mark.parametrize("law", BROKEN)
async def test_a_broken_law_is_reported_and_no_other(sql: Session, law: str) -> None:
    """One that reports nothing would be an oracle that always agrees."""
    await sql.value(LIVE)
    await add(sql, queue="q")
    before = await laws(sql)
    for statement in BROKEN[law]:
        await sql.execute(statement)

    assert (set(), {law}) == (before, await laws(sql))


async def test_every_law_is_planted_against(sql: Session) -> None:
    """A new law needs a case."""
    text = await sql.value("select prosrc from pg_catalog.pg_proc where oid = 'asyncq.violations()'::regprocedure")
    named = {part.partition("'")[0] for part in text.split("select '")[1:]}

    assert set(BROKEN) == named


async def test_a_violation_names_the_job_and_the_fault(sql: Session) -> None:
    """Operators read it in an emergency."""
    job = await add(sql)
    await sql.execute("update asyncq._jobs set locked_by = 99, locked_at = '2026-11-20 12:00:00+00', lock_token = 1")
    await sql.execute("set local timezone = 'UTC'")
    row = await sql.row("select law, job_id, said from asyncq.violations()")

    said = "was claimed at 2026-11-20 12:00:00+00 by worker 99, which is not known any more"
    assert ("orphan_claim", job, said) == tuple(row)


async def test_a_store_at_work_breaks_no_law(sql: Session) -> None:
    """Waiting, running, retrying, failed and cancelled jobs, keys and queues."""
    worker = await sql.value(LIVE)
    await add_many(sql, 5, queue="'q' || i")
    await add_many(sql, 5)
    await add(sql, max_attempts=1)
    await sql.execute("select asyncq.add_job('t', job_key => 'k')")
    first, second, third, *_ = await fetch(sql, 9, worker=worker)
    await complete(sql, [first], worker)
    await change(sql, [second], worker=worker, attempts=1, delay_s=5.0)
    await sql.rows("select asyncq.cancel_jobs(array[$1::bigint])", third["id"])

    assert set() == await laws(sql)


async def test_a_dead_worker_is_given_time_to_be_rescued(sql: Session) -> None:
    """After its lease other workers rescue it within a third of theirs."""
    await sql.value(LIVE)
    await add(sql)
    await sql.execute(WORKER)
    await sql.execute(OLD.replace("91", "89"))
    await sql.execute(TAKE)

    assert set() == await laws(sql)


async def test_a_sequence_that_is_behind_is_reported_while_no_job_waits(sql: Session) -> None:
    """In a queue that was restored empty, ended jobs have the last ids."""
    await add(sql)
    await sql.execute(f"{END}; delete from asyncq._jobs; alter sequence asyncq._jobs_id_seq restart")

    assert {"id_not_given"} == await laws(sql)


async def test_the_id_of_a_failed_attempt_counts_as_given_too(sql: Session) -> None:
    """A new job with this id would have the errors of another one."""
    await sql.value(LIVE)
    await add(sql)
    await sql.execute("""
        insert into asyncq._attempts (job_id, lock_token, started_at, ended_at, worker_id, number, kind, error)
        select id + 1, 1, now(), now(), 1, 1, 'failed', 'e' from asyncq._jobs""")

    assert {"id_not_given"} == await laws(sql)


LONG_AGO = """
update asyncq._limits set changed_at = changed_at - interval '1 h', declared_at = declared_at - interval '1 h'"""
JOIN = """
select asyncq._declare_limits('{"limits": [], "tasks": [{"identifier": "t", "limit": "other"}], "queues": []}', 'w')"""
MOVE = "select asyncq._place_jobs(array(select id from asyncq._jobs))"
# The gates have been settled: no statement runs that does not know them.
SETTLED = "update asyncq._partitions set recount_since = null"
# How a limit that three jobs use is lowered: the declarations and statements before these jobs are claimed, and after.
LOWERED: dict[str, tuple[list[dict[str, Any] | str], dict[str, Any] | str]] = {
    "a limit is unset": (
        [{"t": {"at_once": 1, "by": ["k"]}}, "select asyncq.set_limit('t', at_once => 3)"],
        "select asyncq.unset_limit('t')",
    ),
    "a total is unset": (
        [{"t": {"total": 1}}, "select asyncq.set_limit('t', total => 3)"],
        "select asyncq.unset_limit('t')",
    ),
    "a key is unset": (
        [{"t": {"at_once": 1, "by": ["k"]}}, "select asyncq.set_partition('t', '1', at_once => 3)"],
        "select asyncq.unset_limit('t', '1')",
    ),
    "a queue is unset": (
        [{"t": {}, "queues": {"q": 1}}, "select asyncq.set_limit('q', at_once => 3)"],
        "select asyncq.unset_limit('q')",
    ),
    "a queue is declared": ([{"t": {}, "queues": {"q": 3}}], {"queues": {"q": 1}}),
    "a task gets the limit of another one": ([{"t": {}, "other": {"at_once": 1}}], JOIN),
    "a task gets the total of another one": ([{"t": {}, "other": {"total": 1}}], JOIN),
}


async def act(sql: Session, step: dict[str, Any] | str) -> None:
    """Declare limits as a worker does, or run a statement."""
    if isinstance(step, str):
        await sql.rows(step)
    else:
        await declare(sql, **copy.deepcopy(step))


@pytest.mark.parametrize(("before", "lower"), LOWERED.values(), ids=LOWERED)
async def test_claims_that_were_made_before_a_limit_was_lowered_break_no_law(
    sql: Session, before: list[dict[str, Any] | str], lower: dict[str, Any] | str
) -> None:
    """It is exceeded until they end, whatever has lowered it. A claim that is made long after is a fault."""
    await sql.value(LIVE)
    for step in before:
        await act(sql, step)
    in_queue = "queue" in next(name for name, case in LOWERED.items() if case[0] is before)
    for _ in range(3):
        await add(sql, payload='{"k": 1}', queue="q" if in_queue else None)
    assert 3 == len(await fetch(sql, 3))
    await sql.execute(LONG_AGO)
    await act(sql, lower)
    if lower == JOIN:
        await sql.rows(MOVE)
    await sql.execute(SETTLED)
    then = await laws(sql)
    await sql.execute("update asyncq._jobs set locked_at = asyncq.now() + interval '2 min'")
    assert (False, True) == ("over_limit" in then, "over_limit" in await laws(sql))


async def test_without_any_live_worker_nobody_can_rescue(sql: Session) -> None:
    """All workers are down: that breaks no law, and the next one that starts returns the claims."""
    await sql.execute(WORKER)
    await add(sql)
    await sql.execute(OLD)
    await sql.execute(TAKE)

    assert set() == await laws(sql)


async def test_a_worker_that_has_just_started_has_not_rescued_yet(sql: Session) -> None:
    """All workers were down for long."""
    await add(sql, queue="q")
    for statement in (UP_FOR_LONG, WORKER, SINCE_LONG, OLD, TAKE, COUNT.format(1), LIVE):
        await sql.execute(statement)

    assert set() == await laws(sql)


async def test_a_claim_of_a_worker_that_the_server_has_just_declared_dead_is_not_late(sql: Session) -> None:
    """There is no rescue in the return window, and one needs a moment after it."""
    await sql.value(LIVE)
    await add(sql, queue="q")
    await sql.execute("update asyncq._server_runs set since = clock_timestamp() - interval '11 seconds'")
    for statement in (WORKER, SINCE_LONG, OLD, TAKE, COUNT.format(1)):
        await sql.execute(statement)

    assert set() == await laws(sql)


@pytest.mark.parametrize("law", ["orphan_claim", "dead_claim", "ended_twice", "cron_ahead"])
async def test_no_setting_of_the_session_changes_the_texts(sql: Session, law: str) -> None:
    """The texts contain times, and are copied into tickets."""
    await sql.value(LIVE)
    await add(sql, queue="q")
    for statement in BROKEN[law]:
        await sql.execute(statement)
    said: list[list[str]] = []
    for settings in ("set timezone = 'UTC'", "set timezone = 'Asia/Kathmandu'; set datestyle = 'SQL, DMY'"):
        await sql.execute(settings)
        said.append(await sql.values("select said from asyncq.violations() where law = $1", law))

    assert said[0] == said[1]
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.\d]*\+00", said[1][0])
