"""Helpers for unique policies: adds under one, jobs that have the key in each state, the remaining rows."""

import json
from collections.abc import Sequence
from typing import Any

from tests.support.keyed import Done
from tests.support.session import Session

STRATEGIES = ("reject", "ignore", "replace", "replace_except_schedule")
ALL_STATES = ("scheduled", "available", "active", "retryable", "pending", "completed", "cancelled", "discarded")
DEFAULT_STATES = ("available", "active", "scheduled", "retryable", "pending")
WINDOW_S = 86400

ADD = """
select done.ord, done.outcome, done.id, done.existing_id, done.existing_state
from asyncq._add_jobs(array(
  select asyncq._new_job(
    spec ->> 'task', spec -> 'payload', spec ->> 'queue', (spec ->> 'run_at')::timestamptz,
    asyncq._extra(
      (spec ->> 'options')::jsonb, spec ->> 'task', spec ->> 'queue', spec -> 'payload', spec ->> 'job_key'),
    job_key => spec ->> 'job_key', job_key_mode => spec ->> 'mode')
  from json_array_elements($1::text::json) with ordinality as given(spec, ord)
  order by given.ord)) as done
order by done.ord
"""

# The columns that put a job into this state, in _jobs or in _ended_jobs.
LIVE = {
    "scheduled": "run_at = now() + interval '1 h'",
    "available": "run_at = now() - interval '1 h'",
    "retryable": "attempts = 2, last_error = 'e', run_at = now() + interval '2 h'",
    "active": "attempts = 2, locked_by = 9, locked_at = now(), lock_token = 9",
    "discarded": "attempts = max_attempts, last_error = 'e'",
    "cancelled, running": "locked_by = 9, locked_at = now(), lock_token = 9, cancelled_at = now()",
}
ENDED = ("completed", "cancelled", "discarded, removed")
HELD = (*LIVE, *ENDED)

END = """
with gone as (delete from asyncq._jobs where id = $1 returning id, created_at, task_id, unique_key)
insert into asyncq._ended_jobs (id, created_at, ended_at, keep_until, task_id, state, unique_key)
select id, created_at, now(), 'infinity', task_id, $2, unique_key from gone
"""
ROWS = """
select id, state, has_key, run_at from (
  select id, asyncq._state(job) as state, unique_key is not null as has_key, run_at from asyncq._jobs as job
  union all
  select id, state || ', ended', unique_key is not null, null from asyncq._ended_jobs) as row order by id
"""


def word(state: str) -> str:
    """The state of the Open Job Spec that a holder is in."""
    return state.partition(",")[0]


def spec(policy: dict[str, Any] | None = None, /, *, task: str = "t", **given: Any) -> dict[str, Any]:
    """A job to be added: arguments of add_job, and members of its options."""
    columns = ("payload", "queue", "run_at", "job_key", "mode")
    options = {name: value for name, value in given.items() if name not in columns}
    if policy is not None:
        options["unique"] = policy
    chosen = {name: value for name, value in given.items() if name in columns}
    return {"task": task, "mode": "replace", "options": options or None} | chosen


async def ask_all(sql: Session, specs: Sequence[dict[str, Any]]) -> list[Done]:
    """Add jobs in one call."""
    return [Done(*tuple(row)[1:]) for row in await sql.rows(ADD, json.dumps(list(specs)))]


async def ask(sql: Session, policy: dict[str, Any] | None = None, /, **given: Any) -> Done:
    """Add one job."""
    (done,) = await ask_all(sql, [spec(policy, **given)])
    return done


async def hold(sql: Session, state: str, age: str = "1 day", **given: Any) -> int:
    """Store a job in a state, with the key of the default policy or of the given one. Returns its id."""
    done = await ask(sql, given.pop("policy", {}), force=True, **given)
    changes = LIVE.get(state, "run_at = run_at")
    await sql.rows(
        f"update asyncq._jobs set created_at = now() - $2::text::interval, {changes} where id = $1", done.id, age
    )
    if state in ENDED:
        await sql.rows(END, done.id, word(state))
    return done.id


async def left(sql: Session) -> dict[int, tuple[str, bool]]:
    """All jobs: id -> the state, and whether they have a key."""
    return {row["id"]: (row["state"], row["has_key"]) for row in await sql.rows(ROWS)}
