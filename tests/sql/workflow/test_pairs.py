"""Jobs that wait for others, each with another feature: keys, policies, queues, limits, pauses, batches, times."""

import json
from typing import Any

import pytest

from tests.sql.control.test_move_jobs import LIMIT, LIMITED, move
from tests.support.cron_items import add_item
from tests.support.jobs import add, complete, fetch, fetched, settle_rest
from tests.support.session import Session
from tests.support.waits import left, look, state, states, wait_for

ADD_KEYED = "select id from asyncq.add_job('t', $1::text::json, job_key => 'k', job_key_mode => $2)"
ADD = "select id from asyncq.add_job($1, queue_name => $2, run_at => $3::text::timestamptz, options => $4::text::jsonb)"
COMPLETE = "select from asyncq.complete_jobs($1::bigint[])"
RUN_ITEM = "select ran.* from asyncq.run_cron_item('a') as ran"
WAKEUPS = "select count(*) from asyncq._wakeups where at > asyncq.clock() + interval '1 day'"


async def add_as(
    sql: Session, *, task: str = "t", queue: str | None = None, run_at: str | None = None, **options: Any
) -> int:
    """Add a job with options. Returns its id."""
    return await sql.value(ADD, task, queue, run_at, json.dumps(options))


@pytest.mark.parametrize("mode", ["replace", "preserve_run_at", "unsafe_dedupe"])
async def test_an_awaited_job_that_a_keyed_add_changes_is_waited_for(claiming: Session, mode: str) -> None:
    """It is the same job, with another payload: its mark stays, so its end is left to settle_rest."""
    job = await claiming.value(ADD_KEYED, '{"n": 1}', "replace")
    waiter = await wait_for(claiming, job)
    same = await claiming.value(ADD_KEYED, '{"n": 2}', mode)
    claims = await fetch(claiming, tasks=["t"])
    written = await complete(claiming, claims)
    await settle_rest(claiming, claims, done=True)

    assert (job, []) == (same, written)
    assert [("released", waiter, None)] == await look(claiming)


async def test_a_running_job_whose_key_goes_to_a_new_one_is_waited_for(claiming: Session) -> None:
    """The new job is another one."""
    job = await claiming.value(ADD_KEYED, "{}", "replace")
    waiter = await wait_for(claiming, job)
    claims = await fetch(claiming, tasks=["t"])
    await claiming.value(ADD_KEYED, "{}", "replace")
    await settle_rest(claiming, claims, done=True)

    assert [("released", waiter, None)] == await look(claiming)


async def test_a_job_that_runs_again_by_a_rerun_is_waited_for_until_its_last_end(claiming: Session) -> None:
    """The end of its first run is no end."""
    job = await add_as(claiming, singleton=True, rerun=True)
    waiter = await wait_for(claiming, job)
    claims = await fetch(claiming, tasks=["t"])
    await add_as(claiming, singleton=True, rerun=True)
    await settle_rest(claiming, claims, done=True)
    between = await look(claiming), await state(claiming, waiter)
    await settle_rest(claiming, await fetch(claiming, tasks=["t"]), done=True)

    assert ([], "pending") == between
    assert [("released", waiter, None)] == await look(claiming)


async def test_a_failed_attempt_is_no_end(claiming: Session) -> None:
    """The job waits for its retry, and its waiter for it."""
    job = await add(claiming)
    waiter = await wait_for(claiming, job, if_failed="cancel")
    await settle_rest(claiming, await fetch(claiming), kind="failed", error="e", attempts=1)

    assert ([], ["available", "pending"]) == (await look(claiming), await states(claiming, [job, waiter]))


async def test_a_replacement_except_its_schedule_keeps_the_real_time_of_a_pending_job(sql: Session) -> None:
    """Its run_at is of the year 9999, which nobody asked for."""
    job = await add(sql)
    unique = {"on_conflict": "replace_except_schedule"}
    at = "2999-01-01 00:00:00+00"
    first = await add_as(sql, task="w", run_at=at, unique=unique, after=[job])
    second = await add_as(sql, task="w", unique=unique, after=[job])
    row = await sql.row("select due_at = $2::text::timestamptz, run_at from asyncq._jobs where id = $1", second, at)

    assert (None, True, 9999) == (await state(sql, first), row[0], row[1].year)

    third = await add_as(sql, task="w", unique=unique)
    assert await sql.value("select run_at = $2::text::timestamptz from asyncq._jobs where id = $1", third, at)


