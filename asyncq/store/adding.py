"""Adds: specs in, one round trip, answers out; every rule stands in SQL or in the domain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import msgspec

from asyncq.domain.deduplication import DEFAULT_WINDOW, options, question
from asyncq.domain.job import Added, JobSpec, Outcome
from asyncq.domain.states import JobState
from asyncq.store.at_once import AtOnce
from asyncq.store.database import Database
from asyncq.store.failures import tell_of_call
from asyncq.store.roles import WayIn
from asyncq.store.sizes import check_size

_json = msgspec.json.Encoder()

# Stands between the elements of a text; neither JSON nor a task's name can hold it.
_BETWEEN = "\x1e"


async def add_jobs(
    database: Database,
    connection: asyncpg.Connection,
    specs: Sequence[JobSpec],
    way_in: WayIn = "directly",
    window: timedelta = DEFAULT_WINDOW,
    *,
    at_once: AtOnce | None = None,
) -> list[Added]:
    """Add jobs in one round trip, on any connection, inside its transaction if it has one.

    Args:
        database: Names the schema.
        connection: An asyncpg connection, of ours or of a caller; it may have codecs of its own.
        specs: The jobs, checked.
        way_in: What the connection's role may call, see `roles.way_in`.
        window: For how long idempotency keys hold.
        at_once: Given if the connection is in no transaction, and so commits at once: then a job that is added alone
            may be claimed for a worker that offers to take one.

    Returns:
        What each add came to, in the order of the specs.

    Raises:
        StoreError: See `failures.calling`.
        InvalidJob: A job has no key under its unique policy, the server found a broken rule, or the jobs exceed
            256 MiB: nothing was sent then.

    If cancelled, the outcome is unknown unless the caller's transaction rolls back.
    """
    if not specs:
        return []
    try:
        is_short = len(specs) == 1 and way_in == "directly" and _is_keyless(specs[0])
        if is_short and (job_id := await _add_keyless(database, connection, specs[0], at_once)):
            return [Added(job_id)]
        if way_in == "by_enqueue":
            documents = _documents(specs, window)
            check_size("specs", [documents])
            rows = await connection.fetch(database.query("enqueue"), documents)
            return [_added(*list(row)[1:]) for row in rows]
        columns = _columns(specs, window)
        check_size("specs", columns)
        (answer,) = await connection.fetch(database.query("add_jobs"), *columns)
    except BaseException as error:
        tell_of_call(error, database.schema)
        raise
    added = list(map(Added, answer["ids"]))
    if answer["ords"] is not None:
        special = zip(*(answer[name] for name in ("ords", "outcomes", "existing_ids", "existing_states")), strict=True)
        for ord_, outcome, existing_id, existing_state in special:
            added[ord_ - 1] = _added(outcome, answer["ids"][ord_ - 1], existing_id, existing_state)
    return added


def _is_keyless(spec: JobSpec) -> bool:
    """Whether a job asks nothing about others, and has no key."""
    return spec.job_key is None and spec.unique is None and not spec.singleton and spec.idempotency_key is None


async def _add_keyless(
    database: Database, connection: asyncpg.Connection, spec: JobSpec, at_once: AtOnce | None
) -> int | None:
    """Add such a job; its id, or None if `add_jobs` has to do it."""
    if at_once is None or not at_once.keeps_statements:
        values = *_values(spec), at_once is not None
        ((job_id,),) = await connection.fetch(database.query("add_keyless_job"), *values)
        return job_id
    way, cursor = at_once.way(spec)
    plain = (spec.task, spec.payload, spec.max_attempts, spec.priority)
    if way == "fill_offer":
        if rows := await connection.fetch(database.query(way), *plain):
            at_once.learn(spec.task, packs=True)
            return rows[0]["id"]
        way = "insert_plain_job"
    if way != "add_at_once":
        values = plain if way == "insert_plain_job" else _values(spec)
        if rows := await connection.fetch(database.query(way), *values, cursor):
            return rows[0]["id"]
    ((job_id, packs),) = await connection.fetch(database.query("add_at_once"), *_values(spec))
    at_once.learn(spec.task, packs=packs)
    return job_id


def _values(spec: JobSpec) -> tuple[Any, ...]:
    """Such a job as the parameters of add_keyless_job, text and integers only."""
    return (
        *(spec.task, spec.payload, spec.queue, spec.run_at and _instant(spec.run_at)),
        *(spec.max_attempts, spec.priority, _flags(spec.flags) if spec.flags else None, spec.meta),
    )


def _added(outcome: Outcome, job_id: int, existing_id: int | None, existing_state: str | None) -> Added:
    return Added(job_id, outcome, existing_id, None if existing_state is None else JobState(existing_state))


def _columns(specs: Sequence[JobSpec], window: timedelta) -> tuple[Sequence[Any] | None, ...]:
    """Specs as the parameters of add_jobs, text and integers only; None for a column that says nothing of any."""
    columns = dict(zip(JobSpec.__struct_fields__, zip(*map(msgspec.structs.astuple, specs), strict=True), strict=True))

    def column(name: str, default: Any = None) -> Sequence[Any] | None:
        values = columns[name]
        return None if values.count(default) == len(values) else values

    def joined(name: str, write: Callable[[Any], str] = str, default: Any = None) -> str | None:
        values = column(name, default)
        return None if values is None else _BETWEEN.join(["" if value == default else write(value) for value in values])

    asks = any(map(any, (columns["unique"], columns["singleton"], columns["idempotency_key"])))
    return (
        _BETWEEN.join(columns["task"]),
        _BETWEEN.join(columns["payload"]),
        column("queue"),
        joined("run_at", _instant),
        column("max_attempts"),
        column("job_key"),
        column("priority"),
        joined("flags", _flags, ()),
        joined("job_key_mode"),
        joined("meta"),
        _BETWEEN.join([question(spec, window) or "" for spec in specs]) if asks else None,
    )


def _flags(flags: tuple[str, ...]) -> str:
    return _json.encode(dict.fromkeys(flags, True)).decode()


def _instant(run_at: datetime) -> str:
    """In UTC: an offset with seconds, as some old zones have, is not read by PostgreSQL."""
    return run_at.astimezone(UTC).isoformat()


class Document(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job as the SQL function enqueue takes it: the arguments of add_job."""

    identifier: str
    payload: msgspec.Raw
    queue_name: str | None = None
    run_at: str | None = None
    max_attempts: int | None = None
    job_key: str | None = None
    priority: int | None = None
    flags: tuple[str, ...] = ()
    job_key_mode: str | None = None
    options: dict[str, Any] | None = None


def _documents(specs: Sequence[JobSpec], window: timedelta) -> str:
    return _json.encode([_document(spec, window) for spec in specs]).decode()


def _document(spec: JobSpec, window: timedelta) -> Document:
    return Document(
        identifier=spec.task,
        payload=msgspec.Raw(spec.payload.encode()),
        queue_name=spec.queue,
        run_at=None if spec.run_at is None else _instant(spec.run_at),
        max_attempts=spec.max_attempts,
        job_key=spec.job_key,
        priority=spec.priority,
        flags=spec.flags,
        job_key_mode=spec.job_key_mode,
        options=options(spec, window) or None,
    )
