"""Locks of jobs by callers that wait, beside a fetch that moves one of the jobs into a batch."""

import json
from functools import partial

import anyio
import pytest

from tests.support.jobs import add, fetch
from tests.support.session import Session, session
from tests.support.waiting import wait_until

AFTER = "select from asyncq.add_job('w', options => $1::text::jsonb)"
CANCEL = "select from asyncq.cancel_jobs($1::bigint[])"
LOCK = "select from asyncq._jobs where id = $1 for no key update"


async def act_on(by: Session, act: str, *jobs: int) -> None:
    """Add a job that waits for these, or cancel them."""
    await by.rows(CANCEL, jobs) if act == "cancel" else await by.rows(AFTER, json.dumps({"after": jobs}))


@pytest.mark.parametrize("second_act", ["after", "cancel"])
@pytest.mark.parametrize("first_act", ["after", "cancel"])
async def test_a_caller_that_has_locked_jobs_does_not_wait_for_a_batch(
    dsn: str, sql: Session, other: Session, first_act: str, second_act: str
) -> None:
    """The second caller has locked the batch, and waits for a job of the first one: a deadlock, if that waits for it.

    The first one has locked a job and waits for the next, while a fetch moves the last one into a batch.
    """
    first, held, moved = jobs = [await add(sql) for _ in range(3)]
    await sql.rows("update asyncq._tasks set keep_s = 3600")

    async def is_blocked(by: Session) -> bool:
        return await sql.value("select pg_blocking_pids($1) <> '{}'", by.connection.get_server_pid())

    async with (
        session(dsn, sql.schema) as holder,
        session(dsn, sql.schema) as third,
        anyio.create_task_group() as group,
    ):
        await holder.execute("begin")
        await holder.rows(LOCK, held)
        group.start_soon(act_on, other, first_act, first, held, moved)
        await wait_until(partial(is_blocked, other), description="the first caller to wait for the job that is held")
        claims = await fetch(sql, form="batched")
        group.start_soon(act_on, third, second_act, first, moved)
        await wait_until(partial(is_blocked, third), description="the second caller to wait for the first one")
        await holder.execute("commit")

    waiters = await sql.value("select count(*) from asyncq._jobs where due_at is not null")
    cancelled = await sql.values(
        "select id from asyncq._ended_jobs where state = 'cancelled' and id = any($1) union"
        " select id from asyncq._jobs where cancelled_at is not null order by 1",
        jobs,
    )

    assert [moved] == [claim["id"] for claim in claims]
    assert [first_act, second_act].count("after") == waiters
    assert (jobs if first_act == "cancel" else [first, moved] if second_act == "cancel" else []) == cancelled