async def test_a_pending_job_keeps_no_other_job_of_its_queue_back(claiming: Session) -> None:
    """Not in a fetch, and not as the next one after an end."""
    job = await add(claiming, task="other")
    waiter = await add_as(claiming, queue="q", after=[job])
    behind = [await add(claiming, queue="q") for _ in range(2)]
    claims = await fetch(claiming, tasks=["t"])
    await complete(claiming, claims)
    claims += await fetch(claiming, tasks=["t"])
    await complete(claiming, claims[1:])

    assert (behind, []) == ([claim["id"] for claim in claims], await fetch(claiming, tasks=["t"]))
    await claiming.rows(COMPLETE, [job])
    await look(claiming)
    assert [waiter] == await fetched(claiming, tasks=["t"])


@pytest.mark.parametrize("named", ["queue => 'q'", "task => 't'", ""])
async def test_a_pause_that_ends_leaves_no_wakeup_of_a_pending_job(own: Session, named: str) -> None:
    """It would stay until the year 9999. The release inserts its own."""
    job = await add(own, task="other")
    waiter = await add_as(own, queue="q", after=[job])
    await own.rows(f"select from asyncq.pause({named})")
    await own.rows(f"select from asyncq.resume({named})")
    wakeups = await own.value(WAKEUPS)
    await own.rows(COMPLETE, [job])
    await look(own)

    assert (0, [waiter]) == (wakeups, await fetched(own, tasks=["t"]))
    await own.rows("select from asyncq._rescue_jobs(true)")


async def test_a_job_that_is_moved_while_it_is_pending_starts_in_its_new_partition(claiming: Session) -> None:
    """Its task has got a limit meanwhile. Before its release it has no wakeup there."""
    job = await add(claiming, task="other")
    waiter = await wait_for(claiming, job, task="t")
    await claiming.execute(LIMIT)
    await claiming.execute(LIMITED)
    moved = await move(claiming)
    wakeups = await claiming.value("select count(*) from asyncq._wakeups")
    await claiming.rows(COMPLETE, [job])
    await look(claiming)

    assert (1, 0, [waiter]) == (moved, wakeups, await fetched(claiming, tasks=["t"]))


async def test_a_pending_job_that_expires_ends_as_cancelled(sql: Session) -> None:
    """No fetch comes to it."""
    job = await add(sql)
    waiter = await wait_for(sql, job, expires_s=60)
    next_one = await wait_for(sql, waiter, if_failed="run")
    await sql.rows("update asyncq._jobs set expires_at = now() where id = $1", waiter)
    await sql.rows("select from asyncq._expire_jobs(10)")
    await look(sql)

    assert ([None, "available"], (0, 0)) == (await states(sql, [waiter, next_one]), await left(sql))


async def test_a_pending_job_counts_as_a_waiting_one(own: Session) -> None:
    """In the depths of tasks, as one that waits for its time."""
    await wait_for(own, await add(own))
    rows = await own.rows("select task, due::int, waiting::int from asyncq.depths_by() where task is not null")

    assert [("t", 1, 0), ("w", 0, 1)] == [tuple(row) for row in rows]


async def test_a_job_that_is_named_in_its_own_call_is_unknown(sql: Session) -> None:
    """Its id can only be guessed. So no two jobs wait for each other."""
    newest = await add(sql)
    specs = ", ".join(
        f"('w', '{{}}', null, null, null, null, null, null, null, '{{\"after\": [{newest + other}]}}')::asyncq.job_spec"
        for other in (2, 1)
    )
    error = await sql.refusal(f"select asyncq.add_jobs(array[{specs}])")

    assert "GWBAF" == error.sqlstate


async def test_a_released_job_that_fails_waits_for_its_retry_alone(claiming: Session) -> None:
    """It is like any other job then."""
    job = await add(claiming, task="other")
    waiter = await wait_for(claiming, job, task="t")
    await claiming.rows(COMPLETE, [job])
    await look(claiming)
    await settle_rest(
        claiming, await fetch(claiming, tasks=["t"]), kind="failed", error="e", attempts=1, delay_s=3600.0
    )
    retryable = await state(claiming, waiter)
    await claiming.rows("select from asyncq.retry_jobs(array[$1::bigint])", waiter)

    assert ("retryable", [waiter]) == (retryable, await fetched(claiming, tasks=["t"]))


async def test_a_job_of_a_recurring_item_is_waited_for_and_its_replacement_cancels_the_waiter(sql: Session) -> None:
    """The job that the waiter named has not completed."""
    await add_item(sql, "a", overlap="replace")
    job = (await sql.row(RUN_ITEM))["id"]
    waiter = await wait_for(sql, job)
    anyhow = await wait_for(sql, job, if_failed="run")
    other = (await sql.row(RUN_ITEM))["id"]
    await look(sql)

    assert [None, "available", None, "available"] == await states(sql, [job, other, waiter, anyhow])
