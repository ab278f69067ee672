"""Helpers for jobs in SQL: add, claim, settle, read."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import asyncpg

from asyncq.domain.moment import read_moment
from asyncq.store.arrays import array_numbers, array_text, sent_numbers
from tests.support.session import Session

WORKER = 1
NO_PARTITIONS = "delete from asyncq._partitions; delete from asyncq._wakeups"
"""Forgets what is known of all partitions."""
COUNTED = "update asyncq._partitions set recount_since = null"
"""Ends the time in which each fetch counts the claims of gates: all statements know them."""
BATCH_FROM_ROWS = 1000
BATCH_FROM = {"rows": BATCH_FROM_ROWS, "batched": 1}
"""The forms of a claim, and from how many jobs on a fetch claims a batch."""
OF_A_BATCH = {"ids", "task_ids", "queues", "limits", "priorities", "due", "created", "payloads", "metas", "partitions"}
NUMBERS_OF_REST = {0, 1, 3, 4, 6, 8}
"""The places of the arrays of numbers among those of `settle_rest`."""
NOT_OF_A_ROW = OF_A_BATCH | {"are_woken", "again_s", "start_within_s"}
"""The columns of a fetch that are filled for a batch alone, or belong to no job."""
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
    payload: str = "{}",
) -> int:
    """Add a job; `run_at` is an expression of SQL. Returns its id."""
    return await sql.value(
        f"select id from asyncq.add_job($1, $6::text::json, $2, {run_at}, $3, null, $4, $5)",
        task,
        queue,
        max_attempts,
        priority,
        flags,
        payload,
    )


async def add_many(sql: Session, count: int, *, queue: str = "null", run_at: str = "now()", **columns: str) -> None:
    """Add jobs of task `t` in one statement; everything is an expression of SQL over their number `i`."""
    await sql.execute(f"""
        select asyncq.add_jobs(array_agg(
          ('t', null, {queue}, {run_at}, null, null, {columns.get("priority", "0")}, null, null, null)::asyncq.job_spec
          order by i))
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
    form: str = "rows",
    choice: str | None = None,
) -> list[dict[str, Any]]:
    """Claim jobs, of all tasks by default. Returns the claims in order of running."""
    names = "" if tasks is None else "where identifier = any($1::text[])"
    ids = await sql.values(f"select id from asyncq._tasks {names}", *([] if tasks is None else [tasks]))
    packs = BATCH_FROM[form] < BATCH_FROM_ROWS  # a batch has a token of its own
    token = token or (next(_tokens) if packs else 1)
    claims: list[dict[str, Any]] = []

    async def run(name: str, number: int) -> asyncpg.Record:
        most = limit - len(claims)
        arguments = (worker, number, most, array_text(ids), forbidden, *after, now, since_s, BATCH_FROM[form], "{}")
        rows = await sql.run(name, *arguments, False if name == "fetch_jobs" else choice)
        claims.extend(jobs_of(rows, number))
        return rows[0]

    # As a worker does: again at once if something is left.
    while (await run("fetch_partitions", token))["again_s"] == 0:
        token = next(_tokens) if packs and claims else token
    await run("fetch_jobs", next(_tokens) if packs and claims else token)
    return sorted(claims, key=lambda job: (job["priority"], read_moment(job["run_at"]), job["id"]))


def jobs_of(rows: Sequence[asyncpg.Record], token: int) -> list[dict[str, Any]]:
    """The jobs of an answer of `fetch_jobs`, those of a batch among them, each as a row of its own."""
    return [
        job
        for row in rows
        if row["id"] is not None or row["ids"] is not None
        for job in ([_of_row(row)] if row["ids"] is None else _of_batch(row, token))
    ]


def _of_row(row: asyncpg.Record) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in NOT_OF_A_ROW}


def _of_batch(row: asyncpg.Record, token: int) -> list[dict[str, Any]]:
    ids, due = sent_numbers(row["ids"], "q"), sent_numbers(row["due"], "q")
    columns = zip(
        ids,
        sent_numbers(row["task_ids"], "i"),
        [None] * len(ids) if row["queues"] is None else json.loads(row["queues"]),
        sent_numbers(row["limits"], "h"),
        sent_numbers(row["priorities"], "h"),
        due,
        due if row["created"] is None else sent_numbers(row["created"], "q"),
        row["payloads"].split("\x1e"),
        [None] * len(ids) if row["metas"] is None else [meta or None for meta in row["metas"].split("\x1e")],
        sent_numbers(row["partitions"], "q") if row.get("partitions") else [None] * len(ids),
        strict=True,
    )
    return [
        _of_row(row)
        | {"id": id_, "task_id": task_id, "queue": queue, "lock_token": token, "attempts": 0, "max_attempts": limit}
        | {"interruptions": 0, "priority": priority, "revision": 0, "run_at": _sent(run_at)}
        | {"created_at": _sent(created), "updated_at": _sent(created), "payload": payload, "meta": meta}
        | {"partition": partition}
        for id_, task_id, queue, limit, priority, run_at, created, payload, meta, partition in columns
    ]


