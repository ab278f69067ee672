"""What the tests do with jobs in SQL: add, claim, settle, look."""

from collections.abc import Sequence
from itertools import count
from typing import Any

import asyncpg

from asyncq.domain.moment import read_moment
from asyncq.store.arrays import array_numbers, array_text, sent_numbers
from tests.sql.session import Session

WORKER = 1
FORMS = {
    "fetch_jobs": ("fetch_jobs", 1000),
    "fetch_plain_jobs": ("fetch_plain_jobs", 1000),
    "packed": ("fetch_plain_jobs", 1),
    "all packed": ("fetch_jobs", 1),
}
"""The forms of a fetch: a statement, and from how many jobs on it claims a batch."""
_tokens = count(1001)


async def add(
    sql: Session,
    task: str = "t",
    *,
    queue: str | None = None,
    run_at: str = "asyncq.now()",
    priority: int = 0,
    flags: Sequence[str] | None = None,
    max_attempts: int = 25,
) -> int:
    """Add a job; `run_at` is an expression of SQL. Returns its id."""
    return await sql.value(
        f"select id from asyncq.add_job($1, '{{}}', $2, {run_at}, $3, null, $4, $5)",
        task,
        queue,
        max_attempts,
        priority,
        flags,
    )


async def add_many(sql: Session, count: int, *, queue: str = "null", run_at: str = "now()", **columns: str) -> None:
    """Add jobs of task `t` in one statement; everything is an expression of SQL over their number `i`."""
    await sql.execute(f"""
        select asyncq.add_jobs(array_agg(
          ('t', null, {queue}, {run_at}, null, null, {columns.get("priority", "0")}, null)::asyncq.job_spec order by i))
        from generate_series(1, {count}) as i""")


async def fetch(
    sql: Session,
    limit: int = 100,
    *,
    worker: int = WORKER,
    token: int | None = None,
    tasks: Sequence[str] | None = None,
    forbidden: Sequence[str] | None = None,
    after: tuple[Any, Any, Any] = (None, None, None),
    now: Any = None,
    since_s: float | None = None,
    form: str = "fetch_jobs",
    beside: bool = False,
) -> list[asyncpg.Record]:
    """Claim jobs, of all tasks by default. Returns the claims in order of running."""
    names = "" if tasks is None else "where identifier = any($1::text[])"
    ids = await sql.values(f"select id from asyncq._tasks {names}", *([] if tasks is None else [tasks]))
    statement, pack_from = FORMS[form]
    token = token or (next(_tokens) if pack_from == 1 else 1)  # a batch has one of its own
    further = [*([beside] if statement == "fetch_plain_jobs" else []), pack_from, array_text(ids)]
    rows = await sql.run(statement, worker, token, limit, array_text(ids), forbidden, *after, now, since_s, *further)
    if statement == "fetch_plain_jobs":
        rows = [{**row, "lock_token": token, "queue": None} for row in told(rows)]
    return sorted(rows, key=lambda row: (row["priority"], read_moment(row["run_at"]), row["id"]))


def told(rows: Sequence[asyncpg.Record]) -> list[dict[str, Any]]:
    """The jobs of which the rows of `fetch_plain_jobs` tell, those of a batch among them, each as a row of its own."""
    return [job for row in rows for job in ([dict(row)] if row["ids"] is None else _of_batch(row))]


def _of_batch(row: asyncpg.Record) -> list[dict[str, Any]]:
    moments = sent_numbers(row["due"], "q")
    return [
        {"id": id_, "task_id": task_id, "max_attempts": limit, "priority": priority, "payload": payload, "key": None}
        | {"run_at": due.to_bytes(8, "big", signed=True), "rest": None}
        for id_, task_id, limit, priority, due, payload in zip(
            sent_numbers(row["ids"], "q"),
            sent_numbers(row["task_ids"], "i"),
            sent_numbers(row["limits"], "h"),
            sent_numbers(row["priorities"], "h"),
            moments,
            row["payloads"].split("\x1e"),
            strict=True,
        )
    ]


