"""Adds jobs in one round trip. Every rule is in SQL or in the domain.

| jobs and connection | statement |
| --- | --- |
| a plain job, on asyncq's own connection, while a worker waits for it | `fill_slot` |
| a plain job, on asyncq's own connection | `insert_job` |
| the same, and its client awaits it, while a worker waits for it | `fill_slot_awaited` |
| one job without a key, on any connection | `add_keyless_job` |
| any jobs | `add_jobs`; `enqueue` for a role that may do nothing else |
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal

import asyncpg
import msgspec

from asyncq.domain.codec import KnownKey, check_clear
from asyncq.domain.deduplication import DEFAULT_WINDOW, extra, options
from asyncq.domain.errors import InvalidJob
from asyncq.domain.job import Added, JobSpec, Outcome
from asyncq.domain.moment import instant_text
from asyncq.domain.states import JobState
from asyncq.domain.time_limit import extras_of
from asyncq.store.failures import tell_of_call
from asyncq.store.roles import WayIn
from asyncq.store.schema import Schema
from asyncq.store.sizes import check_size

# Separates the elements of a text; neither JSON nor a task's name can contain it.
_BETWEEN = "\x1e"

# An add looks for a waiting worker this often. An add that finds none costs as much as two adds.
LOOK_S = 0.02

# The first step of a plain add. "look" inserts the job unless workers wait; then it fills a slot.
Step = Literal["fill", "look", "insert"]


class HandoffHints:
    """Remembers the tasks for which a worker may wait, from the earlier adds of one client.

    Of many concurrent adds only one looks for a waiting worker, or fills a slot, because a slot takes one job. The
    others insert, and so notify the on-call worker.
    """

    def __init__(self) -> None:
        self._filled: set[str] = set()  # tasks for which the last add filled a slot
        self._look_at: dict[str, float] = {}  # task -> when an add may look again

    def next_step(self, task: str) -> Step:
        """Choose the first step of an add of this task."""
        now = asyncio.get_running_loop().time()
        is_expected = task in self._filled
        if not is_expected and now < self._look_at.get(task, now):
            return "insert"
        self._filled.discard(task)
        self._look_at[task] = now + LOOK_S
        return "fill" if is_expected else "look"

    def filled(self, task: str) -> None:
        """Remember that a worker waited for a job of this task: it will soon wait for the next one."""
        self._filled.add(task)


async def add_jobs(
    database: Schema,
    connection: asyncpg.Connection,
    specs: Sequence[JobSpec],
    way_in: WayIn = "directly",
    window: timedelta = DEFAULT_WINDOW,
    *,
    hints: HandoffHints | None = None,
) -> list[Added]:
    """Add checked jobs in one round trip, on any connection, inside its transaction if it has one.

    Args:
        connection: asyncq's own or the caller's; it may have other codecs.
        window: For how long idempotency keys hold.
        hints: Given if the connection is asyncq's own, is in no transaction, and keeps prepared statements: then a
            single plain job needs one statement. Without prepared statements the server would plan that each time. A
            function's plans are kept by the session.

    Returns the result of each add, in the order of the specs. InvalidJob if a job has no key under its unique policy,
    the server found a broken rule, or the jobs exceed 256 MiB: nothing was sent then. CodecFailed likewise.

    If cancelled, the outcome is unknown unless the caller's transaction rolls back.
    """
    if not specs:
        return []
    if database.envelopes is not None:
        check_takes_nothing(specs)
        specs = [database.envelopes.sealed(spec) for spec in specs]
    else:
        for spec in specs:
            check_clear(spec)
    try:
        if len(specs) == 1 and way_in == "directly" and specs[0].is_keyless:
            if hints is not None and specs[0].is_plain:
                add = _add_plain if specs[0].returns.watcher is None else _add_awaited
                job_id = await add(database, connection, specs[0], hints)
            else:
                job_id = await _add_keyless(database, connection, specs[0])
            if job_id is not None:
                return [Added(job_id)]
        if way_in == "by_enqueue":
            documents = msgspec.json.encode([document(spec, window) for spec in specs]).decode()
            check_size("specs", [documents])
            rows = await connection.fetch(database.query("enqueue"), documents)
            return [_added(row["outcome"], row["id"], row["existing_id"], row["existing_state"]) for row in rows]
        columns = _columns(specs, window)
        check_size("specs", columns)
        (answer,) = await connection.fetch(database.query("add_jobs"), *columns)
    except BaseException as error:
        tell_of_call(error, database.schema)
        raise
    ids = list(map(int, answer["ids"]))
    added = list(map(Added, ids))
    if answer["ords"] is not None:
        special = zip(*(answer[name] for name in ("ords", "outcomes", "existing_ids", "existing_states")), strict=True)
        for ord_, outcome, existing_id, existing_state in special:
            place = int(ord_) - 1
            existing = None if existing_id is None else int(existing_id)
            added[place] = _added(outcome, ids[place], existing, existing_state)
    return added


def check_takes_nothing(specs: Sequence[JobSpec]) -> None:
    """Refuse jobs that take results: the server would make a payload of what is encoded. InvalidJob if there is one."""
    if taking := next((spec for spec in specs if spec.takes is not None), None):
        said = f"task {taking.task!r} takes the results of other jobs, which a client with a codec cannot pass on"
        raise InvalidJob(f"{said}: the server cannot decode them", code="GWBAF", field="takes")


async def _add_plain(
    database: Schema, connection: asyncpg.Connection, spec: JobSpec, hints: HandoffHints
) -> int | None:
    """Add a plain job; its id, or None if its task is not stored yet."""
    values = (spec.task, spec.payload, spec.max_attempts, spec.priority)
    insert = database.query("insert_job")
    step = hints.next_step(spec.task)
    if step == "look" and (rows := await connection.fetch(insert, *values, True)):  # noqa: FBT003
        return rows[0]["id"]
    if step != "insert" and (rows := await connection.fetch(database.query("fill_slot"), *values)):
        hints.filled(spec.task)
        return rows[0]["id"]
    rows = await connection.fetch(insert, *values, False)  # noqa: FBT003
    return rows[0]["id"] if rows else None


async def _add_awaited(
    database: Schema, connection: asyncpg.Connection, spec: JobSpec, hints: HandoffHints
) -> int | None:
    """Add a job that is plain, but that the client awaits; its id, or None if its task is not stored yet."""
    if hints.next_step(spec.task) != "insert":
        extras = msgspec.json.encode(extras_of(None, None, spec.returns.watcher)).decode()
        values = (spec.task, spec.payload, spec.max_attempts, spec.priority, extras)
        if rows := await connection.fetch(database.query("fill_slot_awaited"), *values):
            hints.filled(spec.task)
            return rows[0]["id"]
    return await _add_keyless(database, connection, spec)


async def _add_keyless(database: Schema, connection: asyncpg.Connection, spec: JobSpec) -> int | None:
    """Add a job without a key; its id, or None if its task is not stored yet."""
    values = (spec.task, spec.payload, spec.queue, spec.run_at and instant_text(spec.run_at), extra(spec))
    (row,) = await connection.fetch(database.query("add_keyless_job"), *values)
    return row["id"]


def _added(outcome: Outcome, job_id: int, existing_id: int | None, existing_state: str | None) -> Added:
    return Added(job_id, outcome, existing_id, None if existing_state is None else JobState(existing_state))


def _columns(specs: Sequence[JobSpec], window: timedelta) -> tuple[Sequence[Any] | None, ...]:
    """Return the parameters of add_jobs: text only; None for a column that no spec sets."""
    queues = [spec.queue for spec in specs]
    return (
        _BETWEEN.join([spec.task for spec in specs]),
        _BETWEEN.join([spec.payload for spec in specs]),
        queues if any(queues) else None,
        _joined([spec.run_at and instant_text(spec.run_at) for spec in specs]),
        _joined([extra(spec, window) for spec in specs]),
    )


def _joined(values: list[str | None]) -> str | None:
    return _BETWEEN.join([value or "" for value in values]) if any(values) else None


def document(spec: JobSpec, window: timedelta) -> dict[str, Any]:
    """Return a job as the SQL function enqueue takes it: the arguments of add_job that are not the defaults."""
    if isinstance(spec.unique, KnownKey):
        said = f"task {spec.task!r}: this role may only call enqueue, which computes the unique key from the payload"
        raise InvalidJob(f"{said}, and cannot read an encoded one", code="GWBPL", field="payload")
    if spec.after is not None and min(spec.after, default=1) < 0:
        said = f"task {spec.task!r}: this role may only call enqueue, which adds no workflow"
        raise InvalidJob(f"{said}: add it as a role that may add jobs", code="GWBAF", field="after")
    arguments = {
        "identifier": spec.task,
        "payload": msgspec.Raw(spec.payload.encode()),
        "queue_name": spec.queue,
        "run_at": spec.run_at and instant_text(spec.run_at),
        "max_attempts": spec.max_attempts,
        "job_key": spec.job_key,
        "priority": spec.priority,
        "flags": spec.flags or None,
        "job_key_mode": spec.job_key_mode,
        "options": options(spec, window) or None,
    }
    return {name: value for name, value in arguments.items() if value is not None}