def _sent(moment: int) -> bytes:
    return moment.to_bytes(8, "big", signed=True)


async def fetched(sql: Session, limit: int = 100, **options: Any) -> list[int]:
    """Claim jobs. Returns their ids in order of running."""
    return [row["id"] for row in await fetch(sql, limit, **options)]


async def complete(
    sql: Session, claims: Sequence[Mapping[str, Any]], worker: int = WORKER, *, kept: bool = False
) -> list[int]:
    """Settle claims as completed; if kept, each with its id as the result. Returns the ids that were written."""
    pairs = sorted((claim["id"], claim["lock_token"]) for claim in claims)
    past = ("\x1e".join(str(id_) for id_, _ in pairs), array_text([1] * len(pairs))) if kept else (None, None)
    (row,) = await sql.run("settle_completed", worker, *texts(pairs), *past)
    return [id_ for id_, _ in pairs] if row["written"] is None else array_numbers(row["written"])


def texts(pairs: Sequence[tuple[int, int]]) -> tuple[str, str]:
    """The ids and the tokens of claims, as statements take them."""
    return array_text(id_ for id_, _ in pairs), array_text(token for _, token in pairs)


async def claim_next(
    sql: Session,
    claims: Sequence[Mapping[str, Any]],
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
    rows = await sql.run(
        "claim_next", worker, *texts(pairs), limit, token, array_text(known), forbidden, None, None, None
    )
    return [row["settled"] for row in rows if row["settled"]], [row for row in rows if not row["settled"]]


async def settle_rest(
    sql: Session,
    claims: Sequence[Mapping[str, Any]],
    *,
    worker: int = WORKER,
    done: bool = False,
    attempts: int = 0,
    delay_s: float | None = None,
    error: str | None = None,
    interruptions: int | None = None,
    kind: str | None = None,
    duration_s: float | None = None,
    result: str | None = None,
    payload: str | None = None,
) -> dict[int, str]:
    """Settle claims, all in the same way. Returns what became of each."""
    pairs = sorted((claim["id"], claim["lock_token"]) for claim in claims)
    values = ("completed" if done else None, attempts, delay_s, error, interruptions, kind, duration_s, result, payload)
    numbers = [[value] * len(pairs) for value in values]
    ids, tokens = [id_ for id_, _ in pairs], [token for _, token in pairs]
    rows = await sql.run("settle_rest", worker, *rest(ids, tokens, *numbers))
    return {row["id"]: row["ending"] for row in rows}


def rest(*arrays: Sequence[Any]) -> Iterator[Any]:
    """The arrays of `settle_rest`, as it takes them: those of numbers as texts."""
    for place, array in enumerate(arrays):
        yield array_text(array) if place in NUMBERS_OF_REST else array


async def change(sql: Session, claims: Sequence[asyncpg.Record], *, worker: int = WORKER, **values: Any) -> list[int]:
    """Settle claims of jobs that continue to live, all in the same way. Returns the ids that were written."""
    endings = await settle_rest(sql, claims, worker=worker, **values)
    return sorted(id_ for id_, ending in endings.items() if ending == "written")


async def still_held(sql: Session, claims: Sequence[asyncpg.Record], worker: int = WORKER) -> list[int]:
    """The claims among these that the worker still has."""
    rows = await sql.rows("select id, lock_token from asyncq._all_jobs() where locked_by = $1", worker)
    held = {tuple(row) for row in rows}
    return sorted(claim["id"] for claim in claims if (claim["id"], claim["lock_token"]) in held)


def to_queue(name: str | None) -> str:
    """Move jobs to a queue, as the assignments of an update."""
    if name is None:
        return "queue = null, partition = null"
    return f"queue = '{name}', partition = asyncq._partition(1::smallint, '{name}')"


async def wake(sql: Session) -> None:
    """Insert the partitions and wakeups of ready jobs whose rows were written by hand."""
    await sql.execute("""
        update asyncq._jobs set partition = asyncq._partition_of(task_id, queue, payload)
          where partition is distinct from asyncq._partition_of(task_id, queue, payload);
        select asyncq._wake_partitions(array(select id from asyncq._jobs))""")


async def locked_queues(sql: Session) -> list[str]:
    """The names of the queues that are busy: their partitions count a running job whose end no wakeup says."""
    return await sql.values("""
        select held.key from asyncq._partitions as held
        join asyncq._partition_counts() as counted using (id)
        where counted.jobs > 0 order by held.key""")


async def stray_queues(sql: Session) -> list[str]:
    """The names of the queues whose partitions do not count what runs."""
    return await sql.values("""
        select held.key from asyncq._partitions as held
        join asyncq._partition_counts() as counted using (id)
        where counted.jobs <> counted.running order by held.key""")


async def claimed(sql: Session) -> list[int]:
    """The ids of the jobs that are claimed."""
    return await sql.values("select id from asyncq._all_jobs() where locked_by is not null order by id")


async def are_left(sql: Session) -> bool:
    """Whether jobs must still be run.

    Jobs locked by a transaction count, though fetches and rescues do not see them.
    """
    return await sql.value("select exists (select from asyncq._jobs as job where not asyncq._is_discarded(job))")
