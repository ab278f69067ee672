"""Helpers for job keys: a holder of the key in each state, adds of it, the rows as they are stored."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.support.session import Session

KEY = "k"
MODES = ("replace", "preserve_run_at", "unsafe_dedupe")
WRITING = ("replace", "preserve_run_at")

ADD = """
select ord, outcome, id, existing_id, existing_state
from asyncq._add_jobs(array(
  select asyncq._new_job(
    task, payload::json, queue, run_at::timestamptz,
    jsonb_strip_nulls(coalesce(extra::jsonb, '{}') || jsonb_build_object('meta', meta::jsonb)),
    max_attempts, key, priority, flags::jsonb, mode)
  from unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::int[], $6::text[], $7::int[], $8::text[], $9::text[],
    $10::text[], $11::text[])
    with ordinality as spec(task, payload, queue, run_at, max_attempts, key, priority, flags, mode, meta, extra, ord)
  order by spec.ord))
order by ord
"""
ROWS = """
select job.id, task.identifier as task, job.queue, job.payload::text, job.run_at, job.max_attempts,
  job.priority, job.flags::text, job.meta::text, job.key, job.attempts, job.interruptions, job.last_error, job.revision,
  job.created_at,
  job.updated_at, job.locked_by, job.locked_at, job.lock_token
from asyncq._jobs as job
join asyncq._tasks as task on task.id = job.task_id
order by job.id
"""

# The columns of an add without options.
DEFAULTS = {
    "task": "t",
    "queue": None,
    "payload": "{}",
    "max_attempts": 25,
    "priority": 0,
    "flags": None,
    "meta": None,
    "key": KEY,
    "attempts": 0,
    "interruptions": 0,
    "last_error": None,
    "revision": 0,
    "locked_by": None,
    "locked_at": None,
    "lock_token": None,
}

# Which rows hold the key: the state of the job -> what makes it so.
STATES = {
    "scheduled": "attempts = 0",
    "available": "run_at = now() - interval '1 h'",
    "retryable": "attempts = 2, last_error = 'e', interruptions = 1",
    "active": "attempts = 2, last_error = 'e', locked_by = 9, locked_at = now(), lock_token = 9",
    "discarded": "attempts = 7, last_error = 'e'",
}
WAITING = ("scheduled", "available")
SPENT = ("active", "discarded")


class Spec(NamedTuple):
    """A job to be added: the arguments of `_new_job`."""

    task: str = "t"
    payload: str | None = None
    queue: str | None = None
    run_at: str | None = None
    max_attempts: int | None = None
    key: str | None = KEY
    priority: int | None = None
    flags: str | None = None
    mode: str | None = "replace"
    meta: str | None = None
    extra: str | None = None


class Done(NamedTuple):
    """The result of an add."""

    outcome: str
    id: int
    existing_id: int | None = None
    existing_state: str | None = None


async def add_all(sql: Session, specs: Sequence[Spec]) -> list[Done]:
    """Add jobs in one call."""
    columns = [list(column) for column in zip(*specs, strict=True)]
    return [Done(*tuple(row)[1:]) for row in await sql.rows(ADD, *columns)]


async def add_one(sql: Session, **given: Any) -> Done:
    """Add a job of task `t` with the key; options that are not given are left out."""
    (done,) = await add_all(sql, [Spec(**given)])
    return done


async def stored(sql: Session) -> dict[int, dict[str, Any]]:
    """All jobs: id -> the columns of its row, with names for the numbers."""
    return {row["id"]: dict(row) for row in await sql.rows(ROWS)}


async def hold(sql: Session, state: str, payload: str = '{"old": 1}', key: str = KEY) -> dict[str, Any]:
    """Store a job that has the key, in a state, with no field at its default. Returns its row."""
    job = await sql.value(
        """
        select id from asyncq.add_job('old', $2::text::json, 'old ' || $1, now() + interval '1 h', 7, $1, 3, '{old}',
          options := '{"meta": {"old": 1}}')""",
        key,
        payload,
    )
    await sql.rows(
        f"""
        update asyncq._jobs
        set created_at = now() - interval '1 day', updated_at = now() - interval '1 day', revision = 4, {STATES[state]}
        where id = $1""",
        job,
    )
    return (await stored(sql))[job]


async def names(sql: Session) -> list[str]:
    """The names of all tasks that are stored."""
    return await sql.values("select identifier from asyncq._tasks order by 1")
