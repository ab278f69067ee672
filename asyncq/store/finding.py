"""Finds jobs by a filter, changes many, and reads the numbers of now."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from asyncq.domain.envelope import PREFIX
from asyncq.domain.finding import (
    MOST_COUNTED,
    ChangeAction,
    ChangedJobs,
    Depth,
    Depths,
    FailedJob,
    FailureGroup,
    JobPage,
    Matching,
    RunningJob,
    TaskStats,
)
from asyncq.store.admin import read_jobs
from asyncq.store.database import Connection, Database
from asyncq.store.schema import Schema


async def find_jobs(
    database: Schema, connection: Connection, which: str, start: int | None, newest: bool, limit: int, look: int
) -> JobPage:
    """Read a page of the jobs that match a filter, which is given as text."""
    *rows, last = await database.fetch(connection, "find_jobs", which, start, newest, limit, look)
    return JobPage(read_jobs(database, rows), last["next_id"])


async def count_matching(database: Schema, connection: Connection, which: str) -> Matching:
    """Count the jobs that match a filter, up to a maximum."""
    states = dict[str, int]()
    up_to = after = None
    while (left := MOST_COUNTED - sum(states.values())) > 0:
        ((up_to, counted, after),) = await database.fetch(connection, "count_matching", which, up_to, after, left)
        for state, jobs in msgspec.json.decode(counted).items():
            states[state] = states.get(state, 0) + jobs
        if after is None:
            break
    return Matching(sum(states.values()), states, up_to or 0)


async def change_matching(
    database: Schema,
    connection: Connection,
    which: str,
    action: ChangeAction,
    up_to: int,
    start: int | None,
    limit: int,
    options: Mapping[str, Any],
) -> ChangedJobs:
    """Change the next jobs that match a filter."""
    said = msgspec.json.encode(options).decode()
    ((changed, after),) = await database.fetch(connection, "change_matching", which, action, up_to, limit, start, said)
    return ChangedJobs(list(changed), after)


async def failures(database: Database, connection: Connection, most: int) -> list[FailureGroup]:
    """Group the newest discarded jobs."""
    return [FailureGroup(**_readable(row)) for row in await database.fetch(connection, "failures", most)]


async def failed_jobs(
    database: Database, connection: Connection, before: FailedJob | None, limit: int
) -> list[FailedJob]:
    """Read a page of discarded jobs, the newest first."""
    place = (None, None) if before is None else (before.failed_at, before.id)
    return [FailedJob(**_readable(row)) for row in await database.fetch(connection, "failed_jobs", *place, limit)]


async def backlog(database: Database, connection: Connection, tasks: Sequence[str] | None, most: int) -> int:
    """Count due and running jobs, up to a maximum."""
    ((jobs,),) = await database.fetch(connection, "backlog", tasks, most)
    return jobs


async def oldest_due(database: Database, connection: Connection) -> float | None:
    """Read how many seconds the oldest due job has waited."""
    ((seconds,),) = await database.fetch(connection, "oldest_due")
    return seconds


async def depths_by(database: Database, connection: Connection, queues: int) -> list[Depth]:
    """Count jobs by task, and by the fullest queues."""
    return [Depth(**dict(row)) for row in await database.fetch(connection, "depths_by", queues)]


async def running(database: Database, connection: Connection, most: int) -> list[RunningJob]:
    """Read the claimed jobs."""
    return [RunningJob(**dict(row)) for row in await database.fetch(connection, "running", most)]


async def stats(
    database: Database, connection: Connection, since: datetime | None, step_s: float, task: str | None
) -> list[TaskStats]:
    """Read how runs ended over time."""
    found = list[TaskStats]()
    for row in await database.fetch(connection, "stats", since, step_s, task):
        columns: dict[str, Any] = dict(row)
        columns["took"], columns["waited"] = tuple(columns["took"]), tuple(columns["waited"])
        found.append(TaskStats(**columns))
    return found


async def depths(database: Database, connection: Connection, since: datetime | None, step_s: float) -> list[Depths]:
    """Read how many jobs there were over time."""
    return [Depths(**dict(row)) for row in await database.fetch(connection, "depths", since, step_s)]


def _readable(row: Any) -> dict[str, Any]:
    """The columns of a row; an error that a codec has encoded cannot be read from a part of it."""
    columns = dict(row)
    if (columns["first_line"] or "").startswith(PREFIX):
        columns["first_line"] = "(encoded)"
    return columns