async def fetched(sql: Session, limit: int = 100, **options: Any) -> list[int]:
    """Claim jobs. Returns their ids in order of running."""
    return [row["id"] for row in await fetch(sql, limit, **options)]


async def complete(sql: Session, claims: Sequence[asyncpg.Record], worker: int = WORKER) -> list[int]:
    """Settle claims as completed. Returns the ids that were written."""
    pairs = sorted((claim["id"], claim["lock_token"]) for claim in claims)
    (row,) = await sql.run("settle_completed", worker, *texts(pairs))
    return [id_ for id_, _ in pairs] if row["written"] is None else array_numbers(row["written"])


def texts(pairs: Sequence[tuple[int, int]]) -> tuple[str, str]:
    """The ids and the tokens of claims, as statements take them."""
    return array_text(id_ for id_, _ in pairs), array_text(token for _, token in pairs)


async def settle_and_take(
    sql: Session,
    claims: Sequence[asyncpg.Record],
    limit: int = 100,
    *,
    worker: int = WORKER,
    token: int = 2,
    tasks: Sequence[str] | None = None,
    forbidden: Sequence[str] | None = None,
) -> tuple[list[int], list[asyncpg.Record]]:
    """Settle claims as completed, and claim what follows. Returns the ids that were written, and the new claims."""
    pairs = sorted((claim["id"], claim["lock_token"]) for claim in claims)
    names = "" if tasks is None else "where identifier = any($1::text[])"
    known = await sql.values(f"select id from asyncq._tasks {names}", *([] if tasks is None else [tasks]))
    rows = await sql.run("settle_and_take", worker, *texts(pairs), limit, token, array_text(known), forbidden, None)
    return [row["settled"] for row in rows if row["settled"]], [row for row in rows if not row["settled"]]


async def change(
    sql: Session,
    claims: Sequence[asyncpg.Record],
    *,
    worker: int = WORKER,
    attempts: int = 0,
    delay_s: float | None = None,
    error: str | None = None,
    interruptions: int | None = None,
    now: Any = None,
) -> list[int]:
    """Settle claims that go on living, all in the same way. Returns the ids that were written."""
    pairs = sorted((claim["id"], claim["lock_token"]) for claim in claims)
    count = len(pairs)
    rows = await sql.run(
        "settle_changed",
        worker,
        [id_ for id_, _ in pairs],
        [token for _, token in pairs],
        [attempts] * count,
        [delay_s] * count,
        [error] * count,
        [interruptions] * count,
        now,
    )
    written = [row["id"] for row in rows]
    if len(written) < count and await sql.run("unpack", worker, sorted({token for _, token in pairs})):
        missed = [claim for claim in claims if claim["id"] not in written]
        more = {"attempts": attempts, "delay_s": delay_s, "error": error, "interruptions": interruptions, "now": now}
        written += await change(sql, missed, worker=worker, **more)
    return written


async def locked_queues(sql: Session) -> list[str]:
    """The names of the queues that are busy."""
    return await sql.values("select name from asyncq._queues order by name")


async def stray_queues(sql: Session) -> list[str]:
    """The names of the queues that have a row and no running job of its owner, or a running job and no row."""
    return await sql.values("""
        select coalesce(queue.name, job.queue)
        from asyncq._queues as queue
        full join (
          select queue, locked_by from asyncq._all_jobs() where locked_by is not null and queue is not null) as job
          on job.queue = queue.name and job.locked_by = queue.locked_by
        where job.queue is null or queue.name is null""")


async def claimed(sql: Session) -> list[int]:
    """The ids of the jobs that are claimed."""
    return await sql.values("select id from asyncq._all_jobs() where locked_by is not null order by id")


async def are_left(sql: Session) -> bool:
    """Whether jobs are to be run; those too that a transaction holds, which hides them from fetches and rescues."""
    return await sql.value("select exists (select from asyncq._jobs as job where not asyncq._has_failed(job))")
