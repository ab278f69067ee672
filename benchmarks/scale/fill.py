"""Fills tables by SQL alone, so that ten million jobs are there in a minute or two."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from benchmarks.scale.place import Database

Kind = Literal["ready", "future", "strangers"]
KINDS: tuple[Kind, ...] = ("ready", "future", "strangers")
DELAYS = {"ready": timedelta(), "future": timedelta(days=2), "strangers": timedelta(hours=-1)}
OURS, STRANGER = "noop", "stranger"
AT_ONCE = 500_000

ADD_TASK = """
    insert into asyncq._tasks (identifier) values ($1)
    on conflict (identifier) do update set identifier = excluded.identifier
    returning id"""
# As an add of many jobs stores them: one moment for all, so that their ids decide who is first.
ADD_JOBS = """
    with added as (
      insert into asyncq._jobs (run_at, created_at, updated_at, task_id, queue, partition, payload)
      select now() + $4::interval, now(), now(), $1, 'queue ' || number % $5,
        asyncq._partition(1::smallint, 'queue ' || number % $5), json_build_object('id', number)
      from generate_series($2::bigint, $3::bigint - 1) as number
      returning id, run_at, partition, task_id, priority)
    insert into asyncq._wakeups (at, partition, job_id, task_id, priority)
    select min(run_at), partition, min(id), task_id, priority from added
    where partition is not null group by partition, task_id, priority"""


async def task_id(database: Database, name: str) -> int:
    """The number of a task."""
    return await database.connection.fetchval(ADD_TASK, name)


async def fill(database: Database, first: int, end: int, kind: Kind = "ready", queues: int | None = None) -> None:
    """Add waiting jobs.

    Args:
        database: The database.
        first: The id in the payload of the first job.
        end: The id after the last one.
        kind: Ready ones, such of the day after tomorrow, or ready ones of a task that no worker knows, ahead of all.
        queues: In how many serial queues; in none by default.
    """
    task = await task_id(database, STRANGER if kind == "strangers" else OURS)
    for begin in range(first, end, AT_ONCE):
        await database.connection.execute(ADD_JOBS, task, begin, min(begin + AT_ONCE, end), DELAYS[kind], queues)
