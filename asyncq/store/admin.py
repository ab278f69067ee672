"""Reads jobs, and changes them by their ids, on any connection."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from asyncq.domain.administration import Counts, EndedJob, Explanation, Reason, Rights, WorkerInfo
from asyncq.domain.attempt import Attempt
from asyncq.domain.envelope import PREFIX
from asyncq.domain.errors import JobNotFound
from asyncq.domain.job import Job
from asyncq.domain.meta import read_meta
from asyncq.domain.states import JobState
from asyncq.domain.step import Step
from asyncq.store.database import Connection, Database
from asyncq.store.schema import Schema
from asyncq.store.sizes import check_size

Act = Literal["cancel", "complete", "discard", "reschedule", "retry"]

# At so many ended jobs one statement looks.
LOOKED_AT = 50_000

# Reads the output of `_document` in SQL.
_read_job = msgspec.json.Decoder(Job).decode
_read_steps = msgspec.json.Decoder(tuple[Step, ...]).decode
_read_errors = msgspec.json.Decoder(tuple[Attempt, ...]).decode
# These enclose the meta of a job. They cannot occur in a JSON text, which escapes quotes, nor in a jsonb, which has no
# space before a colon.
_META = ', "meta" : '
_BEHIND_META = ', "state" : '


async def administer(
    database: Schema,
    connection: Connection,
    act: Act,
    ids: Sequence[int],
    *,
    error: str | None = None,
    run_at: str | None = None,
    priority: int | None = None,
    attempts: int | None = None,
    max_attempts: int | None = None,
) -> list[Job]:
    """Change jobs, see the methods of `Admin`; returns cancelled and completed jobs as they were."""
    values = (error, run_at, priority, attempts, max_attempts)
    return await _jobs(database, connection, "administer_jobs", act, ids, *values)


async def remove_job(database: Schema, connection: Connection, key: str) -> Job | None:
    """Remove the job of a key; returns it, None if there is none."""
    return _only(await _jobs(database, connection, "remove_job", key))


async def force_unlock_workers(database: Database, connection: Connection, ids: Sequence[str]) -> list[Job]:
    """Release the claims of workers; returns the jobs."""
    return await _jobs(database, connection, "force_unlock_workers", ids)


async def list_workers(database: Database, connection: Connection) -> list[WorkerInfo]:
    """Read the workers, in the order of their ids."""
    return [_worker(dict(row)) for row in await database.fetch(connection, "list_workers")]


async def cleanup(
    database: Database, connection: Connection, tasks: Sequence[str], keep: Sequence[str] | None
) -> dict[str, int]:
    """Run the cleanup tasks; returns the number of rows that each removed."""
    rows = await database.fetch(connection, "cleanup", tasks, keep)
    return {row["task"]: row["removed"] for row in rows}


async def get_job(database: Schema, connection: Connection, job_id: int) -> Job | None:
    """Read the job of an id, with its failed attempts and steps; None if there is none."""
    for row in await database.fetch(connection, "get_job", job_id):
        job = msgspec.structs.replace(
            read_job(row["document"]), errors=_read_errors(row["errors"]), steps=_read_steps(row["steps"])
        )
        return job if database.envelopes is None else database.envelopes.opened(job)
    return None


async def errors(
    database: Database, connection: Connection, job_id: int, task: str | None = None
) -> tuple[Attempt, ...]:
    """Read the failed attempts of a job, the last thousand of more, in order.

    Encoded errors are decoded by the name of the task, which is read if it is not given.
    """
    ((said,),) = await database.fetch(connection, "errors", job_id)
    attempts = _read_errors(said)
    envelopes = database.envelopes
    if envelopes is None or not any(attempt.error.startswith(PREFIX) for attempt in attempts):
        return attempts
    if task is None:
        # An ended job that is not kept has no name any more.
        job = await get_job(database, connection, job_id)
        return attempts if job is None else job.errors
    return envelopes.opened_errors(task, attempts)


async def get_job_by_key(database: Database, connection: Connection, key: str) -> Job | None:
    """Read the job of a key; None if there is none."""
    return _only(await _jobs(database, connection, "get_job_by_key", key))


async def list_history(
    database: Database,
    connection: Connection,
    *,
    state: JobState | None,
    task: str | None,
    since: datetime | None,
    before: int | None,
    limit: int,
) -> list[EndedJob]:
    """Read a page of the history, the newest job first.

    A statement looks at some thousand ended jobs. The first one also finds the discarded jobs that may be on the page.
    """
    of, found, is_first = state and str(state), dict[int, EndedJob](), True
    while is_first or (before is not None and sum(job_id >= before for job_id in found) < limit):
        arguments = (of, task, since, before, limit, LOOKED_AT, is_first)
        rows = await database.fetch(connection, "list_history", *arguments)
        before, is_first = rows[0]["next"], False
        found |= {row["id"]: _ended_job(dict(row)) for row in rows if row["id"] is not None}
    ended = [found[job_id] for job_id in sorted(found, reverse=True)[:limit]]
    if (envelopes := database.envelopes) is None:
        return ended
    return [msgspec.structs.replace(job, error=envelopes.open_or_keep(job.task, job.error)) for job in ended]


async def change_history(
    database: Database, connection: Connection, act: Literal["remove", "redact"], ids: Sequence[int]
) -> list[int]:
    """Remove or redact ended jobs; returns the ids of those that are part of the history."""
    check_size("ids", (ids,))
    return [row["id"] for row in await database.fetch(connection, "change_history", act, ids)]


async def server_time(database: Database, connection: Connection) -> datetime:
    """Read the server's clock; this needs no privilege."""
    ((now,),) = await database.fetch(connection, "server_time")
    return now


async def counts(database: Database, connection: Connection, *, exact: bool) -> Counts:
    """Count jobs by their states."""
    rows = await database.fetch(connection, "counts", exact)
    estimated = tuple(sorted(JobState(row["state"]) for row in rows if not row["is_exact"]))
    paused = sum(row["paused"] for row in rows)
    return Counts(**{row["state"]: row["jobs"] for row in rows}, paused=paused, estimated=estimated)


async def rights(database: Database, connection: Connection) -> Rights:
    """Read what the role of the connection may do."""
    (row,) = await database.fetch(connection, "rights")
    return Rights(**row)


async def explain(database: Database, connection: Connection, job_id: int) -> Explanation:
    """Return the reasons why a job does not run; JobNotFound if there is no such job."""
    rows = await database.fetch(connection, "explain", job_id)
    if not rows:
        raise JobNotFound(job_id)
    reasons = tuple(Reason(row["reason"], row["detail"]) for row in rows)
    return Explanation(job_id, reasons[0].reason == "ready", reasons)


def _ended_job(row: dict[str, Any]) -> EndedJob:
    row["state"] = JobState(row["state"])
    del row["next"]
    return EndedJob(**row)


def _worker(row: dict[str, Any]) -> WorkerInfo:
    row["locks"] = bool(row["locks"])
    row["tasks"] = tuple(row["tasks"] or ())
    row["stuck"] = tuple(row["stuck"])
    row["queues"] = None if row["queues"] is None else tuple(row["queues"])
    row["exclude"] = tuple(row["exclude"])
    return WorkerInfo(**row)


async def _jobs(database: Schema, connection: Connection, query: str, *args: Any) -> list[Job]:
    check_size("ids", args)
    return read_jobs(database, await database.fetch(connection, query, *args))


def read_jobs(database: Schema, rows: Iterable[Any]) -> list[Job]:
    """Read the jobs of an answer, and decode what a codec has encoded."""
    jobs = [read_job(row["document"]) for row in rows]
    return jobs if database.envelopes is None else list(map(database.envelopes.opened, jobs))


def _only(jobs: list[Job]) -> Job | None:
    return jobs[0] if jobs else None


def read_job(document: str) -> Job:
    """Read the output of `_document` in SQL; a meta that cannot be read is no error, see `Job`."""
    try:
        return _read_job(document)
    except (msgspec.ValidationError, RecursionError):
        before, found, rest = document.partition(_META)
        meta, _, behind = rest.rpartition(_BEHIND_META)
        if not found:
            raise
        job = _read_job(f"{before}{_META}null{_BEHIND_META}{behind}")
        return msgspec.structs.replace(job, meta=read_meta(meta))
